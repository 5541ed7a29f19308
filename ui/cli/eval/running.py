"""Carrying out `tagrpo eval run`: one run for each benchmark, opened first, then drawn and graded in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.models.remote.chat import INTERRUPTED
from ui.cli import output
from ui.cli.eval.sampling import ProblemSet, check_prompt, fit_sampling
from ui.cli.questions.reports import plural

if TYPE_CHECKING:
    from evaluator.evals.running import EvalOutcome
    from evaluator.grading import Grader
    from evaluator.grading.types import Answers
    from service.database import Database
    from service.models.prompts import Overrides, Preset
    from service.models.protocol import Sampler
    from service.runs.store import Run

FATAL = ("budget", "requests", "authentication", "unknown model", "quota", "failing")
"""Reasons to stop that would stop the next run of the same command too."""


@dataclass(frozen=True)
class RunsPlan:
    """What `tagrpo eval run` was asked for: a model, what it is put to, and how."""

    model: str
    name: str | None
    problems: "Sequence[ProblemSet]"
    preset: "Preset"
    overrides: "Overrides"
    n: int
    answers: "Answers" = "all"


def open_runs(database: "Database", plan: RunsPlan, sampler: "Sampler") -> "list[Run]":
    """Return the runs, all made before the first is worked on, so that no clash comes after hours.

    Raises:
        InputError: settings that cannot be used, or a run of that name with other ones.
        PrerequisiteError: the model cannot be found or reached, or takes no such prompts.
    """
    from evaluator.evals.problems import placed_hash
    from evaluator.evals.running import check_n
    from evaluator.evals.runs import EvalSpec, check_eval_run, model_slug, open_eval_run
    from service.models.prompts import make_prompt, make_sampling
    from service.runs.store import package_versions

    check_n(plan.n)
    sampling = make_sampling(plan.preset, plan.overrides)
    asked = plan.overrides.samples_per_request is not None
    sampling = fit_sampling(sampler, sampling, asked=asked)
    engine = dict(sampler.describe())
    named = []
    for found in plan.problems:
        choice = all(place.problem.kind == "choice" for place in found.placed)
        spec = EvalSpec(
            problems=found.label,
            problems_hash=placed_hash(found.placed),
            source=found.source,
            model=plan.model,
            engine=engine,
            prompt=make_prompt(plan.preset, plan.overrides, choice=choice),
            sampling=sampling,
            answers=plan.answers,
        )
        check_prompt(sampler, spec)
        name = f"{plan.name or model_slug(plan.model)}.{found.suffix}"
        named.append((name, spec, found.placed))
    versions = package_versions()
    runs = []
    with database.write() as session:
        for name, spec, _ in named:
            check_eval_run(session, name, spec)
        for name, spec, placed in named:
            opened, new = open_eval_run(session, name, spec, placed, versions)
            if not new:
                output.note(f"continuing run {name}")
            runs.append(opened)
    return runs


def carry_out(
    database: "Database",
    runs: "Sequence[Run]",
    sampler: "Sampler",
    n: int,
    grader: "Grader",
    *,
    as_json: bool,
) -> None:
    """Draw and grade the runs in turn, print each, and end with what needs attention.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the sampling; what was in flight is stored.
        typer.Exit: samples are missing.
    """
    from evaluator.evals.running import run_eval
    from service.models.remote.sampler import RemoteSampler
    from ui.cli.eval import reports as eval_reports

    if isinstance(sampler, RemoteSampler):
        sampler.count_spent(database, [run.id for run in runs])
    problems: list[str] = []
    printed = []
    told: set[str] = set()
    for run in runs:
        _note(sampler, told)
        with output.progress(run.name, quiet=as_json) as bar:

            def report(stage: str, done: int, total: int | None, detail: str = "") -> None:
                bar.update(done, total, " ".join(filter(None, (stage, detail))))

            outcome = run_eval(database, run, sampler, n, report, grader=grader)
        if outcome.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        _note(sampler, told)
        shown = eval_reports.read_shown(database, run, n)
        if as_json:
            printed.append({**shown.to_json(), **eval_reports.outcome_json(outcome)})
        else:
            eval_reports.print_shown(shown)
        problems += complaints(run, outcome, shown.open_requests)
        if outcome.stopped in FATAL and run is not runs[-1]:
            problems.append("the runs after it were not begun")
            break
    if as_json:
        output.print_json({"runs": printed})
    if problems:
        raise output.needs_attention("; ".join(problems) + ".")


def _note(sampler: "Sampler", told: set[str]) -> None:
    for notice in sampler.notices:
        if notice not in told:
            output.note(notice)
            told.add(notice)


def complaints(run: "Run", outcome: "EvalOutcome", open_requests: int) -> list[str]:
    """Say what of a run needs attention; requests that are open although nothing stopped are in a job."""
    found = []
    if outcome.stopped:
        found.append(f"{run.name}: stopped: {outcome.message or outcome.stopped}")
    if outcome.missing:
        failed = ", ".join(f"{kind} {count:,}" for kind, count in sorted(outcome.failures.items()))
        found.append(
            f"{run.name}: {plural(outcome.missing, 'sample')} missing"
            + (f" (failed requests: {failed})" if failed else "")
            + "; the same command draws them"
        )
    if open_requests and not outcome.stopped:
        found.append(
            f"{run.name}: {plural(open_requests, 'request')} wait in a batch job; --batch collects it"
        )
    return found
