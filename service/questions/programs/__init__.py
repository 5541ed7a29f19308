"""Reading questions that ask for programs from rows."""
