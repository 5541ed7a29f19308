"""A published neighbor set as problems of an evaluation."""

from evaluator.benchmarks.loading import LoadedBenchmark
from evaluator.config import EvalConfig
from evaluator.evals.problems import PlacedProblem, make_problem
from evaluator.evals.running import ProblemSet
from rephraser.sets.store import find_set, load_entries
from service.database import Database


def load_neighbors(config: EvalConfig, db: Database) -> ProblemSet:
    """Return the questions of the set that a config names, each with its neighbors as one group.

    `config.limit` counts questions, not neighbors.
    """
    assert config.neighbors is not None
    with db.read() as session:
        header = find_set(session, config.neighbors)
        entries = load_entries(session, header.id)
    questions = [entry.question for entry in entries]
    originals = tuple(
        make_problem(each.text, each.answer, each.kind, images=each.images) for each in questions
    )
    source = {"neighbor_set": header.id, "ref": header.ref, "content_hash": header.content_hash}
    placed = []
    for entry, original in zip(entries, originals, strict=True):
        question = entry.question
        placed.append(PlacedProblem(original, question.id, 0, question.id))
        for variant, neighbor in enumerate(entry.neighbors, start=1):
            problem = make_problem(neighbor.text, question.answer, question.kind, images=question.images)
            place = (question.id, variant, neighbor.candidate_id, neighbor.strategy)
            placed.append(PlacedProblem(problem, *place))
    first = {entry.question.id for entry in entries[: config.limit]}
    taken = [place for place in placed if place.group_id in first]
    return ProblemSet(LoadedBenchmark(header.ref, originals, source), placed, taken)
