"""What the servers share: listening on a port, and the types of ASGI."""
