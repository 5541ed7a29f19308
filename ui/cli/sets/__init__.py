"""Commands of published neighbor sets."""
