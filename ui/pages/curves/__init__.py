"""The parts of the page "Curves"."""
