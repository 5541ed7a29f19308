"""Settings that several commands of `tagrpo eval` take: which grades count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from service.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from evaluator.benchmarks.types import LoadedBenchmark
    from evaluator.reports.methods import Method

AnswersName = Literal["all", "boxed"]


EvalRun = Annotated[str, Argument(help="Name or id of an eval run.")]

AnswersTaken = Annotated[
    AnswersName, Option("--answers", help="Answers that count: any final answer, or only boxed ones.")
]


OwnGrader = Annotated[
    str | None, Option("--grader", help="Your own grader as module:function, instead of the built-in rules.")
]


@dataclass(frozen=True)
class BenchmarkRows:
    """Where the rows of benchmarks come from, and which are taken.

    Args:
        source: File with the rows, instead of the Hub. For several benchmarks: one per benchmark in order, or
            NAME=FILE.
        options_seed: Seed that shuffles the options of multiple-choice questions.
        allow_changed: Accept a benchmark whose content differs from the version known to tagrpo.
    """

    source: Annotated[list[str] | None, Option("--from")] = None
    options_seed: int = 0
    allow_changed: bool = False

    def loader(self, names: Sequence[str]) -> "Callable[[str], LoadedBenchmark]":
        """Return what loads each of these benchmarks; nothing is read yet."""
        from evaluator.benchmarks.loading import load_benchmark
        from evaluator.evals.evaluating import match_files

        files = match_files(names, self.source or ())

        return lambda name: load_benchmark(
            name,
            source=files.get(name),
            options_seed=self.options_seed,
            allow_changed=self.allow_changed,
        )


@dataclass(frozen=True)
class Counted:
    """Which grades count in reports.

    Args:
        answers: Answers that count: any final answer, or only boxed ones. Default: as in the run.
        grades: Grades that count. human: human grades override the grader's; grader: ignore human grades.
        judge: Also count the grades of this judge model from `eval score --judge`.
    """

    answers: AnswersName | None = None
    grades: Literal["human", "grader"] = "human"
    own_grader: OwnGrader = None
    judge: str | None = None

    def __post_init__(self) -> None:
        if self.own_grader is not None and self.answers == "boxed":
            raise InputError("a custom grader extracts answers itself. Remove --answers boxed.")

    def load(
        self, session: "Session", references: Sequence[str], allow: Sequence[str] | None
    ) -> "tuple[list[Method], list[str]]":
        """Return the methods that references name, and what is known of their contamination."""
        from evaluator.reports.methods import load_methods
        from evaluator.reports.notes import contamination_notes

        methods = load_methods(
            session,
            references,
            pool_anyway="pooling" in (allow or ()),
            answers=self.answers,
            grades=self.grades,
            own=self.own_grader,
            judge=self.judge,
        )
        return methods, contamination_notes(session, methods)
