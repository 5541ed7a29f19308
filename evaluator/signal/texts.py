"""The responses to a question and its neighbors, as text."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GroupTexts:
    """Responses by variant, 0 the original, in the order they were drawn."""

    group_id: str
    prompts: Mapping[int, tuple[str, ...]]
