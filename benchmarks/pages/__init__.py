"""How fast the pages are, on a large database made here."""
