"""Eval runs: problems, the samples drawn for them, their texts and grades, in the database."""
