"""A process's identity."""

import os

from service.process import has_ended, this_process


def test_without_a_namespace_the_boot_still_tells_machines_apart(monkeypatch):
    boot = this_process().partition("|")[0]

    def refuse(_):
        raise OSError

    monkeypatch.setattr(os, "readlink", refuse)
    assert this_process().startswith(f"{boot}|-|")
    assert has_ended(this_process()) is False


def test_a_process_of_unknown_start_may_still_run():
    identity = this_process()
    assert has_ended(identity) is False
    assert has_ended(identity.rpartition("|")[0] + "|?") is None
