"""One rollout as it is recorded, and the log-ratios of its tokens. No I/O."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class RolloutHeader:
    """A response drawn in training, with what training made of it, without its texts."""

    step: int  # the global step, from 1
    question_id: str  # of the original question
    neighbor_id: str | None = None  # of the neighbor whose prompt it was drawn for
    strategy: str | None = None  # of that neighbor, if it is known
    variant: int  # 0 for the question's own prompt, k for its k-th neighbor's
    group: int  # number of the group within the step, against which the advantage is measured
    session: int  # number of the response among those of its question in the step
    tokens: int  # tokens of the response
    truncated: bool  # cut at the maximum length
    reward: float  # what the advantage was computed from; shaped if the recipe shapes it
    correct: bool | None  # None if the grader could not tell (its reward is 0)
    reason: str = ""  # why the grade is what it is, see `evaluator.grading.types`
    extracted: str | None = None  # the answer that was read
    advantage: float | None = None  # of the response, before token weights
    old_log_prob: float | None = None  # sum over its tokens before the update, on the recipe's anchor
    sampling_log_prob: float | None = None  # sum over its tokens on the prompt it was drawn for
    ref_log_prob: float | None = None  # sum over its tokens under the reference policy, on the anchor
    entropy: float | None = None  # mean over its tokens
    weights_version: int | None = None  # the step whose weights drew it

    @property
    def grade(self) -> str:
        """correct, wrong or unknown."""
        return "unknown" if self.correct is None else "correct" if self.correct else "wrong"

    @property
    def log_ratio(self) -> float | None:
        """Log-ratio in nats, anchor over sampling prompt; None if it was not recorded."""
        if self.old_log_prob is None or self.sampling_log_prob is None:
            return None
        return self.old_log_prob - self.sampling_log_prob

    @property
    def mean_log_ratio(self) -> float | None:
        """Mean log-ratio of a token."""
        return None if self.log_ratio is None or not self.tokens else self.log_ratio / self.tokens


@dataclass(frozen=True, kw_only=True)
class RolloutRecord(RolloutHeader):
    """A rollout with its texts."""

    prompt: str | None = None  # text it was drawn for, if it is kept
    response: str  # text, decoded without special tokens
    # of single tokens, as `token_ratios_text` writes them; None if they are not recorded
    token_ratios: str | None = None


TEXTS: tuple[str, ...] = ("prompt", "response", "token_ratios")


def is_recorded(question_id: str, share: float) -> bool:
    """Say whether the responses to a question are recorded where a share of the questions is.

    All responses to it are, at every step and in every run with this share or a larger one.
    """
    digest = blake2b(question_id.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


_BROKEN = "\N{REPLACEMENT CHARACTER}"
_TOKENS_TOGETHER = 8
"""Maximum tokens that are decoded together as parts of one character."""


@dataclass(frozen=True)
class TokenRatios:
    """The tokens of a response, in order."""

    lengths: tuple[int, ...]  # characters of the text that each token brings; 0 for special tokens
    # log-prob before the update on the recipe's anchor, minus that on the prompt it was drawn for; nats, None
    # if it is not finite
    log_ratios: tuple[float | None, ...]

    @classmethod
    def from_text(cls, text: str) -> "TokenRatios":
        """Return what `token_ratios_text` wrote."""
        lengths, thousandths = json.loads(text)
        return cls(tuple(lengths), tuple(None if value is None else value / 1000 for value in thousandths))

    def pieces(self, response: str) -> list[tuple[str, float | None]]:
        """Return the text of each token with its log-ratio."""
        ends = accumulate(self.lengths)
        tokens = zip(self.lengths, ends, self.log_ratios, strict=True)
        return [(response[end - length : end], ratio) for length, end, ratio in tokens]


def token_ratios_text(lengths: Sequence[int], log_ratios: NDArray[np.floating]) -> str:
    """Return the form in which they are recorded: two lists, log-ratios in thousandths of a nat."""
    if len(lengths) != len(log_ratios):
        raise ValueError(f"{len(lengths)} token lengths, but {len(log_ratios)} log-ratios")
    finite = np.isfinite(log_ratios)
    thousandths: list[int | None] = np.rint(np.where(finite, log_ratios, 0) * 1000).astype(int).tolist()
    for place in np.flatnonzero(~finite).tolist():
        thousandths[place] = None
    return json.dumps([list(lengths), thousandths], separators=(",", ":"))


class TokenLengths:
    """Finds how many characters of a decoded text each token brings.

    Each token is decoded once, after another one: some decoders drop a leading space. Tokens that make up one
    character are decoded together, and its length counts for the last of them.
    """

    def __init__(self, decode: Callable[[list[int]], str], before: int) -> None:
        self._decode = decode
        self._before, self._skipped = before, len(decode([before]))
        self._decoded: dict[tuple[int, ...], str] = {}

    def of(self, ids: Sequence[int], text: str) -> tuple[int, ...] | None:
        """Return a length for each id, together those of the text; None if the ids do not make it up."""
        lengths: list[int] = []
        at = first = 0
        for end in range(1, len(ids) + 1):
            key = tuple(ids[first:end])
            if key not in self._decoded:
                self._decoded[key] = self._decode([self._before, *key])[self._skipped :]
            part = self._decoded[key]
            if at == 0 and part[:1] == " " and not text.startswith(part):
                part = part[1:]
            is_there = text.startswith(part, at)
            if (_BROKEN in part or not is_there) and end < min(len(ids), first + _TOKENS_TOGETHER):
                continue
            if not is_there:
                return None
            lengths += [*[0] * (end - first - 1), len(part)]
            at, first = at + len(part), end
        return tuple(lengths) if at == len(text) else None
