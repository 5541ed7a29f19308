"""The `tagrpo` command."""
