"""The review queue: keys and what they do to it, the part of the page that hears them, its results."""
