"""What a report is made of: text, tables, pictures and commands in sections, for both formats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Text:
    """A paragraph; `code` and **strong** parts are marked as in Markdown."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short sentences, marked as `Text`."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column is text, all others stand on the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A chart.

    Attributes:
        name: of its file, without a suffix.
        alt: what it shows, in words.
        spec: the finished Vega-Lite specification.
    """

    name: str
    alt: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    lines: tuple[str, ...]


Block: TypeAlias = Text | Points | Table | Picture | Commands


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    intro: Sequence[Block]
    sections: Sequence[Section] = field(default_factory=tuple)

    def pictures(self) -> list[Picture]:
        """Return all pictures in order."""
        blocks = [*self.intro, *(block for section in self.sections for block in section.blocks)]
        return [block for block in blocks if isinstance(block, Picture)]
