"""Runs programs that nobody vouches for in bubblewrap: `running` starts it, the other modules run inside.

Inside, only the standard library and this package exist.
"""
