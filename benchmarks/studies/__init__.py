"""What the documentation says of data: agreement, error rates, coverage, trainings."""
