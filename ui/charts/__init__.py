"""Charts: pure functions from rows to a chart, shared by the command line and the UI.

Each raises InputError for rows, columns or values that cannot be drawn, and PrerequisiteError without altair.
"""
