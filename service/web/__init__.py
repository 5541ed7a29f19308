"""What the servers share: listening on a port."""
