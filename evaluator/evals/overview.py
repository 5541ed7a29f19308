"""Summaries of eval runs by grader version, computed quickly from stored counts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Float, case, cast, func, select
from sqlalchemy.orm import Session

from evaluator.evals.counts import Sources, asked_in_vain, count_samples, read_sources
from evaluator.evals.runs import EVAL, run_answers, run_version, tells_ends
from evaluator.evals.tables import GradeCountsRow, HumanGradeRow, RunProblemRow, SampleCountsRow
from evaluator.grading.types import Answers
from evaluator.grading.versions import (
    GraderRow,
    answers_of,
    is_other_tool,
    judge_of,
    version_taking,
)
from evaluator.grading.workers.own import own_name
from service.errors import InputError
from service.runs.store import Run, find_run, list_runs


@dataclass(frozen=True)
class GradedBy:
    """A run's grades by one version of the grader."""

    id: int
    version: str
    complete: bool  # it graded every sample of the run
    graded: int
    unknown: int
    mean: float | None  # pass@1, unknown and missing counted wrong; None if a problem has neither
    human: int = 0  # samples with a person's grade, which counts here instead of the grader's


@dataclass(frozen=True)
class RunOverview:
    """A run with its numbers; grades are those of `grader`."""

    run: Run
    grader: GradedBy | None  # None if nothing is graded yet
    problems: int
    groups: int  # fewer than `problems` if questions have neighbors
    originals: int  # problems that are not neighbors
    samples: int
    fewest: int  # samples of a problem
    most: int
    truncated: int
    missing: int  # samples that were requested and got no answer
    sources: Sources  # where in the samples the answers were found

    @property
    def benchmark(self) -> str:
        """The benchmark if all of its problems were taken, else a part as `math500[:50]`.

        What was measured on a part is never compared or averaged with what was measured on the whole.
        """
        name: str = self.run.spec["problems"]
        return name if self.groups >= self.run.spec["size"] else f"{name}[:{self.groups}]"

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the spec is in `runs show`."""
        grader, spec = self.grader, self.run.spec
        counted = ("problems", "groups", "samples", "fewest", "most")
        return {
            "benchmark": spec["problems"],
            "benchmark_problems": spec["size"],
            "model": spec["model"],
            **{name: getattr(self, name) for name in counted},
            "graded": grader.graded if grader else 0,
            "unknown": grader.unknown if grader else 0,
            "truncated": self.truncated if tells_ends(self.run) else None,
            "human_grades": grader.human if grader else 0,
            "missing": self.missing,
            "pass_at_1": grader and grader.mean,
            **self.sources.to_json(),
            "grader": grader and grader.version,
        }


def runs_overview(session: Session) -> list[RunOverview]:
    """Return the eval runs with their numbers, oldest first.

    Takes milliseconds whatever the number of samples: they are counted as they are stored.
    """
    runs = list_runs(session, EVAL)
    sizes = run_sizes(session, [run.id for run in runs])
    graders = _graders(session, sizes)
    chosen = {run.id: _preferred(graders[run.id], run_answers(run), run_version(run)) for run in runs}
    sources = read_sources(session, {run: grader.id for run, grader in chosen.items() if grader is not None})
    return [
        RunOverview(run=run, grader=chosen[run.id], **sizes[run.id], sources=sources.get(run.id, Sources()))
        for run in runs
    ]


def shown_grader(session: Session, run_id: str) -> int | None:
    """Return the id of the version whose grades are shown; None if nothing is graded.

    The version that the run was made with if it graded every sample, else the newest that did, as in reports;
    if none did, the newest that graded any. Versions that take the run's answers come first.
    """
    graders = _graders(session, run_sizes(session, [run_id]))[run_id]
    run = find_run(session, run_id)
    preferred = _preferred(graders, run_answers(run), run_version(run))
    return None if preferred is None else preferred.id


def choose_version(
    session: Session,
    runs: Sequence[Run],
    answers: Answers | None = None,
    *,
    own: str | None = None,
    judge: str | None = None,
) -> str:
    """Return the version of the grader that graded every sample of all runs, the newest of several.

    The one that the runs were made with comes first. If there is none, the error names the commands that add
    the missing grades.

    Args:
        answers: Only versions that took these answers. By default those that the runs were made with.
        own: Only versions of this grader of the user's own, `module:function`.
        judge: Only versions with grades of this judge model; without it none of them is taken.
    """
    made = {run_answers(run) for run in runs}
    wanted: Answers = answers or (min(made) if len(made) == 1 else "all")
    sizes = run_sizes(session, [run.id for run in runs])
    graders = _graders(session, sizes, judge=judge)
    whole: list[dict[str, GradedBy]] = []
    for run in runs:
        drawn = sizes[run.id]["samples"]
        if not drawn:
            raise InputError(f"run {run.name} has no samples yet. Sample responses with `tagrpo eval run`.")
        taking = [
            grader
            for grader in graders[run.id]
            if answers in (None, answers_of(grader.version)) and own in (None, own_name(grader.version))
        ]
        whole.append({grader.version: grader for grader in taking if grader.complete})
        if not whole[-1]:
            missing = drawn - max((grader.graded for grader in taking), default=0)
            by = f"the judge {judge}" if judge else own or "the most complete grader version"
            by += "" if answers is None else f" that counts {answers} answers"
            raise ungraded_error(run, missing, drawn, by, score_command(run, wanted, own, judge))
    versions = {run_version(run) for run in runs}
    made_with = min(versions) if answers is None and len(versions) == 1 else version_taking(wanted)
    common = set(whole[0]).intersection(*whole[1:])
    preferred = _preferred([whole[0][version] for version in common], wanted, made_with)
    if preferred is not None:
        return preferred.version
    why = "were graded by different versions of the grader"
    if len(made) > 1:
        why = f"count different answers (--answers {' and '.join(sorted(made))})"
    lacking = [
        run for run, complete in zip(runs, whole, strict=True) if wanted not in map(answers_of, complete)
    ]
    raise InputError(
        f"the runs {', '.join(run.name for run in runs)} {why}, so their grades may differ. Run "
        f"{'; '.join(score_command(run, wanted) for run in lacking or runs)}."
    )


def other_version(session: Session, run_id: str, version: str) -> str | None:
    """Return the version to compare the grades of `version` with; None where it graded the run alone.

    The newest other one that took the same answers, else the newest that took others.
    """
    graders = _graders(session, run_sizes(session, [run_id]))[run_id]
    others = [grader.version for grader in graders if grader.version != version]
    return max(reversed(others), key=lambda other: answers_of(other) == answers_of(version), default=None)


def ungraded_error(run: Run, missing: int, drawn: int, by: str, command: str) -> InputError:
    """Return the error of samples without a grade; it names the command that grades them."""
    return InputError(
        f"run {run.name}: {missing:,} of {drawn:,} samples have no grade by {by}. Run {command}."
    )


def score_command(run: Run, answers: Answers, own: str | None = None, judge: str | None = None) -> str:
    """Return the command that grades a run so that these answers count."""
    options = "" if run_answers(run) == answers else f" --answers {answers}"
    if own := own or own_name(run_version(run)):
        options = f" --grader {own}"
    return f"`tagrpo eval score {run.name}{f' --judge {judge}' if judge else options}`"


def _preferred(graders: Sequence[GradedBy], answers: Answers, version: str) -> GradedBy | None:
    """Of the complete ones if there are any this version, those taking these answers, the newest.

    One of a user's own comes last where it is not this version.
    """
    return max(
        graders,
        key=lambda grader: (
            grader.complete,
            grader.complete and grader.version == version,
            own_name(grader.version) is None,
            answers_of(grader.version) == answers,
            grader.id,
        ),
        default=None,
    )


def run_sizes(session: Session, run_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return what `RunOverview` counts of each run's problems and samples; zeros for one without problems."""
    counted = SampleCountsRow
    rows = session.execute(
        select(
            RunProblemRow.run_id,
            func.count(),
            func.count(RunProblemRow.group_id.distinct()),
            func.count().filter(RunProblemRow.variant == 0),
            func.sum(counted.samples),
            func.min(counted.samples),
            func.max(counted.samples),
            func.sum(counted.truncated),
        )
        .join(counted, counted.run_problem_id == RunProblemRow.id)
        .where(RunProblemRow.run_id.in_(run_ids))
        .group_by(RunProblemRow.run_id)
    )
    names = ("problems", "groups", "originals", "samples", "fewest", "most", "truncated")
    sizes = {run_id: dict.fromkeys(names, 0) for run_id in run_ids}
    sizes |= {run_id: dict(zip(names, map(int, numbers), strict=True)) for run_id, *numbers in rows}
    in_vain = asked_in_vain(session, run_ids)
    for run_id, size in sizes.items():
        size["missing"] = sum(in_vain.get(run_id, {}).values())
    return sizes


def _graders(
    session: Session, sizes: Mapping[str, Mapping[str, int]], *, judge: str | None = None
) -> dict[str, list[GradedBy]]:
    """Return by run the versions of the grader that graded samples of it, oldest first.

    Those in which grades of a judge stand are left out, and with `judge` all but those of this one.
    """
    counted = GradeCountsRow
    graded = counted.correct + counted.wrong + counted.unknown
    rows = session.execute(
        select(
            RunProblemRow.run_id,
            GraderRow.id,
            GraderRow.version,
            func.sum(graded),
            func.sum(counted.unknown),
            func.sum(case((graded > 0, 1), else_=0)),
            func.sum(cast(counted.correct, Float) / graded),
        )
        .join(counted, counted.run_problem_id == RunProblemRow.id)
        .join(GraderRow, GraderRow.id == counted.grader_id)
        .where(RunProblemRow.run_id.in_(list(sizes)), ~is_other_tool(GraderRow.version))
        .group_by(RunProblemRow.run_id, GraderRow.id)
        .order_by(GraderRow.id)
    )
    by_people = select(RunProblemRow.run_id).join(HumanGradeRow).where(RunProblemRow.run_id.in_(list(sizes)))
    counted_one_by_one = {*session.scalars(by_people.distinct())}
    counted_one_by_one |= {run_id for run_id, size in sizes.items() if size["missing"]}
    graders: dict[str, list[GradedBy]] = defaultdict(list)
    for run_id, id, version, number, unknown, graded_problems, rates in rows:
        if judge_of(version) != judge:
            continue
        size, human = sizes[run_id], 0
        if run_id in counted_one_by_one:
            counts = count_samples(session, run_id, id)
            unknown, human = (sum(getattr(each, name) for each in counts) for name in ("unknown", "human"))
            asked = [each for each in counts if each.asked]
            graded_problems, rates = len(asked), sum(each.correct / each.asked for each in asked)
        mean = rates / size["problems"] if graded_problems == size["problems"] else None
        complete = number == size["samples"]
        graders[run_id].append(GradedBy(id, version, complete, number, unknown, mean, human))
    return graders
