"""Ground floor: the database, questions, runs of paid or long work, and the models that are asked."""
