"""Readers of responses: a module a tool, each with `fits` and `open_rows`."""
