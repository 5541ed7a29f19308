"""What `tagrpo eval run` asks: benchmarks, or a published neighbor set; what that will cost (`--dry-run`)."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ui.cli import output
from ui.cli.eval.settings import BenchmarkRows
from ui.cli.output import Terminal, plural
from ui.cli.requests import print_estimates

if TYPE_CHECKING:
    from evaluator.benchmarks import LoadedBenchmark
    from evaluator.evals.problems import PlacedProblem
    from evaluator.evals.runs import EvalSpec
    from evaluator.grading import Grader
    from service.database import Database
    from service.models.estimate import PriceOf
    from service.questions.images import RowImages


@dataclass(frozen=True)
class ProblemSet:
    """What one run is over: a benchmark or a neighbor set, all of it, and the first problems that are taken.

    `label` names it in the run's spec, `suffix` in the run's name. `size` counts its problems, of a neighbor
    set its questions.
    """

    label: str
    suffix: str
    source: Mapping[str, Any]
    size: int
    placed: "Sequence[PlacedProblem]"
    taken: "Sequence[PlacedProblem]"
    images: "RowImages | None" = None  # of a benchmark, which the database may lack


def load_benchmarks(
    names: Sequence[str],
    rows: BenchmarkRows,
    *,
    allow_bad_golds: bool,
    limit: int | None,
    grader: "Grader",
) -> list[ProblemSet]:
    """Load benchmarks and grade their golds against themselves, before anything is asked."""
    from evaluator.benchmarks import require_golds
    from evaluator.evals.problems import PlacedProblem

    load = rows.loader(names)
    problem_sets = []
    for name in names:
        loaded = load(name)
        failures = require_golds(loaded, grader, allow_bad_golds)
        note_golds(loaded, len(failures))
        placed = [PlacedProblem(problem) for problem in loaded.problems]
        problem_sets.append(
            ProblemSet(
                loaded.name,
                loaded.name,
                loaded.source,
                len(placed),
                placed,
                placed[:limit],
                loaded.images,
            )
        )
    return problem_sets


def load_neighbors(
    database: "Database", reference: str, *, allow_bad_golds: bool, limit: int | None, grader: "Grader"
) -> ProblemSet:
    """Return the questions of a published neighbor set, each with its neighbors as one group.

    `limit` counts questions, not neighbors. The questions' golds are graded against themselves first.
    """
    from evaluator.benchmarks import LoadedBenchmark, require_golds
    from evaluator.evals.problems import PlacedProblem, make_problem
    from rephraser.sets import find_set, load_entries

    with database.read() as session:
        header = find_set(session, reference)
        entries = load_entries(session, header.id)
    questions = [entry.question for entry in entries]
    originals = tuple(
        make_problem(each.text, each.answer, each.kind, images=each.images) for each in questions
    )
    loaded = LoadedBenchmark(header.ref, header.ref, originals[:limit], {}, None)
    note_golds(loaded, len(require_golds(loaded, grader, allow_bad_golds)))
    placed = []
    for entry, original in zip(entries, originals, strict=True):
        question = entry.question
        placed.append(PlacedProblem(original, question.id, 0, question.id))
        for variant, neighbor in enumerate(entry.neighbors, start=1):
            placed.append(
                PlacedProblem(
                    make_problem(neighbor.text, question.answer, question.kind, images=question.images),
                    question.id,
                    variant,
                    neighbor.candidate_id,
                    neighbor.strategy,
                )
            )
    first = {entry.question.id for entry in entries[:limit]}
    return ProblemSet(
        label=header.ref,
        suffix=f"{header.name}-{header.version}",
        source={"neighbor_set": header.id, "ref": header.ref, "content_hash": header.content_hash},
        size=len(entries),
        placed=placed,
        taken=[place for place in placed if place.group_id in first],
    )


def note_golds(loaded: "LoadedBenchmark", failures: int) -> None:
    """Say how many golds no response may equal: those that fail against themselves, and whole solutions."""
    from evaluator.benchmarks import whole_solutions

    if failures:
        output.note(
            f"{loaded.name}: {failures:,} of {len(loaded.problems):,} gold answers do not grade as correct "
            "against themselves; their problems count as wrong"
        )
    if solutions := whole_solutions(loaded.problems):
        output.note(
            f"{loaded.name}: {solutions:,} of {plural(len(loaded.problems), 'gold answer')} are solutions "
            "of several lines, which hardly any response matches. Name the column of the final answer; from "
            "a solution, tagrpo reads the last \\boxed{} or the text after ####"
        )
    if loaded.content == "changed":
        output.note(
            f"{loaded.name}: the content differs from the known one; scores are not comparable with others"
        )


def show_estimates(
    database: "Database | None",
    named: "Sequence[tuple[str, ProblemSet, EvalSpec]]",
    n: int,
    price_of: "PriceOf",
    max_usd: float | None,
    terminal: Terminal,
) -> None:
    """Print what runs of these names will take; without a database there is no trial to scale."""
    from evaluator.evals.running import estimate_eval

    with nullcontext() if database is None else database.read() as session:
        estimates = {
            name: estimate_eval(session, name, spec, problems.taken, n, price_of)
            for name, problems, spec in named
        }
    record = {"runs": [{"run": name, **estimate.to_json()} for name, estimate in estimates.items()]}
    spread = "from short responses to responses of --max-tokens"
    terminal.emit(record, print_estimates, estimates, "problem", spread, max_usd)
