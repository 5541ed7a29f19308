"""The servers of an endpoint: what each one is, how many requests it takes, and which is asked next."""
