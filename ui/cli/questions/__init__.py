"""Commands of question sets."""
