"""The printed figures of a model at some k, as rows to be set beside a user's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.reports.documents.document import Document, Table
from evaluator.reports.published.checks import oddities
from evaluator.reports.published.papers import Key, list_of, paper_of


@dataclass(frozen=True)
class Cell:
    """A figure as printed, the table that it stands in, and whether something of it is odd."""

    printed: str
    label: str
    odd: bool

    @property
    def text(self) -> str:
        """The figure with a mark where it is odd."""
        return f"{self.printed}(!)" if self.odd else self.printed


@dataclass(frozen=True)
class PublishedRow:
    """A method's figures by the key of their column, in the order of the paper's columns."""

    method: str
    cells: Mapping[str, Cell]


def published_rows(model: str, k: int) -> list[PublishedRow]:
    """Return the rows of a model of `models()` at k, in the order that its tables print them."""
    paper = paper_of(model)
    odd = {key for oddity in oddities(model) for key in oddity.keys}
    methods = dict.fromkeys(method for table in paper.tables_of(model, k) for method in table.methods)
    rows = []
    for method in methods:
        cells = {}
        for column in paper.layout:
            key = Key(model, method, column.key, k)
            match = paper.find(key)
            if match is not None:
                table, figure = match
                cells[column.key] = Cell(figure.printed, table.label, key in odd)
        rows.append(PublishedRow(method, cells))
    return rows


def labels(model: str, k: int) -> tuple[str, ...]:
    """Return the names of the tables that print figures of a model at k, such as `Table 1`."""
    return tuple(dict.fromkeys(table.label for table in paper_of(model).tables_of(model, k)))


def printed_list(name: str) -> Document:
    """Return printed figures that are no scores, with what has to be said of them."""
    printed = list_of(name)
    table = Table(printed.columns, printed.rows, f"{printed.title} ({printed.source})", printed.words)
    return Document((table,), printed.notes)


def flags(model: str, ks: Sequence[int]) -> list[str]:
    """Return what a reader of a model's printed figures at some k should know."""
    notes = [note.text for note in paper_of(model).notes if model in (note.models or (model,))]
    for oddity in oddities(model):
        if not oddity.ks or set(oddity.ks).intersection(ks):
            notes.append(f"{oddity.text.removesuffix('.')} (!)." if oddity.keys else oddity.text)
    return notes
