"""A judge model for undecided grades: its prompt, its replies, and its grades."""
