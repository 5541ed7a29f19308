"""A published neighbor set as problems of an evaluation."""

from collections.abc import Callable

from evaluator.benchmarks.golds import require_golds
from evaluator.benchmarks.types import LoadedBenchmark
from evaluator.config import EvalConfig
from evaluator.evals.evaluating import ProblemSet
from evaluator.evals.problems import PlacedProblem, make_problem
from evaluator.grading import Grader
from rephraser.sets.store import find_set, load_entries
from service.database import Database


def load_neighbors(
    config: EvalConfig, db: Database, note: Callable[[str], None], grader: Grader
) -> list[ProblemSet]:
    """Return the questions of the set that a config names, each with its neighbors as one group.

    `config.limit` counts questions, not neighbors. The questions' golds are graded against themselves first.
    """
    assert config.neighbors is not None
    with db.read() as session:
        header = find_set(session, config.neighbors)
        entries = load_entries(session, header.id)
    questions = [entry.question for entry in entries]
    originals = tuple(
        make_problem(each.text, each.answer, each.kind, images=each.images) for each in questions
    )
    loaded = LoadedBenchmark(header.ref, originals[: config.limit])
    require_golds(loaded, grader, note, allow=config.allow_bad_golds)
    placed = []
    for entry, original in zip(entries, originals, strict=True):
        question = entry.question
        placed.append(PlacedProblem(original, question.id, 0, question.id))
        for variant, neighbor in enumerate(entry.neighbors, start=1):
            problem = make_problem(neighbor.text, question.answer, question.kind, images=question.images)
            place = (question.id, variant, neighbor.candidate_id, neighbor.strategy)
            placed.append(PlacedProblem(problem, *place))
    first = {entry.question.id for entry in entries[: config.limit]}
    problem_set = ProblemSet(
        label=header.ref,
        source={"neighbor_set": header.id, "ref": header.ref, "content_hash": header.content_hash},
        size=len(entries),
        placed=placed,
        taken=[place for place in placed if place.group_id in first],
    )
    return [problem_set]
