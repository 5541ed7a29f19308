"""Types of benchmarks: the source of the problems, how to read them, and how to verify them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from evaluator.evals.problems import Problem, problems_hash
from evaluator.grading import AnswerKind
from service.errors import InputError
from service.questions.images import RowImages


class ChangedBenchmarkError(InputError):
    """A benchmark whose rows are not those it is known by: another number of them, or other content."""


Text = Annotated[str, Field(pattern=r"\S")]
_CHECKED = ConfigDict(extra="forbid")


@checked_dataclass(frozen=True, config=_CHECKED)
class BenchmarkColumns:
    """Names of columns. None: the usual names are looked for (see `service.questions.columns`)."""

    question: Text | None = None
    answer: Text | None = None  # else the last box of `solution`
    solution: Text | None = None
    # of a multiple-choice question, the correct one first; they are shuffled and `answer` becomes a letter
    options: tuple[Text, ...] = ()
    kind: Text | None = None  # a row's own kind and tolerance
    tolerance: Text | None = None
    images: Text | None = None
    # the list of options, to which the answer is a letter; rows without any ask for something else
    choices: Text | None = None
    further: tuple[Text, ...] = ()  # parts of the question below `question`
    kinds: Mapping[str, AnswerKind] = field(default_factory=dict)  # what other names for kinds mean


@checked_dataclass(frozen=True, config=_CHECKED)
class Benchmark:
    """A benchmark: its place on the Hub, the expected rows, and what may be done with it."""

    name: Text
    title: Text
    hub_id: Text | None = None
    configs: tuple[Text, ...] = ()
    split: Text | None = None
    revision: Text | None = None  # commit of the Hub data set; None if none could be confirmed
    rows: Annotated[int, Field(ge=1)] | None = None
    columns: BenchmarkColumns = BenchmarkColumns()
    kind: AnswerKind = AnswerKind.LATEX
    licence: Text = "not declared"
    citation: str = ""
    gated: bool = False  # rows are never shown
    content_hash: str | None = None  # of its problems; None if no copy was at hand to compute it
    tolerance: str | None = None
    note: str = ""
    file: Path | None = None  # instead of the Hub for a benchmark of the user's own
    only: tuple[str, str] | None = None  # a column, and the value of the rows that are taken


@dataclass(frozen=True)
class LoadedBenchmark:
    """The problems of a benchmark in the order of its rows, and where they were read."""

    name: str
    # not in the representation, so that no gated one is logged
    problems: tuple[Problem, ...] = field(repr=False)
    # for a run's key: data set and commit, or file and hash, and the seed of shuffled options
    source: Mapping[str, Any] = field(default_factory=dict)
    benchmark: Benchmark | None = None
    content: str = "not checked"  # as known, pinned revision, not checked, or changed (with `allow_changed`)
    images: RowImages = field(default_factory=RowImages, repr=False)
    # by problem's id, programs that pass its tests
    references: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def gated(self) -> bool:
        """Whether the problems must not be shown."""
        return self.benchmark is not None and self.benchmark.gated

    @property
    def problems_hash(self) -> str:
        """The hash of the problems in order, as in an eval run over all of them."""
        return problems_hash(self.problems)


def content_hash(problems: Sequence[Problem]) -> str:
    """Return the hash of a benchmark's problems whatever their order; copies of the Hub differ in that.

    Images are left out: copies have the same pictures in other files.
    """
    texts = (replace(problem, images=(), copy=0) if problem.images else problem for problem in problems)
    return problems_hash(sorted(texts, key=lambda problem: problem.id))
