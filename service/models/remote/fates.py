"""What became of an attempt, in one line for the log: never a key, nor a text of prompt, answer or server."""

import logging

from service.models.remote.chat import ChatResponse, Failure
from service.models.remote.faults import Fault

LOG = logging.getLogger("tagrpo.requests")
_WORTH_TELLING_S = 0.05
OK = 200


class Fates:
    """Writes a line for each attempt of the requests to one endpoint, where the log takes them.

    openai/gpt at http://h:8000/v1: run r, cell 41, attempt 2: 200, 3.2 s, 30 + 812 tokens, waited 0.4 s
    openai/gpt at http://h:8000/v1: run r, cell 41, attempt 1: 429 rate limited, 0.1 s, again in 2.0 s
    """

    def __init__(self, where: str, run: str) -> None:
        """Take the endpoint in words, and what its requests are for: the name of a run, or ""."""
        self._where = f"{where}: run {run}," if run else f"{where}:"

    def tell(
        self,
        key: int | str,
        attempt: int,
        outcome: ChatResponse | Failure | Fault,
        *,
        took_s: float | None = None,
        waited_s: float = 0.0,
        next_step: str = "",
    ) -> None:
        """Write the line of one attempt.

        Args:
            key: of the request, the cell's id.
            attempt: from 1.
            outcome: what came of it.
            took_s: from the first byte sent to the last that came; None where nobody measured it.
            waited_s: for the budget, and for others in flight, before it was sent.
            next_step: what follows on a failure, in words.
        """
        if not LOG.isEnabledFor(logging.INFO):
            return
        parts = [_status(outcome)]
        if took_s is not None:
            parts.append(f"{took_s:.1f} s")
        if isinstance(outcome, ChatResponse):
            parts.append(f"{outcome.prompt_tokens:,} + {outcome.completion_tokens:,} tokens")
        if waited_s >= _WORTH_TELLING_S:
            parts.append(f"waited {waited_s:.1f} s")
        if next_step:
            parts.append(next_step)
        LOG.info("%s cell %s, attempt %d: %s", self._where, key, attempt, ", ".join(parts))


def _status(outcome: ChatResponse | Failure | Fault) -> str:
    if isinstance(outcome, ChatResponse):
        return str(OK)
    status = outcome.status if isinstance(outcome, Fault) else None
    return outcome.kind if status is None else f"{status} {outcome.kind}"
