"""Charts: pure functions from a table to a chart, the same for the command line and the pages."""
