"""Commands of runs, and the options that all of them share."""
