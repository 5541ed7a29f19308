"""The UI's server: access control, responses, start and shutdown."""
