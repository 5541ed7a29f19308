"""Looking at questions and candidates: a run page by page, a search over all runs, all known about one."""
