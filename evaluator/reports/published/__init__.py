"""Published figures, one TOML file per paper: by model, method, column and k, with notes."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from evaluator.reports.document import Document, Table

FILES = ("ta_grpo", "a_grae", "cw_grpo")
"""The data files. The columns of the first are those of a report without a paper."""


@dataclass(frozen=True)
class PaperColumn:
    """A benchmark by its key in `BENCHMARKS`, or the mean of the benchmarks `of`."""

    key: str
    title: str
    problems: int | None = None  # None if the paper does not state the number
    of: Sequence[str] = ()


class Figure(NamedTuple):
    """A figure as printed, the table that prints it, and whether other figures contradict it."""

    printed: str
    label: str
    odd: bool

    @property
    def text(self) -> str:
        """The figure, marked if it is odd."""
        return f"{self.printed}(!)" if self.odd else self.printed


@dataclass(frozen=True)
class PublishedModel:
    """What a paper prints of one model."""

    name: str
    paper: Mapping[str, Any]  # its file
    figures: dict[int, dict[str, dict[str, Figure]]]  # by k, method and column key

    @property
    def ks(self) -> tuple[int, ...]:
        return tuple(sorted(self.figures))

    @property
    def layout(self) -> tuple[PaperColumn, ...]:
        """The columns in which the paper has figures of the model."""
        printed = {column for rows in self.figures.values() for row in rows.values() for column in row}
        return tuple(column for column in _columns(self.paper) if column.key in printed)

    def flags(self, ks: Sequence[int]) -> list[str]:
        """Return what a reader of the figures at some k should know."""
        return [
            note["text"].strip()
            for note in self.paper["notes"]
            if self.name in note.get("models", (self.name,)) and {*ks} & {*note.get("k", ks)}
        ]


@cache
def papers() -> tuple[dict[str, Any], ...]:
    """Return the data files, in the order of `FILES`."""
    folder = resources.files("evaluator.reports.published")
    return tuple(tomllib.loads(folder.joinpath(f"{file}.toml").read_text("utf-8")) for file in FILES)


@cache
def models() -> dict[str, PublishedModel]:
    """Return all models that a paper prints figures of, by name."""
    models: dict[str, PublishedModel] = {}
    for paper in papers():
        odd = {
            (model, method, column, k)
            for note in paper["notes"]
            for method, column, ks in note.get("odd", ())
            for model in note["models"]
            for k in ks
        }
        for table in paper["tables"]:
            model, label = table["model"], table["label"]
            figures = models.setdefault(model, PublishedModel(model, paper, {})).figures
            places = [(column, k) for column in table["columns"] for k in table["k"]]
            for method, row in table["rows"].items():
                # A row has one figure for each column and k. The first of several tables takes precedence.
                for (column, k), printed in zip(places, row.split(), strict=True):
                    figure = Figure(printed.strip("*_"), label, (model, method, column, k) in odd)
                    figures.setdefault(k, {}).setdefault(method, {}).setdefault(column, figure)
    return models


def _columns(paper: Mapping[str, Any]) -> tuple[PaperColumn, ...]:
    return tuple(PaperColumn(key, **column) for key, column in paper["columns"].items())


def usual_layout() -> tuple[PaperColumn, ...]:
    """Return the columns of a report without a paper: all of the first paper."""
    return _columns(papers()[0])


def in_order(benchmarks: Iterable[str]) -> list[str]:
    """Return benchmarks with those of the first paper first, in its order; others keep theirs."""
    order = [column.key for column in usual_layout()]
    return sorted(benchmarks, key=lambda name: order.index(name) if name in order else len(order))


def recognise(name: str) -> PublishedModel | None:
    """Return the model that `name` is (`Qwen/Qwen3-4B`), None if no paper has it."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    for model in models().values():
        aliases = model.paper.get("models", {}).get(model.name, ())
        if last in [alias.lower() for alias in (model.name, *aliases)]:
            return model
    return None


def printed_list(name: str) -> Document:
    """Return printed figures that are not scores, with the notes on them."""
    paper, printed = next(
        (paper, each) for paper in papers() for each in paper.get("lists", ()) if each["name"] == name
    )
    title = f"{printed['title']} ({paper['source']}, {printed['label']} and {printed['place']})"
    table = Table(tuple(printed["columns"]), tuple(map(tuple, printed["rows"])), title, printed["words"])
    return Document((table,), tuple(printed["notes"]))
