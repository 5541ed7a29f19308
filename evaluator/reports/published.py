"""Printed figures of TA-GRPO (arXiv:2601.22478 v5): pass@32 with what is odd about it, and equal rewards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from service.errors import InputError

SOURCE = "arXiv:2601.22478 v5, Table 1"
SHARES_SOURCE = "arXiv 2601.22478v5, section 5.2 and Figure 3: TA-GRPO on MATH train, G=8, N=3"
"""Where the shares of zero-gradient questions are printed."""
K = 32
"""The table's k."""

SETTINGS = {"n": 128, "temperature": 0.6, "top_p": 0.95, "max_tokens": 3072, "form": "raw"}
"""The authors' public evaluation: samples a problem, sampling, and the problem's raw text as the prompt."""


@dataclass(frozen=True)
class Column:
    """A column of the table: a benchmark by its key in `BENCHMARKS`, and how many problems it holds."""

    title: str
    benchmark: str
    problems: int


@dataclass(frozen=True)
class Average:
    """An average column: the mean of the columns named."""

    title: str
    of: tuple[str, ...]


LAYOUT: tuple[Column | Average, ...] = (
    Column("AMC", "amc12", 83),
    Column("Olympiad", "olympiadbench", 675),
    Column("AIME24", "aime24", 30),
    Column("AIME25", "aime25", 30),
    Average("avg", ("AMC", "Olympiad", "AIME24", "AIME25")),
    Column("Minerva", "minerva", 272),
    Column("GPQA-D", "gpqa-diamond", 198),
    Average("avg", ("Minerva", "GPQA-D")),
)
"""The columns in the table's order."""

COLUMNS = tuple(column for column in LAYOUT if isinstance(column, Column))


def benchmarks_of(average: Average) -> tuple[str, ...]:
    """Return the benchmarks of an average's columns."""
    by_title = {column.title: column.benchmark for column in COLUMNS}
    return tuple(by_title[title] for title in average.of)


def in_order(benchmarks: Iterable[str]) -> list[str]:
    """Return benchmarks with the table's first, in its order; others stay in theirs."""
    order = [column.benchmark for column in COLUMNS]
    return sorted(benchmarks, key=lambda name: order.index(name) if name in order else len(order))


METHODS = ("Base", "GRPO", "GRPO w/ DS", "TA-GRPO")

TABLE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Qwen3-1.7B": {
        "Base": ("62.70", "60.04", "32.54", "29.13", "46.10", "49.64", "61.10", "55.37"),
        "GRPO": ("76.06", "66.03", "39.37", "32.34", "53.45", "51.34", "66.91", "59.13"),
        "GRPO w/ DS": ("77.49", "67.31", "40.38", "33.21", "54.60", "52.18", "67.94", "60.06"),
        "TA-GRPO": ("83.74", "70.45", "47.42", "37.14", "59.69", "53.07", "76.52", "64.80"),
    },
    "Qwen3-4B": {
        "Base": ("79.98", "68.08", "45.44", "36.32", "57.45", "57.19", "77.84", "67.52"),
        "GRPO": ("84.16", "70.55", "46.47", "42.11", "60.82", "58.25", "78.96", "68.60"),
        "GRPO w/ DS": ("85.07", "71.46", "47.39", "42.95", "61.72", "58.97", "79.63", "69.30"),
        "TA-GRPO": ("88.08", "74.53", "57.37", "45.92", "66.73", "60.81", "84.85", "72.83"),
    },
    "Llama-3.2-1B": {
        "Base": ("50.98", "33.89", "17.96", "0.83", "25.92", "25.98", "50.49", "38.23"),
        "GRPO": ("52.81", "35.10", "19.43", "1.67", "27.25", "29.26", "52.68", "40.97"),
        "GRPO w/ DS": ("53.74", "35.88", "20.04", "1.79", "27.86", "29.87", "53.42", "41.65"),
        "TA-GRPO": ("59.46", "38.49", "22.79", "4.68", "31.36", "30.98", "59.11", "45.05"),
    },
    "Llama-3.2-3B": {
        "Base": ("69.75", "48.76", "33.07", "7.66", "39.81", "42.30", "60.57", "51.44"),
        "GRPO": ("70.99", "50.70", "35.10", "11.47", "42.06", "44.49", "63.75", "54.12"),
        "GRPO w/ DS": ("72.18", "51.79", "36.42", "12.38", "43.19", "45.42", "64.78", "55.10"),
        "TA-GRPO": ("81.25", "55.60", "39.64", "17.28", "48.44", "46.82", "68.74", "57.78"),
    },
}
"""Printed figures in percent, by model and method, in the order of `LAYOUT`."""

NAMES_FLAG = (
    'the table prints a "TA-" before the names of the baselines\' rows (GRPO, GRPO w/ DS) too, by mistake; '
    "here they are named as the text does."
)
GAINS_FLAG = (
    'the text calls the average gains of 4.97 (Qwen3-1.7B) and 4.34 points (Qwen3-4B) gains "over GRPO"; '
    "by the table they are those over GRPO w/ DS, and over GRPO the gains are 6.05 and 5.18."
)
_GAINS_MODELS = ("Qwen3-1.7B", "Qwen3-4B")
_ROUNDING = Decimal("0.0051")


@dataclass(frozen=True)
class PublishedRow:
    """One row as printed, by place in `LAYOUT`; `odd` are the places of averages that their columns belie."""

    method: str
    printed: tuple[str, ...]
    odd: tuple[int, ...]


def published_rows(model: str) -> list[PublishedRow]:
    """Return the rows of a model of the table, in its order."""
    return [
        PublishedRow(method, printed, tuple(place for place, _, _ in _odd_averages(printed)))
        for method, printed in TABLE[model].items()
    ]


def flags(model: str) -> list[str]:
    """Return what a reader of the model's printed figures should know."""
    remarks = [NAMES_FLAG]
    if model in _GAINS_MODELS:
        remarks.append(GAINS_FLAG)
    for method, printed in TABLE[model].items():
        for place, mean, columns in _odd_averages(printed):
            remarks.append(
                f"the average {printed[place]} of {model} {method} is not the mean of its columns "
                f"({', '.join(columns)}), which is {mean:.2f}; it is shown as printed, with (!)."
            )
    return remarks


def find_model(name: str) -> str:
    """Return the table's name of a model, whatever its case and the account before it.

    Raises:
        InputError: no such model in the table.
    """
    model = recognise(name)
    if model is None:
        raise InputError(f"the paper's table has no model {name!r}; it has {', '.join(TABLE)}.")
    return model


def recognise(name: str) -> str | None:
    """Return the table's model that `name` is (`Qwen/Qwen3-4B`), None where it is none of them."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    return next((model for model in TABLE if model.lower() == last), None)


def _odd_averages(printed: tuple[str, ...]) -> list[tuple[int, Decimal, tuple[str, ...]]]:
    """Return place, true mean and columns of each printed average that is off by more than rounding."""
    by_title = {
        column.title: Decimal(value)
        for column, value in zip(LAYOUT, printed, strict=True)
        if isinstance(column, Column)
    }
    odd = []
    for place, column in enumerate(LAYOUT):
        if isinstance(column, Average):
            mean = sum((by_title[title] for title in column.of), Decimal(0)) / len(column.of)
            if abs(mean - Decimal(printed[place])) > _ROUNDING:
                odd.append((place, mean, column.of))
    return odd


@dataclass(frozen=True)
class PublishedShares:
    """Shares in percent of questions whose G original responses get one reward, and by how much N*G lower it.

    `gap` is in points; the share of the N*G neighbor responses is `original - gap`.
    """

    model: str
    checkpoint: str
    original: float
    gap: float

    @property
    def neighbors(self) -> float:
        return round(self.original - self.gap, 1)


PUBLISHED_SHARES = (
    PublishedShares("Qwen3-1.7B", "base", 77.0, 18.6),
    PublishedShares("Qwen3-1.7B", "100%", 87.4, 14.0),
    PublishedShares("Qwen3-4B", "base", 85.6, 13.8),
    PublishedShares("Qwen3-4B", "100%", 93.2, 8.0),
)
