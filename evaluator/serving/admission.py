"""What the server takes in at a time: so many cases and so many bytes; beyond it is told to come again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

RETRY_AFTER_S = 1


class QueueFullError(Exception):
    """There is no room now; the request may come again."""


class TooLargeError(Exception):
    """The request alone is more than the server ever takes."""


@dataclass
class Queue:
    """Cases and bytes of all requests that are being answered; used from one event loop.

    Attributes:
        most_cases: of all requests together; one that alone has more is too large.
        most_bytes: of all bodies together.
        most_body_bytes: of one body.
    """

    most_cases: int
    most_bytes: int
    most_body_bytes: int
    cases: int = 0
    bytes: int = 0

    @contextmanager
    def entry(self) -> "Iterator[Entry]":
        """Count what a request holds, until it is answered."""
        entry = Entry(self)
        try:
            yield entry
        finally:
            self.cases -= entry.cases
            self.bytes -= entry.bytes


@dataclass
class Entry:
    """What one request holds."""

    queue: Queue
    cases: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)

    def add_bytes(self, count: int) -> None:
        """Take in so many bytes more.

        Raises:
            TooLargeError: the body has more than one may have.
            QueueFullError: all bodies together have.
        """
        queue = self.queue
        if self.bytes + count > queue.most_body_bytes:
            raise TooLargeError(f"the body has more than {queue.most_body_bytes:,} bytes. Send fewer cases.")
        if queue.bytes + count > queue.most_bytes:
            raise QueueFullError(f"{queue.bytes:,} bytes are in flight. Try again later.")
        self.bytes += count
        queue.bytes += count

    def add_cases(self, count: int) -> None:
        """Take in so many cases.

        Raises:
            TooLargeError: there are more than ever fit.
            QueueFullError: they do not fit now.
        """
        queue = self.queue
        if count > queue.most_cases:
            raise TooLargeError(f"{count:,} cases exceed the size of the queue ({queue.most_cases:,}).")
        if queue.cases + count > queue.most_cases:
            raise QueueFullError(f"{queue.cases:,} cases are waiting. Try again later.")
        self.cases += count
        queue.cases += count
