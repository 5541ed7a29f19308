"""The grader behind HTTP: a batch route of its own, and what OpenRLHF and NeMo Gym send."""
