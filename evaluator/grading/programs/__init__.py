"""Grading of programs: they are found in responses here, and run in an enclosure (`service.enclosure`)."""
