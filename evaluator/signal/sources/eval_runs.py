"""Groups and texts from eval runs over a neighbor set; a run without neighbors gives originals only."""

from collections.abc import Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.evals.counts import count_samples, count_tokens
from evaluator.evals.overview import choose_version
from evaluator.evals.runs import find_eval_run
from evaluator.evals.tables import RunProblemRow, SampleRow, SampleTextRow
from evaluator.grading.versions import find_grader
from evaluator.signal.groups import (
    ORIGINAL,
    CheckpointGroups,
    PromptSample,
    QuestionGroup,
    ResponseSource,
    Texts,
)
from service.database import Database, in_parts
from service.errors import InputError
from service.runs.store import Run

_GROUPS_AT_ONCE = 20
_COUNTED = ("variant", "correct", "wrong", "unknown", "strategy", "source_id")


def eval_source(database: Database, references: Sequence[str]) -> ResponseSource:
    """Return the responses of eval runs, a checkpoint each, cut down to the questions that all of them hold.

    Their texts are read while the database is open.
    """
    with database.read() as session:
        runs = load_runs(session, references)
    held = [{group.group_id for group in run.groups} for run in runs]
    common, every = set.intersection(*held), set.union(*held)
    if not common:
        labels = ", ".join(run.label for run in runs)
        raise InputError(f"{labels} have no common question. Use runs over the same questions.")
    checkpoints = tuple(
        CheckpointGroups(run.label, tuple(group for group in run.groups if group.group_id in common))
        for run in runs
    )
    left_out = len(every) - len(common)
    notes = (f"{left_out:,} questions are excluded, because some of the runs lack them",) if left_out else ()
    return ResponseSource(
        ", ".join(references), checkpoints, lambda label, ids: _read_texts(database, label, ids), notes
    )


def load_runs(session: Session, references: Sequence[str]) -> list[CheckpointGroups]:
    """Return a checkpoint for each eval run, in the order given, labelled by the run's name.

    All are graded by one version of the grader that graded every sample of all runs.
    """
    runs = [find_eval_run(session, reference) for reference in references]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise InputError(f"a run appears twice in {', '.join(names)}. Give each run once.")
    grader = find_grader(session, choose_version(session, runs))
    return [_load(session, run, grader) for run in runs]


def _read_texts(database: Database, reference: str, group_ids: Sequence[str]) -> Iterator[Texts]:
    """Yield the responses of these questions of a run, some questions at a time."""
    with database.read() as session:
        run = find_eval_run(session, reference)
    for part in in_parts(group_ids, _GROUPS_AT_ONCE):
        by_group: dict[str, dict[int, list[str]]] = {group_id: {} for group_id in part}
        with database.read() as session:
            rows = session.execute(
                select(RunProblemRow.group_id, RunProblemRow.variant, SampleTextRow.text)
                .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
                .join(SampleTextRow, SampleTextRow.sample_id == SampleRow.id)
                .where(RunProblemRow.run_id == run.id, RunProblemRow.group_id.in_(part))
                .order_by(RunProblemRow.position, SampleRow.ordinal)
            )
            for group_id, variant, text in rows:
                by_group[group_id].setdefault(variant, []).append(text)
        yield from by_group.items()


def _load(session: Session, run: Run, grader: int | None) -> CheckpointGroups:
    counts = count_samples(session, run.id, grader, "grader")  # as a reward, which no person gives
    tokens = count_tokens(session, run.id, counts)
    groups: dict[str, list[PromptSample]] = {}
    for problem in counts:
        total, counted = tokens.get(problem.id, (0, 0))
        of_problem = {name: getattr(problem, name) for name in _COUNTED}
        prompt = PromptSample(**of_problem, tokens=total, token_samples=counted)
        groups.setdefault(problem.group_id, []).append(prompt)
    if all(prompt.variant != ORIGINAL for prompts in groups.values() for prompt in prompts):
        raise InputError(f"run {run.name} contains no original questions to compare with.")
    return CheckpointGroups(
        run.name, tuple(QuestionGroup(group_id, tuple(prompts)) for group_id, prompts in groups.items())
    )
