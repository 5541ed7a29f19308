"""What `tagrpo diagnose` looks at (eval runs, or rollouts in files) and the options of all its commands."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.errors import InputError

if TYPE_CHECKING:
    from evaluator.signal.groups import Checkpoint, GroupTexts

RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Eval runs over a neighbor set, by name or id: one, or one for each checkpoint.",
        show_default=False,
    ),
]
RolloutsOption = Annotated[
    Path | None,
    typer.Option(
        "--rollouts",
        help="In place of runs: rollouts of training, a JSON Lines or parquet file, or a folder of them "
        "(verl's trainer.rollout_data_dir, tagrpo's own record).",
        show_default=False,
    ),
]
GOption = Annotated[int, typer.Option("--g", help="G, responses to each prompt in a group.")]
NeighborsOption = Annotated[
    int | None,
    typer.Option(
        "--neighbors", help="N, neighbors of a question; by default as many as most have.", show_default=False
    ),
]
WindowsOption = Annotated[
    int, typer.Option("--windows", help="Stretches of steps that rollouts are shown in.")
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--correct-above",
        help="Rollouts: a response is correct if its reward is above this; not needed for 0/1 and -1/1.",
        show_default=False,
    ),
]
GraderOption = Annotated[
    str | None,
    typer.Option("--grader", help="Version of the grader whose grades count.", show_default=False),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn.")]
CsvOption = Annotated[
    Path | None,
    typer.Option("--csv", help="Also write the rows as CSV files into this folder.", show_default=False),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace CSV files that exist.")]

Texts = Callable[["Checkpoint", Sequence[str]], Callable[[], "Iterator[GroupTexts]"]]


@dataclass(frozen=True)
class Given:
    """What was loaded: checkpoints in order, remarks on them, and a way to their texts."""

    source: str
    checkpoints: "tuple[Checkpoint, ...]"
    notes: tuple[str, ...]
    texts: Texts

    def neighbors(self, wanted: int | None) -> int:
        """Return N: the number asked for, else how many neighbors most questions have."""
        from evaluator.signal.groups import usual_neighbors

        if wanted is not None:
            if wanted < 0:
                raise InputError(f"--neighbors is {wanted}; give 0 or more.")
            return wanted
        return usual_neighbors([group for checkpoint in self.checkpoints for group in checkpoint.groups])


def load(
    runs: list[str] | None,
    rollouts: Path | None,
    *,
    db: Path | None,
    windows: int,
    threshold: float | None,
    grader: str | None,
) -> Given:
    """Return the responses of the runs, or of the files.

    Raises:
        InputError: neither or both are given, or they cannot be used.
    """
    if bool(runs) == (rollouts is not None):
        raise typer.BadParameter("name eval runs, or give --rollouts PATH")
    if rollouts is not None:
        if grader is not None:
            raise typer.BadParameter("--grader belongs to eval runs; rollouts bring their rewards")
        return _from_files(rollouts, windows, threshold)
    if threshold is not None:
        raise typer.BadParameter("--correct-above belongs to --rollouts")
    return _from_database(runs or [], db, grader)


def _from_files(path: Path, windows: int, threshold: float | None) -> Given:
    from evaluator.signal.sources.rollouts import read_rollouts, rollout_texts

    read = read_rollouts(path, windows=windows, threshold=threshold)
    notes = []
    if read.by_prompt:
        notes.append(
            "some rows name no question, so each of their prompts counts as a question: neighbors cannot be "
            "told from originals (give question_id and neighbor_id on every rollout)"
        )
    steps = {checkpoint.label: part for checkpoint, part in zip(read.checkpoints, read.steps, strict=True)}

    def texts(checkpoint: "Checkpoint", group_ids: Sequence[str]) -> Callable[[], "Iterator[GroupTexts]"]:
        return lambda: rollout_texts(path, steps[checkpoint.label], group_ids, threshold=threshold)

    return Given(str(path), read.checkpoints, tuple(notes), texts)


def _from_database(runs: list[str], db: Path | None, grader: str | None) -> Given:
    from evaluator.signal.sources.eval_runs import common_questions, load_runs, run_texts
    from service.database import Database, locate_database

    place = locate_database(db)
    with Database.open(place, create=False) as database, database.read() as session:
        checkpoints, left_out = common_questions(load_runs(session, runs, grader_version=grader))
    notes = []
    if left_out:
        notes.append(f"{left_out:,} questions are left out: they are not in all of the runs")

    def texts(checkpoint: "Checkpoint", group_ids: Sequence[str]) -> Callable[[], "Iterator[GroupTexts]"]:
        def read() -> "Iterator[GroupTexts]":
            with Database.open(place, create=False) as database:
                yield from run_texts(database, checkpoint.label, group_ids)

        return read

    return Given(", ".join(runs), tuple(checkpoints), tuple(notes), texts)
