"""Commands of the training signal."""
