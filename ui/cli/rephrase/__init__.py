"""Commands of rephrasing: proposing, judging, reviewing."""
