"""What is certain about a candidate from its text alone, and what a model says about its premises."""
