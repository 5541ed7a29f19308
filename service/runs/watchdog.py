"""Says when nothing comes back: from which endpoint, how many requests wait, and which worker sent them."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

_LOG = logging.getLogger("tagrpo.watchdog")


class Watchdog:
    """Knows which requests are in flight and when the last answer came."""

    def __init__(
        self,
        endpoint: str,
        worker: str,
        stall_s: float,
        clock: Callable[[], float] = time.monotonic,
        others: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Set up.

        Args:
            endpoint: where requests go, in words.
            worker: the process that sends them, in words.
            stall_s: after how many seconds without an answer it speaks, and speaks again.
            clock: seconds that no correction moves.
            others: gives the complaints of others, who speak when this one looks.
        """
        self._others = others
        self._endpoint, self._worker, self._stall_s, self._clock = endpoint, worker, stall_s, clock
        self._sent: dict[str, float] = {}
        self._quiet_since = clock()

    def sent(self, key: str) -> None:
        """Note that a request is on its way."""
        if not self._sent:
            self._quiet_since = self._clock()
        self._sent[key] = self._clock()

    def came(self, key: str) -> None:
        """Note that a request got its answer, or failed for good."""
        self._sent.pop(key, None)
        self._quiet_since = self._clock()

    def complaint(self) -> str | None:
        """Return what is to be said now; None where something came not long ago, or nothing is asked."""
        now = self._clock()
        if not self._sent or now - self._quiet_since < self._stall_s:
            return None
        quiet, self._quiet_since = now - self._quiet_since, now
        oldest = min(self._sent, key=self._sent.__getitem__)
        count = len(self._sent)
        waiting = "1 request waits" if count == 1 else f"{count:,} requests wait"
        return (
            f"nothing came back from {self._endpoint} for {quiet:,.0f} s: {waiting}, the oldest (cell "
            f"{oldest}) for {now - self._sent[oldest]:,.0f} s, sent by {self._worker}. Ctrl-C ends the run "
            "once these have come, a second one at once"
        )

    async def watch(self) -> None:
        """Look now and then, and warn; ends when it is cancelled."""
        while True:
            await asyncio.sleep(self._stall_s / 10)
            for complaint in (self.complaint(), *self._others()):
                if complaint is not None:
                    _LOG.warning("%s", complaint)
