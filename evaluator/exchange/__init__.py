"""Exchange with other tools: import files as evaluations, export evaluations as files."""
