"""A judge model for what no rule decides: what it is asked, what it replies, its grades beside ours."""
