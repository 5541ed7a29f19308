"""Starting an eval run: its name, its problems, its place in the database."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from evaluator.evals.problems import PlacedProblem, problems_hash, store_run_problems
from evaluator.evals.spec import EVAL, EvalSpec
from service.errors import InputError
from service.hashing import content_hash
from service.runs.store import Run, find_same_run, open_run

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_MODEL = 60


def model_slug(model: str) -> str:
    """Return a model's name or path as part of a run's name.

    >>> model_slug("hosted_vllm/Qwen/Qwen3-4B")
    'Qwen3-4B'
    >>> model_slug("checkpoints/step 200/")
    'step-200'
    """
    last = model.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    slug = _NOT_IN_NAMES.sub("-", last).strip("-._")[:_LONGEST_MODEL]
    return slug or "model"


def placed_hash(placed: Sequence[PlacedProblem]) -> str:
    """Return the content hash of a run's problems in order.

    It is the benchmark's own (`problems_hash`) unless neighbors stand among them: then their groups and
    places count too.
    """
    if all(place.group_id is None and place.variant == 0 for place in placed):
        return problems_hash([place.problem for place in placed])
    return content_hash(
        "placed-problems", [[place.problem.id, place.group_id, place.variant] for place in placed]
    )


def open_eval_run(
    session: Session,
    name: str,
    spec: EvalSpec,
    placed: Sequence[PlacedProblem],
    versions: Mapping[str, Any],
) -> tuple[Run, bool]:
    """Return the eval run of this name, made if there is none, and whether it is new.

    Raises:
        InputError: there is no problem, `name` cannot name a run, or a run of this name has other settings;
            they are listed.
    """
    if not placed:
        raise InputError(f"{spec.problems}: it holds no problem to evaluate.")
    run, new = open_run(
        session, name=name, kind=EVAL, spec=spec.to_json(), question_ids=[], versions=versions
    )
    if new:
        store_run_problems(session, run.id, placed)
    return run, new


def check_eval_run(session: Session, name: str, spec: EvalSpec) -> None:
    """Raise what `open_eval_run` would raise of the name and the settings; nothing is stored."""
    find_same_run(session, name=name, kind=EVAL, spec=spec.to_json(), question_ids=[])
