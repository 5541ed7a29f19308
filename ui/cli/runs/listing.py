"""`tagrpo runs list`: runs of all kinds, or those of one with what it counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.settings import Db

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.progress import RunProgress
    from service.runs.store import Run

Kind = Literal["propose", "eval", "judge", "train"]


@dataclass(frozen=True)
class Listed:
    """A run in the list.

    Attributes:
        over: what it is over: a question set, a benchmark, a recipe.
        done: how much there is, in words.
        record: the machine-readable form, beside what all kinds have.
        cells: in the table of its kind, behind name, `over` and model.
    """

    run: "Run"
    over: str | None
    model: str | None
    done: str
    record: Mapping[str, Any]
    cells: Sequence[object]

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run.name,
            "run_id": self.run.id,
            "kind": self.run.kind,
            **self.record,
            "created_at": self.run.created_at,
            "finished_at": self.run.finished_at,
        }


def list_(
    kind: Annotated[
        Kind | None,
        Option(help="Only runs of this kind: neighbors, evaluations, those of a judge, or trainings."),
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the runs, oldest first, with their input, model and size.

    --kind adds the columns of that kind.

    Example: tagrpo runs list --kind eval
    """
    with db.reading() as session:
        listed = [run for name in KINDS if kind in (None, name) for run in KINDS[name].read(session)]
    listed.sort(key=lambda listed_run: (listed_run.run.created_at, listed_run.run.name))
    columns = ["run", "kind", "over", "model", "done", "finished"]
    if kind is not None:
        columns = ["run", KINDS[kind].over, "model", *KINDS[kind].columns, "finished"]
    rows = [_row(run, kind) for run in listed]
    starts = [KINDS[name].start for name in KINDS if kind in (None, name)]
    terminal.emit(
        {"runs": [run.to_json() for run in listed]},
        output.table,
        columns,
        rows,
        empty=f"no runs yet; start one with {', '.join(f'`{start}`' for start in starts)}",
    )


def _row(listed: Listed, kind: Kind | None) -> list[object]:
    run = listed.run
    finished = run.finished_at or "no"
    if kind is None:
        return [run.name, run.kind, listed.over, listed.model, listed.done, finished]
    return [run.name, listed.over, listed.model, *listed.cells, finished]


def _proposing(session: "Session") -> list[Listed]:
    from rephraser.views.runs import list_headers

    return [
        Listed(
            header.run,
            header.run.spec["questions"],
            header.proposed_by,
            f"{header.candidates:,} candidates of {output.plural(header.questions, 'question')}",
            header.to_json(),
            [
                header.questions,
                ", ".join(solver["model"] for solver in header.run.spec["solvers"]) or None,
                header.candidates,
                header.usd,
            ],
        )
        for header in list_headers(session)
    ]


def _evaluations(session: "Session") -> list[Listed]:
    from evaluator.evals.overview import runs_overview
    from evaluator.evals.sources import BOX
    from evaluator.reports.documents.document import ABSENT, hundredths

    return [
        Listed(
            line.run,
            line.benchmark,
            line.run.spec["model"],
            f"{line.samples:,} samples of {output.plural(line.problems, 'problem')}",
            line.to_json(),
            [
                line.problems,
                str(line.most) if line.fewest == line.most else f"{line.fewest} to {line.most}",
                "all" if line.graded == line.samples else f"{line.graded:,} of {line.samples:,}",
                ABSENT if line.mean is None else hundredths(line.mean),
                line.human,
                ABSENT if (shares := line.sources.shares) is None else hundredths(shares[BOX], 1),
            ],
        )
        for line in runs_overview(session)
    ]


def _judgings(session: "Session") -> list[Listed]:
    from service.runs.progress import progress_of
    from service.runs.store import list_runs

    runs = list_runs(session)
    names = {run.id: run.name for run in runs}
    return [
        Listed(
            line.run,
            names.get(line.run.spec["eval_run"]),
            line.run.spec["model"],
            f"{line.done:,} of {output.plural(line.planned, 'response')} judged",
            {"asked": line.run.spec["asked"], **judging_numbers(line)},
            [line.run.spec["asked"], line.planned, line.done, line.usd],
        )
        for line in progress_of(session, [run for run in runs if run.kind == "judge"])
    ]


def judging_numbers(line: "RunProgress") -> dict[str, Any]:
    """Return what a judge's run counts, for JSON."""
    names = ("planned", "done", "open", "failed", "final", "usd", "unpriced")
    return {name: getattr(line, name) for name in names}


def _trainings(session: "Session") -> list[Listed]:
    from trainer_adapter.record.runs import list_train_runs

    trainings = list_train_runs(session)
    for training in trainings:
        if training.problem:
            output.note(training.problem)
    return [
        Listed(
            training.run,
            training.recipe,
            training.model,
            f"{training.numbers.rollouts:,} rollouts in {output.plural(training.numbers.steps, 'step')}",
            training.to_json(),
            list(vars(training.numbers).values()),
        )
        for training in trainings
    ]


@dataclass(frozen=True)
class _KindOfRun:
    over: str
    columns: Sequence[str]
    read: Callable[["Session"], list[Listed]]
    start: str


KINDS: Mapping[str, _KindOfRun] = {
    "propose": _KindOfRun(
        "questions",
        ("number", "solvers", "candidates", "USD"),
        _proposing,
        "tagrpo rephrase run",
    ),
    "eval": _KindOfRun(
        "benchmark",
        ("problems", "samples each", "graded", "pass@1 %", "human grades", "boxed %"),
        _evaluations,
        "tagrpo eval run",
    ),
    "judge": _KindOfRun(
        "evaluation",
        ("judged", "requests", "replies", "USD"),
        _judgings,
        "tagrpo eval score --judge",
    ),
    "train": _KindOfRun(
        "recipe",
        ("steps", "first step", "last step", "rollouts"),
        _trainings,
        "tagrpo train run",
    ),
}
