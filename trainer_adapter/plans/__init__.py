"""Estimates before training starts: responses, hours and memory."""
