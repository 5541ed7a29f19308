"""Runs programs that nobody vouches for; `running` is what others call, the rest is what it starts.

What runs inside is the standard library and this package alone (`launcher` says how).
"""
