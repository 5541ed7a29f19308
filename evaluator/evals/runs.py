"""Eval runs: the settings that make one, opening it under a name, and finding it by the names users give."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from evaluator.config import SamplingSettings
from evaluator.evals.problems import PlacedProblem, store_run_problems
from evaluator.grading.types import Answers
from evaluator.grading.versions import version_taking
from service.errors import InputError
from service.models.settings import PromptSpec
from service.runs.store import Run, find_run, open_run

EVAL = "eval"
"""The kind of these runs in the table of runs."""

MAX_SAMPLES = 100_000

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_MODEL = 60


class EvalSpec(BaseModel):
    """All that shapes an eval run's samples and score; how many are drawn is not part of it."""

    model_config = ConfigDict(frozen=True)

    problems: str  # name of the benchmark or neighbor set
    problems_hash: str  # of all its content
    size: int  # all its problems, of a set its questions
    # where it was loaded from: a Hub revision, a file's hash, the seed of shuffled options
    source: Mapping[str, Any]
    model: str
    engine: Mapping[str, Any]  # sampler, versions and the chat template's hash
    prompt: PromptSpec
    sampling: SamplingSettings
    answers: Answers = "all"  # which answers count
    grader: str = ""  # version of a grader of the user's own; empty for the rules

    @property
    def model_identity(self) -> str:
        """The model as `Request.model` has it."""
        return str(self.engine.get("identity", self.model))

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored, hashed and shown, without the last two if they are defaults."""
        fields = type(self).model_fields
        left_out = {name for name in ("answers", "grader") if getattr(self, name) == fields[name].default}
        return {
            **self.model_dump(mode="json", exclude={"sampling", *left_out}),
            "sampling": self.sampling.without_neutral(),
        }


IMPORTED = "imported"
"""The sampler, in `engine`, of a run whose responses another tool drew."""


STOP_REASONS = "stop reasons"
"""Among the versions of an imported run: that its file does not tell why responses ended."""


def tells_ends(run: Run) -> bool:
    """Return whether it is known why responses ended, and so which were cut: not of a silent import."""
    return STOP_REASONS not in run.versions


def is_imported(run: Run) -> bool:
    """Return whether another tool drew the responses: then prompt and sampling say nothing of them."""
    return run.kind == EVAL and run.spec["engine"].get("sampler") == IMPORTED


def run_answers(run: Run) -> Answers:
    """Return which answers an eval run was made to count."""
    answers: Answers = run.spec.get("answers", "all")
    return answers


def run_version(run: Run) -> str:
    """Return the version of the grader that an eval run is made with: the user's own, or the rules'."""
    return str(run.spec.get("grader") or version_taking(run_answers(run)))


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


def open_eval_run(
    session: Session,
    name: str,
    spec: EvalSpec,
    placed: Sequence[PlacedProblem],
    versions: Mapping[str, Any] | None = None,
) -> tuple[Run, int]:
    """Return the eval run of this name, made if there is none, and how many problems it had before.

    One that holds the first of these problems gets the others too: a trial grows, and what it has stays.
    """
    if not placed:
        raise InputError(f"{spec.problems}: it contains no problems to evaluate.")
    run, _ = open_run(session, name=name, kind=EVAL, spec=spec.to_json(), question_ids=[], versions=versions)
    there = store_run_problems(session, run.id, placed)
    if there > len(placed):
        raise InputError(
            f"run {name!r} has {there:,} problems, not {len(placed):,}; a larger limit can extend a run, "
            "but a smaller one cannot shrink it. Choose another --name."
        )
    return run, there


def find_eval_run(session: Session, name: str) -> Run:
    """Return the eval run of this name; NAME also finds NAME.BENCHMARK."""
    return find_run(session, name, EVAL)


def config_name(run: Run) -> str:
    """Return the name that the config of an eval run gives: the run's without the benchmark."""
    suffix = "." + str(run.spec["problems"]).replace("@", "-")
    if not run.name.endswith(suffix):
        raise InputError(
            f"run {run.name} was renamed: an evaluation resumes only under a name that ends with {suffix}. "
            f"Rename it first, as in `tagrpo runs rename {run.name} {run.name}{suffix}`."
        )
    return run.name.removesuffix(suffix)
