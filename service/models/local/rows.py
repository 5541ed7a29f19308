"""Rows: the samples under way, whatever decodes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from service.models.local.choosing import Uniforms


@dataclass(frozen=True)
class Choosing:
    """How tokens are chosen, which ones end a response, and which are never drawn."""

    temperature: float
    top_p: float
    stop_ids: frozenset[int]
    never: frozenset[int] = frozenset()

    def allowed(self, logits: Any) -> Any:
        """Return logits (rows, vocabulary) without what is never drawn."""
        if not self.never:
            return logits
        logits = logits.clone()
        logits[:, sorted(self.never)] = -float("inf")
        return logits


@dataclass(frozen=True, eq=False)
class PromptImages:
    """The images of a prompt, whose places are among its tokens.

    Attributes:
        key: tells them from others.
        load: returns what the model is given of them, by the names of its arguments (`pixel_values`, ...).
    """

    key: str
    load: Callable[[], Mapping[str, Any]]


@dataclass(eq=False)
class Row:
    """One sample under way. `owner` and `place` are the caller's: which cell's, and which of its samples."""

    prompt: tuple[int, ...]
    max_tokens: int
    seed: int
    owner: Any = None
    place: int = 0
    images: PromptImages | None = None
    tokens: list[int] = field(default_factory=list)
    stop_reason: str | None = None
    uniforms: Uniforms = field(init=False)
    offset: int = 0  # of a token's position from its place, as images take fewer positions than tokens

    def __post_init__(self) -> None:
        self.uniforms = Uniforms(self.seed)

    def add(self, token: int, stop_ids: frozenset[int]) -> None:
        """Append a token and note whether the response ends with it."""
        self.tokens.append(token)
        if token in stop_ids:
            self.stop_reason = "stop"
        elif len(self.tokens) >= self.max_tokens:
            self.stop_reason = "length"


TOO_LARGE = (
    "one response does not fit into the GPU's memory; take fewer --max-tokens, a smaller model or dtype, or "
    "another GPU."
)


def halved(rows: int, half: int) -> str:
    """Return what is said where a batch of so many rows was too large."""
    return f"out of GPU memory with {rows} rows; going on with at most {half} at a time."


class Decoder(Protocol):
    """What turns waiting rows into finished ones."""

    @property
    def places(self) -> int:
        """How many rows are decoded at a time, at most."""
        ...

    @property
    def waiting(self) -> int:
        """Rows that are not decoded yet."""
        ...

    @property
    def running(self) -> int:
        """Rows that are being decoded."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of how it went."""
        ...

    def add(self, rows: Sequence[Row]) -> None:
        """Queue rows."""
        ...

    def step(self) -> list[Row]:
        """Go on for a moment; return the rows that are finished."""
        ...
