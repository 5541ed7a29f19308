"""Foundation: database, questions, runs, and access to models."""
