"""A run from questions to verdicts: plan requests, fill them, read, check, judge, and propose again."""
