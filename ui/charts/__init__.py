"""Charts: pure functions from rows to a chart, the same for the command line and the pages.

Each raises InputError for rows, columns or values that cannot be drawn, and PrerequisiteError without altair.
"""
