"""Settings that several commands of `tagrpo eval` take: benchmarks, answers, graders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

if TYPE_CHECKING:
    from evaluator.benchmarks.types import LoadedBenchmark

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
