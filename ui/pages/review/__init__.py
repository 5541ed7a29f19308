"""The review queue: keys and their effects, the browser part that listens for keys, and the results."""
