"""What is odd in printed figures: found by sums, ranks and the shape of pass@k, not by hand."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import pairwise

from evaluator.reports.documents.document import joined
from evaluator.reports.published.papers import (
    Average,
    Claim,
    Column,
    Figure,
    Key,
    Paper,
    PrintedTable,
    paper_of,
)

BEST, SECOND = "**", "_"


@dataclass(frozen=True)
class Oddity:
    """What does not fit, in a sentence; `keys` of figures to be marked, and the `ks` it is about, if any."""

    text: str
    keys: tuple[Key, ...] = ()
    ks: tuple[int, ...] = ()


@cache
def oddities(model: str) -> tuple[Oddity, ...]:
    """Return what is odd in the figures of a model of `models()`."""
    return find_oddities(paper_of(model), model)


def find_oddities(paper: Paper, model: str) -> tuple[Oddity, ...]:
    """Return what is odd in a paper's figures of a model, and in what its text says of them."""
    tables = paper.tables_of(model)
    in_tables = (
        oddity
        for check in (_averages, _repeats, _copies, _curves, _shares, _marks)
        for oddity in check(paper, tables)
    )
    return tuple(dict.fromkeys((*in_tables, *_gains(paper, model), *_orders(paper, model))))


def value(figure: Figure) -> Decimal:
    """Return a figure in percent."""
    return Decimal(figure.printed)


def unit(printed: str) -> Decimal:
    """Return one of the last printed place: two rounded figures may be that far from a third."""
    return Decimal(1).scaleb(int(Decimal(printed).as_tuple().exponent))


def _averages(paper: Paper, tables: Sequence[PrintedTable]) -> Iterator[Oddity]:
    """Find averages that are not the mean of their columns."""
    averages = {column.key: column for column in paper.layout if isinstance(column, Average)}
    for table in tables:
        for key, figure in table.figures.items():
            if key.column not in averages:
                continue
            mean = _mean(paper, key, averages[key.column].of)
            if mean is not None and abs(mean - value(figure)) > unit(figure.printed):
                titles = ", ".join(_title(paper, name) for name in averages[key.column].of)
                yield Oddity(
                    f"the average {figure.printed} of {key.model} {key.method} differs from the mean of its "
                    f"columns ({titles}), which is {mean:.{_digits(figure)}f}; it is shown as printed.",
                    (key,),
                    (key.k,),
                )


def _repeats(paper: Paper, tables: Sequence[PrintedTable]) -> Iterator[Oddity]:
    """Find figures that are printed twice, and differently."""
    for key in dict.fromkeys(key for table in tables for key in table.figures):
        stands: dict[str, list[str]] = {}
        for table in tables:
            if key in table.figures:
                stands.setdefault(table.figures[key].printed, []).append(table.label)
        if len(stands) > 1:
            where = joined([f"{printed} in {joined(labels)}" for printed, labels in stands.items()])
            yield Oddity(f"{_what(paper, key)} is {where}; the first value is used.", (key,), (key.k,))


def _copies(paper: Paper, tables: Sequence[PrintedTable]) -> Iterator[Oddity]:
    """Find methods with one row of figures between them: at several ks alike, one of them is a copy."""
    for table in tables:
        rows: dict[tuple[str, ...], str] = {}
        for method in table.methods if len(table.k) > 2 else ():
            row = tuple(figure.printed for key, figure in table.figures.items() if key.method == method)
            other = rows.setdefault(row, method)
            if other != method:
                keys = tuple(key for key in table.figures if key.method == method)
                yield Oddity(
                    f"{table.label} has the same figures for {method} as for {other} on "
                    f"{_title(paper, table.columns[0])}.",
                    keys,
                    table.k,
                )


def _curves(paper: Paper, tables: Sequence[PrintedTable]) -> Iterator[Oddity]:
    """Find pass@k that falls with k, or rises faster and faster; rounding apart, neither can be."""
    for table in tables:
        for method in table.methods:
            for column in table.columns:
                keys = [Key(table.model, method, column, k) for k in table.k]
                for low, high in pairwise(keys):
                    if value(table.figures[high]) < value(table.figures[low]):
                        yield Oddity(
                            f"{_what(paper, high)} is below the value at k = {low.k}.", (high,), (high.k,)
                        )
                for before, key, after in zip(keys, keys[1:], keys[2:], strict=False):
                    if _bends_up(table, before, key, after):
                        yield Oddity(
                            f"{_what(paper, key)} is inconsistent with the figures around it: a further "
                            "sample never gains more than the previous one, but after this k it does.",
                            (key,),
                            (key.k,),
                        )


def _bends_up(table: PrintedTable, before: Key, key: Key, after: Key) -> bool:
    low, middle, high = (value(table.figures[each]) for each in (before, key, after))
    first, second = Decimal(key.k - before.k), Decimal(after.k - key.k)
    rounding = unit(table.figures[key].printed)
    return (high - middle) / second - (middle - low) / first > rounding / first + rounding / second


def _shares(paper: Paper, tables: Sequence[PrintedTable]) -> Iterator[Oddity]:
    """Find figures of one sample a problem that no whole number of problems gives."""
    sizes = {column.key: column.problems for column in paper.layout if isinstance(column, Column)}
    odd: dict[Key, str] = {}
    for table in tables:
        for key, figure in table.figures.items() if table.one_sample else ():
            problems = sizes.get(key.column)
            if problems and not _is_share(figure, problems):
                odd[key] = f"{figure.printed} of {key.method} on {_title(paper, key.column)} ({problems})"
    if odd:
        yield Oddity(
            f"no whole number of problems gives {joined(list(odd.values()))}. Unlike the others, they are "
            "not shares of one sample per problem, or they are misprints.",
            tuple(odd),
            (1,),
        )


def _is_share(figure: Figure, problems: int) -> bool:
    near = int(value(figure) * problems / 100)
    half = unit(figure.printed) / 2
    return any(abs(Decimal(100 * right) / problems - value(figure)) <= half for right in (near, near + 1))


def _marks(paper: Paper, tables: Sequence[PrintedTable]) -> Iterator[Oddity]:
    """Find where bold and underlined figures are not the best and second best of their column."""
    places: dict[tuple[str, str], list[int]] = {}
    for table in tables:
        if not any(figure.mark for figure in table.figures.values()):
            continue
        for column in table.columns:
            for k in table.k:
                figures = [
                    figure for key, figure in table.figures.items() if (key.column, key.k) == (column, k)
                ]
                best, second = (sorted({value(figure) for figure in figures}, reverse=True) * 2)[:2]
                ranks = {BEST: best, SECOND: second}
                if any(figure.mark and value(figure) != ranks[figure.mark] for figure in figures):
                    places.setdefault((table.label, column), []).append(k)
    for label in dict.fromkeys(label for label, _ in places):
        columns = [
            f"{_title(paper, column)} at k = {', '.join(map(str, ks))}"
            for (each, column), ks in places.items()
            if each == label
        ]
        yield Oddity(
            f"the available text of {label} marks figures in bold that are not the best, or underlines "
            f"figures that are not second best: {'; '.join(columns)}. The marks are not shown here.",
            ks=tuple(k for (each, _), ks in places.items() if each == label for k in ks),
        )


def _gains(paper: Paper, model: str) -> Iterator[Oddity]:
    """Find gains in the text that the tables do not give, those over one other method in one sentence."""
    wrong: dict[tuple[str, str, str], list[tuple[Claim, Decimal]]] = {}
    for claim in _claims(paper, model):
        if not claim.gain:
            continue
        (over,) = claim.over
        gains = {
            method: difference
            for method in _methods(paper, model) - {claim.method}
            if (difference := _gain(paper, model, claim, method)) is not None
        }
        fitting = [
            method
            for method, difference in gains.items()
            if abs(difference - Decimal(claim.gain)) <= unit(claim.gain)
        ]
        if over not in fitting:
            fits = fitting[0] if len(fitting) == 1 else ""
            wrong.setdefault((claim.method, over, fits), []).append((claim, gains[over]))
    for (method, over, fits), pairs in wrong.items():
        digits = -int(unit(pairs[0][0].gain).as_tuple().exponent)
        printed = joined([f"{claim.gain} ({claim.place})" for claim, _ in pairs])
        actual_gains = joined([f"{actual:.{digits}f}" for _, actual in pairs])
        what = "a gain" if len(pairs) == 1 else "gains"
        text = f"the text calls {printed} {what} of {method} over {over}; according to the tables "
        text += f"that is over {fits}, and over {over} it is" if fits else "it is"
        yield Oddity(f"{text} {actual_gains}.")


def _gain(paper: Paper, model: str, claim: Claim, over: str) -> Decimal | None:
    """Return by how many points a claim's method is above another, in the mean of its columns."""
    (k,) = claim.k or paper.ks(model)
    first = _mean(paper, Key(model, claim.method, "", k), claim.columns)
    second = _mean(paper, Key(model, over, "", k), claim.columns)
    return None if first is None or second is None else first - second


def _orders(paper: Paper, model: str) -> Iterator[Oddity]:
    """Find orders of methods in the text that the tables do not give."""
    for claim in _claims(paper, model):
        if claim.gain:
            continue
        against: dict[tuple[str, str], list[int]] = {}
        for key, what in _against(paper, model, claim):
            against.setdefault((key.column, what), []).append(key.k)
        if against:
            places = [
                f"{_title(paper, column)} {_at_ks(ks)}{f' ({what})' if what else ''}"
                for (column, what), ks in against.items()
            ]
            yield Oddity(
                f"{claim.place} says that {claim.says}, but the tables contradict it: {'; '.join(places)}.",
                ks=tuple(k for ks in against.values() for k in ks),
            )


def _against(paper: Paper, model: str, claim: Claim) -> Iterator[tuple[Key, str]]:
    """Yield what of a claim on the order of methods is not so, with the method or the rank that it has."""
    tables = [table for table in paper.tables_of(model) if claim.table in ("", table.label)]
    keys = dict.fromkeys(key for table in tables for key in table.figures if key.method == claim.method)
    for key in keys:
        column = next(column for column in paper.layout if column.key == key.column)
        if isinstance(column, Average) or key.column not in (claim.columns or (key.column,)):
            continue
        if key.k not in (claim.k or (key.k,)):
            continue
        rivals = {
            other.method: value(figure)
            for table in reversed(tables)  # of what is printed twice the first counts
            for other, figure in table.figures.items()
            if (other.column, other.k) == (key.column, key.k)
        }
        mine = rivals[claim.method]
        if claim.rank:
            rank = 1 + sum(rival > mine for rival in rivals.values())
            if rank != claim.rank:
                yield key, f"number {rank}"
        for other in claim.over:
            if rivals.get(other, mine) > mine:
                yield key, other if len(claim.over) > 1 else ""


def _claims(paper: Paper, model: str) -> list[Claim]:
    """Return the claims on a model, those on all models where it has the methods."""
    methods = _methods(paper, model)
    return [
        claim
        for claim in paper.claims
        if claim.model in ("", model) and methods.issuperset((claim.method, *claim.over))
    ]


def _methods(paper: Paper, model: str) -> set[str]:
    return {key.method for table in paper.tables_of(model) for key in table.figures}


def _mean(paper: Paper, key: Key, columns: Iterable[str]) -> Decimal | None:
    """Return the mean of printed figures over columns; None where one is not printed."""
    figures = [paper.find(key._replace(column=column)) for column in columns]
    values = [value(match[1]) for match in figures if match is not None]
    return sum(values, Decimal(0)) / len(values) if len(values) == len(figures) else None


def _title(paper: Paper, key: str) -> str:
    return next(column.title for column in paper.layout if column.key == key)


def _what(paper: Paper, key: Key) -> str:
    return f"{key.method} on {_title(paper, key.column)} at k = {key.k}"


def _digits(figure: Figure) -> int:
    return -int(unit(figure.printed).as_tuple().exponent)


def _at_ks(ks: Sequence[int]) -> str:
    return f"at k = {', '.join(map(str, ks))}"
