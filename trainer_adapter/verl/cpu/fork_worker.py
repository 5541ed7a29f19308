"""What Ray starts as a worker's Python: asks `fork_server.py` for a fork of itself and stands in for it.

Needs only the standard library. It ends as the fork does, and the fork ends with this process. If nothing is
forked, this process becomes the worker itself.
"""

import json
import os
import socket
import sys

VARIABLE = "TAGRPO_FORK_SERVER"
"""Names the socket of the server in the environment."""

HEADER_BYTES = 8


def ask(arguments: list[str]) -> int | None:
    """Return how the fork ended that ran these arguments; None where nothing was forked."""
    asked = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    }
    body = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.environ.get(VARIABLE, ""))
            socket.send_fds(connection, [len(body).to_bytes(HEADER_BYTES, "big")], [0, 1, 2])
            connection.sendall(body)
            answers = connection.makefile("rb")
            if not answers.readline():
                return None
        except OSError:
            return None
        try:
            return int(answers.readline() or 1)
        except OSError:
            return 1  # a fork that was killed says nothing


if __name__ == "__main__":
    ended = ask(sys.argv[1:])
    if ended is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    os._exit(ended)
