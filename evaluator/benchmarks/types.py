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
    """Names of columns. None: the usual names are looked for (see `service.questions.columns`).

    `further` columns stand below that of the question.
    The answer is read from `answer`; from the last box of `solution` where only that is named. `options` are
    columns of a multiple-choice question, the right one first; they are shuffled and `answer` becomes a
    letter. `choices` is a column with the list of them in their order, to which the answer is a letter; rows
    without any ask for something else. `kind` and `tolerance` are a row's own, where the source has such
    columns; `kinds` says what other names for kinds mean. `images` are those of a question.
    """

    question: Text | None = None
    answer: Text | None = None
    solution: Text | None = None
    options: tuple[Text, ...] = ()
    kind: Text | None = None
    tolerance: Text | None = None
    images: Text | None = None
    choices: Text | None = None
    further: tuple[Text, ...] = ()
    kinds: Mapping[str, AnswerKind] = field(default_factory=dict)


@checked_dataclass(frozen=True, config=_CHECKED)
class Benchmark:
    """A benchmark: its place on the Hub, the rows that are expected, and what may be done with it.

    `revision` is a commit of the Hub data set, None where none could be confirmed (`note` says so).
    `content_hash` is `content_hash` of its problems, None where no copy was at hand to compute it from.
    `only` names a column and the value of the rows that are taken.
    `file` stands in the place of the Hub for a benchmark of the user's own. The rows of a `gated` benchmark
    are never shown.
    """

    name: Text
    title: Text
    hub_id: Text | None = None
    configs: tuple[Text, ...] = ()
    split: Text | None = None
    revision: Text | None = None
    rows: Annotated[int, Field(ge=1)] | None = None
    columns: BenchmarkColumns = BenchmarkColumns()
    kind: AnswerKind = AnswerKind.LATEX
    licence: Text = "not declared"
    citation: str = ""
    gated: bool = False
    content_hash: str | None = None
    tolerance: str | None = None
    note: str = ""
    file: Path | None = None
    only: tuple[str, str] | None = None


@dataclass(frozen=True)
class LoadedBenchmark:
    """The problems of a benchmark in the order of its rows, and where they were read.

    `source` goes into the key of a run: the Hub data set with its commit, or the file's name and hash, and
    the seed of shuffled options. `content` says what is known of the problems: "as known" (the content hash
    agrees), "pinned revision", "not checked" or "changed" (with `allow_changed`). `references` holds, by
    problem's id, programs that have to pass the problem's tests. The representation leaves the problems out,
    so that none of a gated benchmark is logged.
    """

    name: str
    title: str
    problems: tuple[Problem, ...] = field(repr=False)
    source: dict[str, Any]
    benchmark: Benchmark | None
    content: str = "not checked"
    images: RowImages = field(default_factory=RowImages, repr=False)
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


def source_name(source: Mapping[str, Any]) -> str:
    """Return where a benchmark was read in a few words: `org/name@1a2b3c4` or the file's name."""
    if "file" in source:
        return str(source["file"])
    commit = source.get("commit")
    return f"{source['hub']}@{commit[:7]}" if commit else str(source["hub"])
