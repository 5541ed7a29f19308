"""What a page stands on: the database, the address, what was chosen."""
