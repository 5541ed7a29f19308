"""Question sets: imported, compared, mixed, stored."""
