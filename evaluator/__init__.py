"""Ground floor: questions, responses, grading, remote models and the database they live in."""
