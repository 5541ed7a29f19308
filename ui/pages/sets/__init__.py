"""The parts of the page "Sets"."""
