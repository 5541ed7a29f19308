"""The one migration history of all rooms."""
