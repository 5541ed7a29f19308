"""The server behind the pages: who may reach it, what it answers, how it starts and ends."""
