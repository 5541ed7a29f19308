"""One rollout as it is recorded, and the log-ratios of its tokens. No I/O."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RolloutRecord:
    """A response drawn in training, with what training made of it.

    Attributes:
        step: the global step, from 1.
        question_id: of the original question.
        neighbor_id: of the neighbor whose prompt it was drawn for; None for the question itself.
        strategy: of that neighbor, where it is known.
        variant: 0 for the question's own prompt, k for its k-th neighbor's.
        group: number of the group within the step, against which the advantage is measured.
        session: number of the response among those of its question in the step.
        prompt: text it was drawn for; None where it is not kept.
        response: text, decoded without special tokens.
        tokens: tokens of the response.
        truncated: cut at the longest length.
        reward: what the advantage was computed from; shaped where the recipe shapes it.
        correct: None where the grader could not tell (its reward is 0).
        reason: why the grade is what it is, one of `evaluator.grading.REASONS`; "" where it is not known.
        extracted: the answer that was read.
        advantage: of the response, before token weights.
        old_log_prob: sum over its tokens before the update, on the prompt the recipe anchors on.
        sampling_log_prob: sum over its tokens on the prompt it was drawn for.
        ref_log_prob: sum over its tokens under the reference policy, on the anchor.
        entropy: mean over its tokens.
        weights_version: the step whose weights drew it.
        token_ratios: of single tokens, as `token_ratios_text` writes them; None where training
            did not record them.
    """

    step: int
    question_id: str
    neighbor_id: str | None
    strategy: str | None
    variant: int
    group: int
    session: int
    prompt: str | None
    response: str
    tokens: int
    truncated: bool
    reward: float
    correct: bool | None
    reason: str
    extracted: str | None
    advantage: float | None
    old_log_prob: float | None
    sampling_log_prob: float | None
    ref_log_prob: float | None
    entropy: float | None
    weights_version: int | None
    token_ratios: str | None = None

    @property
    def grade(self) -> str:
        """correct, wrong or unknown."""
        return grade_name(self.correct)


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(RolloutRecord))
TEXTS: tuple[str, ...] = ("prompt", "response", "token_ratios")
HEADERS: tuple[str, ...] = tuple(name for name in COLUMNS if name not in TEXTS)
NUMBERS = ("reward", "advantage", "old_log_prob", "sampling_log_prob", "ref_log_prob", "entropy")


def grade_name(correct: bool | None) -> str:
    """Return correct, wrong or unknown (None)."""
    return "unknown" if correct is None else "correct" if correct else "wrong"


def is_recorded(question_id: str, share: float) -> bool:
    """Say whether the responses to a question are recorded where a share of the questions is.

    All responses to it are, at every step and in every run with this share or a larger one.
    """
    digest = blake2b(question_id.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


_BROKEN = "\N{REPLACEMENT CHARACTER}"
_TOKENS_TOGETHER = 8
"""The most tokens that are tried as parts of one character."""

_SEARCHES = 2_000
"""The most tokens of a response that are looked for together with others; a text of broken bytes has more."""


@dataclass(frozen=True)
class TokenRatios:
    """The tokens of a response, in order.

    Attributes:
        lengths: characters of the response's text that each token brings; 0 for special tokens, which are
            not in the text, and for the first parts of a character that several tokens make up.
        log_ratios: nats; log-prob before the update on the prompt that the recipe anchors on, minus that on
            the prompt it was drawn for (the log of TA-GRPO's importance ratio before the first update,
            arXiv 2601.22478). None where it is no finite number.
    """

    lengths: tuple[int, ...]
    log_ratios: tuple[float | None, ...]

    @classmethod
    def from_text(cls, text: str) -> "TokenRatios":
        """Return what `token_ratios_text` wrote.

        Raises:
            ValueError: it did not.
        """
        lists = json.loads(text)
        if not isinstance(lists, list) or [type(part) for part in lists] != [list, list]:
            raise ValueError("not two lists")
        lengths, thousandths = lists
        if len(lengths) != len(thousandths):
            raise ValueError(f"{len(lengths)} lengths for {len(thousandths)} log-ratios")
        if {type(length) for length in lengths} - {int} or min(lengths, default=0) < 0:
            raise ValueError("a length is no whole number from 0 on")
        if {type(value) for value in thousandths} - {int, type(None)}:
            raise ValueError("a log-ratio is no whole number of thousandths")
        return cls(tuple(lengths), tuple(None if value is None else value / 1000 for value in thousandths))

    def pieces(self, response: str) -> list[tuple[str, float | None]]:
        """Return the text of each token with its log-ratio."""
        pieces: list[tuple[str, float | None]] = []
        at = 0
        for length, ratio in zip(self.lengths, self.log_ratios, strict=True):
            pieces.append((response[at : at + length], ratio))
            at += length
        return pieces


def token_ratios_text(lengths: Sequence[int], log_ratios: NDArray[np.floating]) -> str:
    """Return the form in which they are recorded and stored: two lists, log-ratios in thousandths of a nat.

    Args:
        lengths: as `TokenRatios.lengths`.
        log_ratios: of the same tokens, in nats.
    """
    if len(lengths) != len(log_ratios):
        raise ValueError(f"{len(lengths)} lengths for {len(log_ratios)} log-ratios")
    finite = np.isfinite(log_ratios)
    thousandths: list[int | None] = np.rint(np.where(finite, log_ratios, 0) * 1000).astype(int).tolist()
    for place in np.flatnonzero(~finite).tolist():
        thousandths[place] = None
    return json.dumps([list(lengths), thousandths], separators=(",", ":"))


class TokenLengths:
    """Finds how many characters of a decoded text each token brings.

    Each token is decoded once, behind another one: some decoders take a space from the beginning. Where it is
    not found in the text since several tokens make up one character, some are taken together, and what they
    bring counts for the last of them.

    Args:
        decode: returns the text of some token ids, without special tokens.
        before: the id of a token of letters, such as "A".
    """

    def __init__(self, decode: Callable[[list[int]], str], before: int) -> None:
        self._decode = decode
        self._before, self._taken = before, len(decode([before]))
        self._decoded: dict[tuple[int, ...], str] = {}

    def of(self, ids: Sequence[int], text: str) -> tuple[int, ...] | None:
        """Return a length for each id, together those of the text; None where the ids do not make it up."""
        lengths: list[int] = []
        at = place = searches = 0
        while place < len(ids):
            part = self._part((ids[place],), text, at)
            tokens, length = (1, len(part)) if _whole(part) and text.startswith(part, at) else (0, 0)
            if not tokens:
                searches += 1
                if searches > _SEARCHES:
                    return None
                tokens, length = self._together(ids[place : place + _TOKENS_TOGETHER], text, at)
            if not tokens:
                return None
            lengths += [*[0] * (tokens - 1), length]
            place += tokens
            at += length
        return tuple(lengths) if at == len(text) else None

    def _together(self, ids: Sequence[int], text: str, at: int) -> tuple[int, int]:
        """Return how many ids make up a part of the text from here on, and its length; 0 of them: none do."""
        broken = (0, 0)
        for tokens in range(1, len(ids) + 1):
            part = self._part(tuple(ids[:tokens]), text, at)
            if not part or not text.startswith(part, at):
                continue
            if _whole(part):
                return tokens, len(part)
            # Bytes of a character that is never finished are one broken character together.
            if broken[0] == 0 or len(part) == broken[1]:
                broken = (tokens, len(part))
        return broken

    def _part(self, ids: tuple[int, ...], text: str, at: int) -> str:
        """Return what ids bring behind another token; at the beginning, without a space that is not there."""
        if ids not in self._decoded:
            self._decoded[ids] = self._decode([self._before, *ids])[self._taken :]
        part = self._decoded[ids]
        return part[1:] if at == 0 and part[:1] == " " and not text.startswith(part) else part


def _whole(part: str) -> bool:
    return _BROKEN not in part
