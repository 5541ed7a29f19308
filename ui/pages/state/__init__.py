"""State of a page: the database, the address, the current choices."""
