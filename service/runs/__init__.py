"""Runs: lists of cells to fill, each one request, so that whatever was paid for is kept and resumed."""
