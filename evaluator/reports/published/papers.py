"""Figures that papers print, one TOML file a paper, by model, method, benchmark and k."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from service.errors import InputError

FILES = ("ta_grpo", "a_grae", "cw_grpo")
"""The data files; columns and averages of the first are those of a report without a paper."""


@dataclass(frozen=True)
class Column:
    """A benchmark by its key in `BENCHMARKS` or of one's own; `problems` where the paper says how many."""

    key: str
    title: str
    problems: int | None = None


@dataclass(frozen=True)
class Average:
    """An average column: the mean of the benchmarks `of`."""

    key: str
    title: str
    of: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """How the figures were drawn, as far as what `whose` names tells it; `unsaid` says what nobody does."""

    whose: str
    unsaid: str
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    form: str | None = None


class Key(NamedTuple):
    """What a figure is of; `column` is the key of a `Column` or `Average`."""

    model: str
    method: str
    column: str
    k: int


@dataclass(frozen=True)
class Figure:
    """A figure in percent as printed; `mark` is `**` where it is bold (best), `_` underlined (second)."""

    printed: str
    mark: str


@dataclass(frozen=True)
class PrintedTable:
    """A table or figure, or the part of one that is about a model.

    Attributes:
        label, place: what it is called, and the section it stands in.
        one_sample: each figure is a share of its benchmark's problems.
    """

    label: str
    place: str
    model: str
    columns: tuple[str, ...]
    k: tuple[int, ...]
    one_sample: bool
    figures: Mapping[Key, Figure]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the order of rows."""
        return tuple(dict.fromkeys(key.method for key in self.figures))


@dataclass(frozen=True)
class Claim:
    """What a paper's text says of its tables.

    With `gain`: the mean of `method` over the columns is so many points above that of `over`. With `rank`: it
    is number `rank` of the table. With neither: it is nowhere below any of `over`. Empty `columns`, `k` or
    `model` stand for all there are.
    """

    place: str
    method: str
    says: str = ""
    model: str = ""
    table: str = ""
    over: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    k: tuple[int, ...] = ()
    gain: str = ""
    rank: int = 0


@dataclass(frozen=True)
class Note:
    """What a reader of the figures of `models` should know; of all models where none is named."""

    text: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrintedList:
    """Printed figures that are no scores on benchmarks, as cells; `words` as in a report's `Table`."""

    name: str
    source: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Paper:
    """What a paper prints; `models` are its names of models with other names of the same."""

    name: str
    source: str
    settings: Settings
    models: Mapping[str, tuple[str, ...]]
    layout: tuple[Column | Average, ...]
    tables: tuple[PrintedTable, ...]
    notes: tuple[Note, ...]
    claims: tuple[Claim, ...]
    lists: tuple[PrintedList, ...]

    def tables_of(self, model: str, k: int | None = None) -> tuple[PrintedTable, ...]:
        """Return the tables about a model, with figures at k where one is named."""
        return tuple(table for table in self.tables if table.model == model and (k is None or k in table.k))

    def ks(self, model: str) -> tuple[int, ...]:
        """Return the ks that figures of a model are printed at."""
        return tuple(sorted({k for table in self.tables_of(model) for k in table.k}))

    def find(self, key: Key) -> tuple[PrintedTable, Figure] | None:
        """Return a figure with the first table that prints it, None where there is none."""
        tables = (table for table in self.tables_of(key.model) if key in table.figures)
        return next(((table, table.figures[key]) for table in tables), None)


@cache
def papers() -> tuple[Paper, ...]:
    """Return all papers in the order of `FILES`."""
    folder = resources.files("evaluator.reports.published")
    return tuple(
        _paper(tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))) for name in FILES
    )


def models() -> tuple[str, ...]:
    """Return the models that any paper prints figures of."""
    return tuple(model for paper in papers() for model in paper.models)


def paper_of(model: str) -> Paper:
    """Return the paper that prints figures of a model of `models()`."""
    return next(paper for paper in papers() if model in paper.models)


def layout_of(model: str | None) -> tuple[Column | Average, ...]:
    """Return the columns in which a paper has figures of a model; for None all of the first paper."""
    if model is None:
        return papers()[0].layout
    paper = paper_of(model)
    columns = {column for table in paper.tables_of(model) for column in table.columns}
    return tuple(column for column in paper.layout if column.key in columns)


def in_order(benchmarks: Iterable[str]) -> list[str]:
    """Return benchmarks with those of the first paper first, in its order; others stay in theirs."""
    order = [column.key for column in papers()[0].layout]
    return sorted(benchmarks, key=lambda name: order.index(name) if name in order else len(order))


def find_model(name: str) -> str:
    """Return the papers' name of a model, whatever its case and the account before it.

    Raises:
        InputError: no such model in any paper.
    """
    model = recognise(name)
    if model is None:
        raise InputError(f"the papers have no model {name!r}. They have {', '.join(models())}.")
    return model


def recognise(name: str) -> str | None:
    """Return the papers' name of the model that `name` is (`Qwen/Qwen3-4B`), None where it is none."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    known = {
        name.lower(): model for paper in papers() for model, names in paper.models.items() for name in names
    }
    return known.get(last)


def list_of(name: str) -> PrintedList:
    """Return printed figures that are no scores by their name."""
    return next(each for paper in papers() for each in paper.lists if each.name == name)


def _paper(values: Mapping[str, Any]) -> Paper:
    tables = tuple(_table(table) for table in values["tables"])
    others = values.get("models", {})
    return Paper(
        name=values["name"],
        source=values["source"],
        settings=Settings(**values["settings"]),
        models={
            model: (model, *others.get(model, ())) for model in dict.fromkeys(table.model for table in tables)
        },
        layout=tuple(
            Average(key, column["title"], tuple(column["of"])) if "of" in column else Column(key, **column)
            for key, column in values["columns"].items()
        ),
        tables=tables,
        notes=tuple(
            Note(note["text"].strip(), tuple(note.get("models", ()))) for note in values.get("notes", ())
        ),
        claims=tuple(Claim(**_frozen(claim)) for claim in values["claims"]),
        lists=tuple(_list(values["source"], each) for each in values.get("lists", ())),
    )


def _table(values: Mapping[str, Any]) -> PrintedTable:
    """Return a table of which a row has a figure for each column and k, in the order of columns, then ks."""
    columns, ks, model = tuple(values["columns"]), tuple(values["k"]), values["model"]
    places = [(column, k) for column in columns for k in ks]
    figures = {
        Key(model, method, column, k): Figure(text.strip("*_"), text[: len(text) - len(text.lstrip("*_"))])
        for method, row in values["rows"].items()
        for (column, k), text in zip(places, row.split(), strict=True)
    }
    return PrintedTable(
        values["label"], values["place"], model, columns, ks, values.get("one_sample", False), figures
    )


def _list(source: str, values: Mapping[str, Any]) -> PrintedList:
    rows = tuple(tuple(row) for row in values["rows"])
    return PrintedList(
        values["name"],
        f"{source}, {values['label']} and {values['place']}",
        values["title"],
        tuple(values["columns"]),
        rows,
        values["words"],
        tuple(values["notes"]),
    )


def _frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
