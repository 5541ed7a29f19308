"""Settings that several commands of `tagrpo eval` take: benchmarks, answers, graders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from typer import Argument, Option

from service.errors import InputError

if TYPE_CHECKING:
    from evaluator.benchmarks.types import LoadedBenchmark

Form = TypeVar("Form", bound=str)
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
        source: File with the rows, instead of the Hub; for several benchmarks one each, or NAME=FILE.
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


def form_of(path: Path, given: Form | None, by_suffix: Mapping[str, Form]) -> Form:
    """Return the form of a file: as given, else what its name ends in."""
    form = given or by_suffix.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"{path}: the format is unknown. End the name in {', '.join(by_suffix)}, or give --format."
        )
    return form
