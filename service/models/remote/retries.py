"""When a failed attempt is repeated, and after how long."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from service.models.remote.types import RETRYABLE_KINDS


def parse_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that a server asks to wait, or None.

    Understands `retry-after-ms`, and `retry-after` in seconds and as an HTTP date (RFC 9110, 10.2.3). Dates
    in the past mean 0. Anything else is None.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = lower.get(name, "").strip()
        try:
            seconds = float(text) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        due = parsedate_to_datetime(lower.get("retry-after", ""))
    except ValueError:
        return None
    if due.tzinfo is None:
        due = due.replace(tzinfo=UTC)
    return max(0.0, (due - (now or datetime.now(UTC))).total_seconds())


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with jitter; the one owner of retries.

    Attempt k (from 1) that failed is followed by a pause drawn uniformly from [half, 1] times
    `base_s * 2**(k-1)`, at most `longest_s`. A server's Retry-After is a lower bound, up to
    `longest_retry_after_s`; a server that asks for more is given up on.
    """

    attempts: int = 6
    base_s: float = 1.0
    longest_s: float = 60.0
    longest_retry_after_s: float = 300.0

    def delay(
        self, kind: str, attempt: int, rng: random.Random, retry_after_s: float | None = None
    ) -> float | None:
        """Return the pause before the next attempt in seconds, or None to give up."""
        if kind not in RETRYABLE_KINDS or attempt >= self.attempts:
            return None
        ceiling = min(self.longest_s, self.base_s * 2.0 ** min(attempt - 1, 60))
        pause = ceiling * rng.uniform(0.5, 1.0)
        if retry_after_s is None:
            return pause
        if retry_after_s > self.longest_retry_after_s:
            return None
        # The jitter on top keeps requests that were refused together from coming back together.
        return retry_after_s + pause * 0.1
