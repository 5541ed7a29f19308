"""Questions: reading them from files and the Hub, storing them by content, mixing sets."""
