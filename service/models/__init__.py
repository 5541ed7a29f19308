"""Samplers: where the responses of an eval run come from. Importing this loads no engine."""
