"""Starting a run: its questions, its strategies, its place in the database."""

from evaluator.database import Database
from evaluator.errors import InputError
from evaluator.questions import load_question_set
from evaluator.runs.store import Run, open_run, package_versions
from rephraser.pipeline.spec import RunSpec
from rephraser.proposers.rules import RULES_VERSION
from rephraser.strategies import Strategy


def rules_strategy() -> Strategy:
    """Return what stands for the rules proposer where a strategy is named."""
    return Strategy("rules", RULES_VERSION, "rules of English wording, no model", "", False)


def file_strategy(name: str) -> Strategy:
    """Return what stands for candidates from a file where a strategy is named."""
    return Strategy(name, "1", "candidates from a file", "", False)


def start_run(db: Database, name: str, spec: RunSpec, *, limit: int | None = None) -> tuple[Run, bool]:
    """Return the run of this name and whether it is new; it holds the usable questions of its set.

    Raises:
        NotFoundError: there is no such question set.
        InputError: the set has no usable question, or a run of this name has other settings.
    """
    with db.write() as session:
        questions = load_question_set(session, spec.questions)[:limit]
        if not questions:
            raise InputError(f"question set {spec.questions!r} has no usable question.")
        return open_run(
            session,
            name=name,
            kind="propose",
            spec=spec.to_json(),
            question_ids=[question.id for question in questions],
            versions=package_versions(),
        )
