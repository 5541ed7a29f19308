"""Batch jobs in OpenAI's protocol: send them, find them again, poll them, read results.

The openai package does the calls: litellm's own functions make a client per call that nothing closes, and
download the results of a finished job once more to price it.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from service.asks.ask import Asker
from service.asks.faults import classify, kind_of_status, shorten
from service.asks.request import RETRIED, SERVER_ERROR, Fault
from service.errors import PrerequisiteError

if TYPE_CHECKING:
    import openai

PAGE: Literal["/v1/chat/completions"] = "/v1/chat/completions"
TAG = "tagrpo"
"""The entry in a job's metadata that holds its tag."""
JOBS_PER_PAGE = 100
OUTAGE_S = 86_400.0
"""A job is paid for and takes up to a day, so tagrpo asks for it through an outage of a day."""
LOOKS = 3
"""How often a job is looked for after a submission without a reply: a provider's list may lag."""
CALL_TIMEOUT_S = 120.0
_ENDED = ("completed", "failed", "expired", "cancelled")

Result = TypeVar("Result")


class NotSentError(PrerequisiteError):
    """A job was rejected or could not be sent; the provider has nothing of it."""


class ProviderJobs:
    """The batch jobs at a provider, for one run; `where` names the provider in messages."""

    def __init__(self, client: "openai.AsyncOpenAI", asker: Asker, where: str) -> None:
        self._client, self._asker, self._where = client, asker, where
        self._retries = asker.models.retries

    async def submit(self, tag: str, bodies: Mapping[int, str]) -> str:
        """Send a job of these bodies by the ids of their asks; return its id at the provider.

        Raises:
            NotSentError: the provider refuses it, or cannot be reached.
            PrerequisiteError: as before, but an earlier attempt may have arrived; `find` tells later.
        """
        text = "".join(
            f'{{"custom_id": "{ask_id}", "method": "POST", "url": "{PAGE}", "body": {body}}}\n'
            for ask_id, body in bodies.items()
        )
        may_have_arrived = False

        async def create(file_id: str) -> str:
            nonlocal may_have_arrived
            try:
                created = await self._client.batches.create(
                    completion_window="24h", endpoint=PAGE, input_file_id=file_id, metadata={TAG: tag}
                )
                return str(created.id)
            except Exception as error:
                fault = classify(error)
            if fault.billed or fault.kind == SERVER_ERROR:
                may_have_arrived = True
                if (remote_id := await self.find(tag)) is not None:
                    return remote_id
            raise fault

        content = (f"{tag}.jsonl", text.encode())
        try:
            file = await self._call(partial(self._client.files.create, file=content, purpose="batch"))
            return await self._call(partial(create, file.id))
        except PrerequisiteError as error:
            if may_have_arrived:
                raise
            raise NotSentError(str(error)) from error

    async def find(self, tag: str) -> str | None:
        """Return the id of the job with this tag, None if the provider has none."""
        for look in range(LOOKS):
            if look:
                await self._asker.pause(self._retries.base_s)
            if (remote_id := await self._call(partial(self._search, tag))) is not None:
                return remote_id
        return None

    async def _search(self, tag: str) -> str | None:
        async for remote in self._client.batches.list(limit=JOBS_PER_PAGE):
            if (remote.metadata or {}).get(TAG) == tag:
                return remote.id
        return None

    async def wait(self, remote_id: str, poll_s: float) -> Any:
        """Return the state of a job once it has ended; look every `poll_s` seconds."""
        while True:
            state = await self._call(partial(self._client.batches.retrieve, remote_id), OUTAGE_S)
            if state.status in _ENDED:
                return state
            await self._asker.pause(poll_s)

    async def download(self, file_id: str) -> list[dict[str, Any]]:
        """Return the lines of a file of results."""
        file = await self._call(partial(self._client.files.content, file_id), OUTAGE_S)
        entries = []
        for line in file.content.splitlines():
            with suppress(ValueError):
                if isinstance(entry := json.loads(line), dict):
                    entries.append(entry)
        return entries

    async def _call(self, call: Callable[[], Awaitable[Result]], outage_s: float = 0.0) -> Result:
        """Call until there is an answer; for `outage_s`, go on as long as waiting may help."""
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            try:
                return await call()
            except Exception as error:
                fault = classify(error)
            pause_s = self._retries.pause_s(fault, attempt)
            if pause_s is None and fault.kind in RETRIED and time.monotonic() - began < outage_s:
                pause_s = self._retries.longest_s
            if pause_s is None:
                raise PrerequisiteError(f"batch jobs at {self._where}: {fault}")
            await self._asker.pause(pause_s)


def error_message(job: Any) -> str:
    """Return the provider's error message for a failed job."""
    errors = getattr(job.errors, "data", None) or []
    return shorten("; ".join(str(error.message) for error in errors))


def refusal(status: int, error: dict[str, Any]) -> Fault:
    """Return the fault of a line of results without an answer."""
    inner = error.get("error", error)
    message = shorten(str((inner.get("message") if isinstance(inner, dict) else None) or inner))
    return Fault(kind_of_status(status, message) if status else SERVER_ERROR, message, status=status or None)
