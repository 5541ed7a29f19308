"""Joining a Ray cluster, or starting one of this machine alone."""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from service.errors import PrerequisiteError, first_line

_CONNECT_S = 10.0


def join_cluster(address: str | None, purpose: str, **options: Any) -> Any:
    """Return the module `ray`, connected to a cluster until `leave_cluster`.

    Args:
        address: `auto`, or HOST:PORT of its head; None starts one of this machine, which ends with this
            process.
        purpose: what it is for, as messages put it.
        options: of `ray.init`.

    Raises:
        PrerequisiteError: Ray is not installed, or there is no such cluster.
    """
    try:
        import ray
    except ImportError:
        raise PrerequisiteError(f"{purpose} needs Ray: pip install 'ray>=2.54'.") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    options |= {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        with _keeping_sigterm():
            if address is None:
                ray.init(address="local", include_dashboard=False, **options)
            else:
                _check_reachable(address)
                ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        reason = first_line(error)
        if address is None:
            raise PrerequisiteError(f"{purpose}: Ray does not start on this machine ({reason}).") from None
        raise PrerequisiteError(
            f"--ray-address {address}: no Ray cluster can be reached ({reason}). On its first node start "
            "one by `ray start --head`, on the others `ray start --address HOST:PORT`."
        ) from None
    return ray


def leave_cluster(ray: Any) -> None:
    """Leave the cluster; one of this machine alone ends."""
    with _keeping_sigterm():
        ray.shutdown()


@contextlib.contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM: Ray sets its own when it comes and the system's default when it goes."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Raise OSError where nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
