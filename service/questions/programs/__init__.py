"""Questions that ask for a program: what their gold holds, and reading them from rows."""
