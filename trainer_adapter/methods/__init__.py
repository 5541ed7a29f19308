"""Advantages, token weights, losses and the recipes that combine them, independent of verl."""
