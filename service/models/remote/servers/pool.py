"""Which server is asked next: the least loaded one that answers; those that fail are left alone for a while.

litellm's Router was not taken. It counts requests in flight in callbacks, which cost a good part of each
call and are off here; a connection that is refused never keeps it from a server; and where all of a model's
servers are in its cooldown it raises at once instead of waiting. It would be a second owner of retries, too.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection, Sequence

from service.errors import PrerequisiteError
from service.models.remote.chat import (
    AUTHENTICATION,
    CONNECTION,
    INVALID_ANSWER,
    QUOTA,
    RATE_LIMITED,
    SERVER_ERROR,
    TIME_OUT,
    UNKNOWN_MODEL,
)
from service.models.remote.faults import Fault
from service.models.remote.servers.looking import Look, differences, look_at, merge_looks
from service.models.remote.servers.server import Server

_LOG = logging.getLogger("tagrpo.servers")

OVERLOADED = (503, 529)
REFUSING = frozenset({AUTHENTICATION, UNKNOWN_MODEL, QUOTA})
"""Faults that every request to the same server would meet."""

PASSING = frozenset({CONNECTION, SERVER_ERROR, RATE_LIMITED})
"""Faults of a server with which it says nothing about the request: it may be asked elsewhere at once."""

_COUNTED = PASSING | REFUSING | {TIME_OUT, INVALID_ANSWER}

FAILURES = 3
"""So many since its last answer, and a server is left alone: one that is busy answers in between."""

FIRST_S, LONGEST_S = 1.0, 60.0
"""How long a server is left alone, doubled each time until it answers."""


class Pool:
    """The servers of an endpoint, and who waits for them. One event loop only.

    A server that is the only one is never left alone: its requests are tried again, with growing pauses.
    """

    def __init__(self, servers: Sequence[Server], longest_pause_s: float) -> None:
        """Take the servers, none of which is asked for a longer pause than this."""
        self.servers = tuple(servers)
        self._longest_pause_s = longest_pause_s
        self._same: Look | None = None  # what all of them serve, as far as they have said
        self._waiting: deque[tuple[asyncio.Future[Server | None], Collection[Server]]] = deque()
        self._turns = 0

    @property
    def several(self) -> bool:
        """Whether there is more than one server."""
        return len(self.servers) > 1

    @property
    def room(self) -> int:
        """The number of requests that may be in flight at those that answer, or at all where none does."""
        answering = [server for server in self.servers if server.fault is None]
        return sum(server.limit.value for server in answering or self.servers)

    @property
    def refusing(self) -> bool:
        """Whether no server can answer any request: each refuses the key, the model or the account."""
        return all(each.fault is not None and each.fault.kind in REFUSING for each in self.servers)

    def complaints(self) -> list[str]:
        """Return what is to be said now about servers that have requests and do not answer."""
        dogs = [server.watchdog for server in self.servers if server.watchdog is not None]
        return [words for dog in dogs if (words := dog.complaint()) is not None]

    async def enter(
        self, stopping: asyncio.Event | None = None, failed: Collection[Server] = ()
    ) -> Server | None:
        """Wait until a server may be asked, and count the request as in flight there.

        Those in `failed` are asked last, before those alone that are left alone. None: `stopping` is set.
        """
        while stopping is None or not stopping.is_set():
            if (server := self._choose(failed)) is not None:
                self._take(server)
                return server
            turn: asyncio.Future[Server | None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, failed))
            self._match_after_pauses()
            try:
                server = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and (taken := turn.result()) is not None:
                    self.leave(taken)
                raise
            if server is not None:
                return server
        return None

    def leave(self, server: Server) -> None:
        """Count a request as no longer in flight."""
        server.in_flight -= 1
        self._match()

    def wake_all(self) -> None:
        """Let all that wait see whether they are to stop."""
        waiting, self._waiting = self._waiting, deque()
        for turn, _ in waiting:
            if not turn.done():
                turn.set_result(None)

    def others(self, failed: Collection[Server]) -> bool:
        """Return whether a server answers, takes requests now, and is not in `failed`."""
        now = time.monotonic()
        return any(self._rank(server, failed, now) == (False, False, False) for server in self.servers)

    def on_answer(self, server: Server) -> None:
        """Note that a server answered a request."""
        server.limit.on_success(server.in_flight)
        server.failures, server.alone_s = 0, 0.0
        if server.returning is not None:
            server.returning.cancel()
        server.fault, server.on_trial = None, False
        if server.lost:
            server.lost = False
            _LOG.warning("%s answers again", server.where)

    def on_fault(self, server: Server, fault: Fault, started: float) -> None:
        """Note that a request which began at `started` met a fault at a server."""
        now = time.monotonic()
        if fault.kind == RATE_LIMITED or fault.status in OVERLOADED:
            server.limit.on_overload(started, now)
        elif fault.kind == TIME_OUT:
            server.limit.on_time_out(started, now)
        if fault.retry_after_s is not None:
            server.limit.pause_until(now + min(fault.retry_after_s, self._longest_pause_s))
        if fault.kind not in _COUNTED or not self.several or server.fault is not None:
            return
        server.failures += 1
        nobody_there = fault.kind == CONNECTION and not fault.billed
        if nobody_there or fault.kind in REFUSING or server.failures >= FAILURES:
            self.leave_alone(server, fault)

    def leave_alone(self, server: Server, fault: Fault, *, silently: bool = False) -> None:
        """Send a server nothing for a while, each time longer, then look at it."""
        server.fault, server.on_trial = fault, False
        server.alone_s = min(LONGEST_S, max(FIRST_S, 2 * server.alone_s))
        if server.returning is not None:
            server.returning.cancel()
        server.returning = asyncio.create_task(self._bring_back(server))
        if not silently:
            self.announce()
        self._match()

    def announce(self) -> None:
        """Say once of each server that it is left alone, and why."""
        for server in self.servers:
            if server.fault is not None and not server.lost:
                server.lost = True
                answering = sum(each.fault is None for each in self.servers)
                _LOG.warning(
                    "%s is left alone and tried again from time to time, %d of %d servers answer: %s: %s",
                    server.where,
                    answering,
                    len(self.servers),
                    server.fault.kind,
                    server.fault.message,
                )

    async def try_again(self, server: Server) -> Fault | None:
        """Look at a server that is left alone, and let it back where it serves what it did.

        Requests that want to know at the same time share a look.
        """
        if server.trying is None:
            server.trying = asyncio.create_task(self._try(server))
        return await asyncio.shield(server.trying)

    async def survey(self) -> Look | None:
        """Look at all servers before any is asked, and return what they serve; None where no one answers.

        Those that cannot be reached are left alone, and compared with the others when they can.

        Raises:
            PrerequisiteError: one refuses the key, lacks the model, or serves another than those before it.
        """
        looks = await asyncio.gather(*(look_at(server.backend) for server in self.servers))
        for server, look in zip(self.servers, looks, strict=True):
            fault = self._compare(server, look)
            if fault is not None and fault.kind in REFUSING:
                raise PrerequisiteError(f"{server.backend.endpoint.model}: {fault.message}")
            if fault is not None:
                self.leave_alone(server, fault, silently=True)
        return self._same

    def _compare(self, server: Server, look: Look | Fault) -> Fault | None:
        if isinstance(look, Fault):
            return look
        different = None if self._same is None else differences(look, self._same)
        if different is not None:
            return Fault(
                UNKNOWN_MODEL,
                f"{server.where} serves {different} as the other servers do; all that share a run's requests "
                "have to serve the same: start it like the others, or leave it out",
                billed=False,
            )
        self._same = look if self._same is None else merge_looks([self._same, look])
        return None

    async def close(self) -> None:
        """End what is under way behind the requests."""
        tasks = [
            task for server in self.servers for task in (server.returning, server.trying) if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self.servers:
            await server.backend.close()

    async def _try(self, server: Server) -> Fault | None:
        try:
            fault = self._compare(server, await look_at(server.backend))
        finally:
            server.trying = None
        before = server.fault
        if before is not None and fault is not None:
            server.fault = fault
        elif before is not None:  # else it answered a request meanwhile
            server.fault = None
            server.on_trial = before.kind != CONNECTION
            server.failures = FAILURES - 1 if server.on_trial else 0
            self._match()
        return fault

    async def _bring_back(self, server: Server) -> None:
        while server.fault is not None:
            await asyncio.sleep(server.alone_s)
            if await self.try_again(server) is not None:
                server.alone_s = min(LONGEST_S, 2 * server.alone_s)

    def _rank(self, server: Server, failed: Collection[Server], now: float) -> tuple[bool, bool, bool]:
        return server.fault is not None, server.limit.pause_s(now) > 0, server in failed

    def _choose(self, failed: Collection[Server]) -> Server | None:
        """Return the least loaded of the best servers that take one, of equal ones that asked longest ago."""
        now = time.monotonic()
        ranks = [self._rank(server, failed, now) for server in self.servers]
        best = min(ranks)
        eligible = (server for server, rank in zip(self.servers, ranks, strict=True) if rank == best)
        takes = (server for server in eligible if server.is_open(now))
        return min(takes, key=lambda server: (server.load, server.turn), default=None)

    def _take(self, server: Server) -> None:
        self._turns += 1
        server.turn = self._turns
        server.in_flight += 1

    def _match(self) -> None:
        """Give open servers to those that wait, in the order in which they came."""
        kept: deque[tuple[asyncio.Future[Server | None], Collection[Server]]] = deque()
        while self._waiting and self._any_open():
            turn, failed = self._waiting.popleft()
            if turn.done():  # cancelled
                continue
            server = self._choose(failed)
            if server is None:
                kept.append((turn, failed))
            else:
                self._take(server)
                turn.set_result(server)
        kept.extend(self._waiting)
        self._waiting = kept

    def _any_open(self) -> bool:
        now = time.monotonic()
        return any(server.is_open(now) for server in self.servers)

    def _match_after_pauses(self) -> None:
        now = time.monotonic()
        for server in self.servers:
            if (pause := server.limit.pause_s(now)) > 0:
                asyncio.get_running_loop().call_later(pause + 0.001, self._match)
