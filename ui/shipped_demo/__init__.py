"""The demo that ships with tagrpo: database and rollouts of a real demo, unpacked on first use."""
