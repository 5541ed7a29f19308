"""Servers of a model: their load limits, pauses, and the choice of the next server.

litellm's Router is not used: it counts requests in callbacks, which cost a good part of each call, it never
rests a server that refuses connections, and it would be a second owner of retries.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from service.asks.request import (
    AUTHENTICATION,
    CONNECTION,
    INVALID_ANSWER,
    QUOTA,
    RATE_LIMITED,
    SERVER_ERROR,
    TIME_OUT,
    UNKNOWN_MODEL,
    Fault,
    Request,
)
from service.asks.serving import Serving
from service.errors import PrerequisiteError
from service.models.settings import SHORTEST_TIMEOUT_S

_LOG = logging.getLogger("tagrpo.servers")

OVERLOADED = (503, 529)
REFUSING = frozenset({AUTHENTICATION, UNKNOWN_MODEL, QUOTA})
"""Faults that every request to the same server would meet."""
_COUNTED = REFUSING | {CONNECTION, SERVER_ERROR, RATE_LIMITED, TIME_OUT, INVALID_ANSWER}
FAILURES = 3
"""A server rests after so many failures without an answer between them."""
FIRST_S, LONGEST_S = 1.0, 60.0
"""How long a server rests first, doubled until it answers."""
LONGEST_PAUSE_S = 300.0
START = 16
"""Requests in flight at first; every answer adds one until the first refusal."""


@dataclass(eq=False)
class Server:
    """A server and its current state.

    At most `limit` requests are in flight: the limit grows with the answers and is halved when the server
    refuses a request for its load. Latency decides nothing: hard problems take long on an idle server too.
    A server with a `fault` rests; `on_trial` it gets one request at a time until it answers.
    """

    base: str | None
    where: str
    max_concurrency: int
    limit: float = START
    taken_at: float = 0.0
    in_flight: int = 0
    failures: int = 0
    fault: Fault | None = None
    rest_s: float = 0.0
    on_trial: bool = False
    announced: bool = False
    returning: asyncio.Task[None] | None = None
    _doubling: bool = True
    _halved_at: float = float("-inf")
    _refused_at: float = float("-inf")
    _paused_until: float = float("-inf")

    def __post_init__(self) -> None:
        self.limit = min(float(self.limit), float(self.max_concurrency))

    def has_room(self, now: float) -> bool:
        return now >= self._paused_until and self.in_flight < (1 if self.on_trial else int(self.limit))

    @property
    def load(self) -> float:
        return self.in_flight / self.limit

    def grow(self) -> None:
        if self.in_flight >= self.limit / 2:  # otherwise the limit kept no request waiting
            self.limit = min(
                float(self.max_concurrency), self.limit + (1 if self._doubling else 1 / self.limit)
            )

    def adapt(self, fault: Fault, began: float, now: float) -> None:
        """Lower the limit if the server is overloaded, and pause as long as it asks.

        Requests that were in flight at the last decrease prove nothing new. A time-out is a sign of overload
        only if the server refused other requests in the meantime.
        """
        if fault.kind == RATE_LIMITED or fault.status in OVERLOADED:
            self._refused_at = now
        elif fault.kind != TIME_OUT or self._refused_at < began:
            return
        self._doubling = False
        if began > self._halved_at:
            self.limit, self._halved_at = max(1.0, self.limit / 2), now

    def pause(self, seconds: float, now: float) -> None:
        self._paused_until = max(self._paused_until, now + seconds)


class ServedEndpoint(ABC):
    """A model at servers, handed out the least loaded first, in the order of asking. One event loop only.

    A failing server rests if there are others, and returns when it serves the same model again. A single
    server never rests. What all endpoints of servers share; see `backend.Endpoint`.
    """

    def __init__(self, servers: Sequence[Server], timeout_s: float | None, tokens_per_s: float) -> None:
        """Set up.

        Args:
            servers: The servers of the model.
            timeout_s: The time for one attempt up to the last byte; None: `SHORTEST_TIMEOUT_S` plus the time
                of the longest response at `tokens_per_s`.
            tokens_per_s: The slowest server to wait for.
        """
        self.servers = tuple(servers)
        self.serving = Serving()
        self._timeout_s, self._tokens_per_s = timeout_s, tokens_per_s
        self._waiting: deque[asyncio.Future[Server | None]] = deque()

    @property
    def generated_tokens(self) -> int | None:
        return None

    @property
    def notices(self) -> Sequence[str]:
        return ()

    @abstractmethod
    async def look(self, server: Server) -> Serving | Fault:
        """Return what a server serves, or the fault that a request would get."""

    def attempt_s(self, request: Request) -> float:
        """Return the seconds that one attempt may take."""
        if self._timeout_s is not None:
            return self._timeout_s
        return SHORTEST_TIMEOUT_S + request.max_tokens / self._tokens_per_s

    @asynccontextmanager
    async def slot(self, stopping: asyncio.Event) -> AsyncIterator[Server]:
        """Wait for a server with room and hold a place there; any server after `stopping` is set."""
        server = None if self._waiting else self._choose()
        if server is not None:
            self._take(server)
        while server is None and not stopping.is_set():
            turn: asyncio.Future[Server | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                server = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and (given := turn.result()) is not None:
                    self._release(given)
                raise
        if server is None:
            server = self.servers[0]
            self._take(server)
        try:
            yield server
        finally:
            self._release(server)

    def wake(self) -> None:
        """Let everyone who waits for a slot look at `stopping` again."""
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def answered(self, server: Server) -> None:
        """Note that a server answered a request."""
        server.grow()
        server.failures, server.rest_s, server.fault, server.on_trial = 0, 0.0, None, False
        if server.announced:
            server.announced = False
            _LOG.warning("%s answers again", server.where)

    def failed(self, server: Server, fault: Fault, began: float) -> Fault:
        """Adapt to a fault of a request sent at `began`; return what it means for the request.

        A request that one of several servers refuses may be answered by another.
        """
        now = time.monotonic()
        server.adapt(fault, began, now)
        if fault.retry_after_s:
            pause = min(fault.retry_after_s, LONGEST_PAUSE_S)
            server.pause(pause, now)
            asyncio.get_running_loop().call_later(pause + 0.001, self._hand_out)
        if len(self.servers) == 1:
            return fault
        if fault.kind in _COUNTED and server.fault is None:
            server.failures += 1
            never_sent = fault.kind == CONNECTION and not fault.billed
            if never_sent or fault.kind in REFUSING or server.failures >= FAILURES:
                self._rest(server, fault)
        return self._of_one(server, fault)

    def rests(self, server: Server) -> Fault | None:
        """Return the fault of a server that rests, as one of a request that was not sent to it."""
        if server.fault is None:
            return None
        return self._of_one(server, Fault(server.fault.kind, server.fault.message))

    def _of_one(self, server: Server, fault: Fault) -> Fault:
        all_refuse = all(each.fault is not None and each.fault.kind in REFUSING for each in self.servers)
        kind = SERVER_ERROR if fault.kind in REFUSING and not all_refuse else fault.kind
        text = fault.message if server.where in fault.message else f"{server.where}: {fault.message}"
        return Fault(kind, text, billed=fault.billed, retry_after_s=fault.retry_after_s, status=fault.status)

    async def survey(self) -> None:
        """Look at all servers and note what they serve; those that cannot be reached rest.

        Raises:
            PrerequisiteError: none answers, or one refuses the key, lacks the model or serves another.
        """
        looks = await asyncio.gather(*(self.look(server) for server in self.servers))
        for server, look in zip(self.servers, looks, strict=True):
            fault = self._compare(server, look)
            if fault is not None and (fault.kind in REFUSING or len(self.servers) == 1):
                raise PrerequisiteError(fault.message)
            if fault is not None:
                self._rest(server, fault)
        if all(isinstance(look, Fault) for look in looks):
            raise PrerequisiteError(f"no server answers: {'; '.join(map(str, looks))}")

    def _compare(self, server: Server, look: Serving | Fault) -> Fault | None:
        if isinstance(look, Fault):
            return look
        if different := look.differences(self.serving):
            return Fault(
                UNKNOWN_MODEL,
                f"{server.where} differs from the other servers: {different}. All servers of a run must "
                "serve the same model: start it like the others, or remove its address.",
            )
        self.serving = look.merged(self.serving)
        return None

    def _rest(self, server: Server, fault: Fault) -> None:
        server.fault, server.on_trial = fault, False
        server.rest_s = min(LONGEST_S, max(FIRST_S, 2 * server.rest_s))
        if server.returning is None or server.returning.done():
            server.returning = asyncio.create_task(self._bring_back(server))
        if not server.announced:
            server.announced = True
            answering = sum(each.fault is None for each in self.servers)
            text = "%s is paused and retried periodically; %d of %d servers answer. Error: %s"
            _LOG.warning(text, server.where, answering, len(self.servers), fault)
        self._hand_out()

    async def _bring_back(self, server: Server) -> None:
        """Look at a resting server from time to time; it returns on trial when it serves what it did."""
        while True:
            await asyncio.sleep(server.rest_s)
            fault = self._compare(server, await self.look(server))
            if server.fault is None:  # a request was answered in the meantime
                return
            server.fault, server.on_trial, server.failures = fault, fault is None, FAILURES - 1
            server.rest_s = min(LONGEST_S, 2 * server.rest_s)
            if fault is None:
                self._hand_out()
                return

    @property
    def waits_for(self) -> str:
        """Description of the in-flight requests by server."""
        return ", ".join(
            f"{server.in_flight} request{'s' * (server.in_flight > 1)} at {server.where}"
            for server in self.servers
            if server.in_flight
        )

    async def close(self) -> None:
        """Stop the tasks that wait for paused servers."""
        tasks = [server.returning for server in self.servers if server.returning is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _choose(self) -> Server | None:
        """Return the least loaded server with room; resting ones only if all rest."""
        now = time.monotonic()
        awake = [server for server in self.servers if server.fault is None] or self.servers
        roomy = (server for server in awake if server.has_room(now))
        return min(roomy, key=lambda server: (server.load, server.taken_at), default=None)

    def _take(self, server: Server) -> None:
        server.taken_at = time.monotonic()
        server.in_flight += 1

    def _release(self, server: Server) -> None:
        server.in_flight -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and (server := self._choose()) is not None:
            turn = self._waiting.popleft()
            if not turn.done():
                self._take(server)
                turn.set_result(server)
