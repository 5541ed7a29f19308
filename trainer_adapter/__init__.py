"""Training with verl: the export that verl reads."""
