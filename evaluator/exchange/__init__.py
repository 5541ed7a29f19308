"""Responses to and from other tools: files read as evaluations, evaluations written as files."""
