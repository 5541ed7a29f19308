"""Commands of the demo and its small world."""
