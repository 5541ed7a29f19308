"""Run by Python at its start, where a test runs on PostgreSQL: see `postgres_redirect`."""

import os

if "TAGRPO_TEST_CLUSTER" in os.environ:
    import postgres_redirect

    postgres_redirect.install_from_environment()
