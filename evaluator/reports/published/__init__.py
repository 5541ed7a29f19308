"""Published figures, one TOML file per paper: by model, method, column and k, with notes."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from evaluator.reports.documents.document import Document, Table

FILES = ("ta_grpo", "a_grae", "cw_grpo")
"""The data files. The columns of the first are those of a report without a paper."""


@dataclass(frozen=True)
class PaperColumn:
    """A benchmark by its key in `BENCHMARKS`, or the mean of the benchmarks `of`."""

    key: str
    title: str
    problems: int | None = None  # None if the paper does not state the number
    of: tuple[str, ...] = ()


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
class Paper:
    """What a paper prints, as its file has it, and its figures by model, method, column key and k."""

    name: str
    source: str
    # how the figures were sampled, as far as `whose` states it; `unsaid` names the rest
    settings: Mapping[str, Any]
    models: Mapping[str, tuple[str, ...]]  # other names of each model
    layout: tuple[PaperColumn, ...]
    tables: Sequence[Mapping[str, Any]]
    notes: Sequence[Mapping[str, Any]]  # `text`, with `models` and `k` if it is not about all of them
    lists: Sequence[Mapping[str, Any]]  # tables whose figures are not scores on benchmarks
    figures: Mapping[tuple[str, str, str, int], Figure]

    def ks(self, model: str) -> tuple[int, ...]:
        """Return the ks for which the paper prints figures of a model."""
        return tuple(sorted({k for name, _, _, k in self.figures if name == model}))


@cache
def papers() -> tuple[Paper, ...]:
    """Return all papers in the order of `FILES`."""
    made = []
    for file in FILES:
        text = resources.files("evaluator.reports.published").joinpath(f"{file}.toml").read_text("utf-8")
        values = tomllib.loads(text)
        odd = {
            (model, method, column, k)
            for note in values["notes"]
            for method, column, ks in note.get("odd", ())
            for model in note["models"]
            for k in ks
        }
        figures: dict[tuple[str, str, str, int], Figure] = {}
        for table in values["tables"]:
            places = [(column, k) for column in table["columns"] for k in table["k"]]
            for method, row in table["rows"].items():
                # A row has one figure for each column and k. The first of several tables takes precedence.
                for place, printed in zip(places, row.split(), strict=True):
                    key = (table["model"], method, *place)
                    figures.setdefault(key, Figure(printed.strip("*_"), table["label"], key in odd))
        names = values.get("models", {})
        columns: dict[str, dict[str, Any]] = {
            key: {**column, "of": tuple(column.get("of", ()))} for key, column in values["columns"].items()
        }
        parsed: dict[str, Any] = {
            "models": {
                each["model"]: (each["model"], *names.get(each["model"], ())) for each in values["tables"]
            },
            "layout": tuple(PaperColumn(key, **column) for key, column in columns.items()),
            "figures": figures,
            "lists": values.get("lists", ()),
        }
        kept = ("name", "source", "settings", "tables", "notes")
        made.append(Paper(**{name: values[name] for name in kept}, **parsed))
    return tuple(made)


def models() -> tuple[str, ...]:
    """Return the models that any paper prints figures of."""
    return tuple(model for paper in papers() for model in paper.models)


def paper_of(model: str) -> Paper:
    """Return the paper that prints figures of a model of `models()`."""
    return next(paper for paper in papers() if model in paper.models)


def layout_of(model: str | None) -> tuple[PaperColumn, ...]:
    """Return the columns in which a paper has figures of a model; for None all of the first paper."""
    if model is None:
        return papers()[0].layout
    paper = paper_of(model)
    columns = {column for name, _, column, _ in paper.figures if name == model}
    return tuple(column for column in paper.layout if column.key in columns)


def in_order(benchmarks: Iterable[str]) -> list[str]:
    """Return benchmarks with those of the first paper first, in its order; others keep theirs."""
    order = [column.key for column in papers()[0].layout]
    return sorted(benchmarks, key=lambda name: order.index(name) if name in order else len(order))


def recognise(name: str) -> str | None:
    """Return the papers' name of the model that `name` is (`Qwen/Qwen3-4B`), None if no paper has it."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    names = {
        name.lower(): model for paper in papers() for model, names in paper.models.items() for name in names
    }
    return names.get(last)


def published_rows(model: str, k: int) -> dict[str, dict[str, Figure]]:
    """Return by method the printed figures of a model at k, by column key in the paper's order."""
    paper = paper_of(model)
    methods = dict.fromkeys(name for of, name, _, at in paper.figures if (of, at) == (model, k))
    return {
        method: {
            column.key: paper.figures[model, method, column.key, k]
            for column in paper.layout
            if (model, method, column.key, k) in paper.figures
        }
        for method in methods
    }


def labels(model: str, k: int) -> tuple[str, ...]:
    """Return the names of the tables that print figures of a model at k, such as `Table 1`."""
    tables = (table for table in paper_of(model).tables if table["model"] == model and k in table["k"])
    return tuple(dict.fromkeys(table["label"] for table in tables))


def printed_list(name: str) -> Document:
    """Return printed figures that are not scores, with the notes on them."""
    paper, printed = next((paper, each) for paper in papers() for each in paper.lists if each["name"] == name)
    title = f"{printed['title']} ({paper.source}, {printed['label']} and {printed['place']})"
    table = Table(tuple(printed["columns"]), tuple(map(tuple, printed["rows"])), title, printed["words"])
    return Document((table,), tuple(printed["notes"]))


def flags(model: str, ks: Sequence[int]) -> list[str]:
    """Return what a reader of a model's printed figures at some k should know."""
    return [
        note["text"].strip()
        for note in paper_of(model).notes
        if model in note.get("models", (model,)) and set(ks).intersection(note.get("k", ks))
    ]
