"""Question sets: imported, compared with each other and with benchmarks, mixed, stored."""
