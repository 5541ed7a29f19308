"""Advantages, token weights, losses and the recipes that combine them; nothing here knows verl."""
