"""Views of questions and candidates: pages of a run, search over all runs, details."""
