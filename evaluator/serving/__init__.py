"""The grader over HTTP: a batch route, and routes for OpenRLHF and NeMo Gym."""
