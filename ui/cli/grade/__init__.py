"""`tagrpo grade`: the grader for others than evaluations and trainings."""
