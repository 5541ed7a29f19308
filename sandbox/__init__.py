"""A world small enough for a laptop: embedded questions and the demo."""
