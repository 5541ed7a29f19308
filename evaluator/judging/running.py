"""A judge's run: which samples it is asked about, its replies, and its grades."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, cast

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from evaluator.config import JudgeConfig
from evaluator.evals.grading import grade_run
from evaluator.evals.problems import read_problems, run_problems
from evaluator.evals.running import sample_seed
from evaluator.evals.runs import find_eval_run, model_slug, run_answers, run_version
from evaluator.evals.samples import read_texts
from evaluator.evals.tables import GradeRow, RunProblemRow, SampleRow
from evaluator.grading import Grader, GradeValue
from evaluator.grading.versions import (
    JUDGE_REASON,
    GradeCache,
    find_grader,
    grader_id,
    judge_version,
    version_taking,
)
from evaluator.grading.workers.own import own_name, own_version
from evaluator.judging.asking import PROMPT_VERSION, Question, system_prompt
from evaluator.judging.samples import (
    JUDGE,
    SAMPLES_AT_ONCE,
    Pending,
    question_about,
    read_pending,
    read_verdicts,
)
from service.asks.ask import Asker, Models
from service.asks.prompts import prompt_request
from service.asks.store import Store, add_tasks
from service.asks.work import work_on
from service.database import Database, in_parts, upsert
from service.engines.opening import OpenModels, check_request, engine_logs, remote_settings
from service.errors import InputError
from service.hashing import content_id
from service.models.settings import PromptSpec, SamplingSettings
from service.runs.spending import hold_cap
from service.runs.store import (
    Run,
    check_name,
    find_same_run,
    finish_run,
    keep_config,
    open_run,
    package_versions,
)
from service.telling import TellStage

Asked = Literal["unknown", "wrong", "all"]
KINDS: Mapping[Asked, tuple[str, ...]] = {
    "unknown": ("unknown",),
    "wrong": ("unknown", "wrong"),
    "all": ("unknown", "wrong", "correct"),
}
_GRADES = cast(Table, GradeRow.__table__)


@dataclass(frozen=True)
class JudgeSpec:
    """A judge model: how it is asked, and about which grades."""

    model: str
    asked: Asked = "unknown"
    max_tokens: int = 2048
    temperature: float = 0.0

    @property
    def prompt(self) -> PromptSpec:
        """The question is the whole prompt."""
        return PromptSpec(template="{question}", system=system_prompt())

    @property
    def sampling(self) -> SamplingSettings:
        """One reply a request."""
        return SamplingSettings(
            temperature=self.temperature, top_p=1.0, max_tokens=self.max_tokens, samples_per_request=1
        )

    @property
    def id(self) -> str:
        """What replies belong to: whoever asks the same in the same way gets the same reply."""
        return content_id("judge", [self.model, PROMPT_VERSION, self.sampling.without_neutral()])

    def version(self, base: str) -> str:
        """Return the version of the grades: those of `base`, and this judge's where it was asked."""
        prompt = f"{PROMPT_VERSION} at temperature {self.temperature:g}, {self.max_tokens} tokens"
        return judge_version(self.model, prompt, self.asked, base)

    @property
    def reason(self) -> str:
        """The reason of a grade that it gave."""
        return f"{JUDGE_REASON} {self.model}, prompt {PROMPT_VERSION}"


@dataclass(frozen=True)
class Judged:
    """What stands after an invocation, of the samples that had no grade of this judge's before.

    `by_outcome` counts those that it calls `correct` and `wrong`; those of which it was `unsure` or `silent`
    (no verdict in its reply, or no reply for good) and those that are `empty`, with nothing to judge: all
    these keep their grade; and those that are `waiting`: nothing can be reported until they are asked.
    """

    run: Run
    version: str
    by_outcome: Mapping[str, int]
    stopped: str | None = None
    message: str | None = None
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        return self.by_outcome["waiting"]


async def judge(
    config: JudgeConfig, db: Database, report: TellStage, note: Callable[[str], None] = lambda _: None
) -> Judged:
    """Grade an eval run, ask the judge about it, and return what stands then; see `judge_run`.

    Args:
        config: Which judge, about which grades.
        db: The database with the eval run.
        report: Told how far grading and judging are.
        note: Told what the user should know.

    Raises:
        NotFoundError: there is no such eval run.
        PrerequisiteError: the judge cannot be reached, or does not take such requests.
        BudgetError: there is a cap, and the price is not known.
    """
    spec = judge_spec(config)
    with db.read() as session:
        run = find_eval_run(session, config.run)
    base = base_version(config, run)
    own = config.grader or own_name(run_version(run))
    async with OpenModels(engine_logs(db), config) as models:
        endpoint = await models.open(remote_settings(config, config.model))
        check_request(endpoint, prompt_request(config.model, spec.prompt, spec.sampling, "?"))
        with Grader(workers=config.workers, cache=GradeCache(db), own=own) as grader:
            grade_run(
                db, run.id, grader, lambda done, total: report("grading", done, total, ""), version=base
            )
        with db.write() as session:
            judging = open_judge_run(session, run, spec, base)
            keep_config(session, judging.id, config.stored())
        hold_cap(db, [judging], config.max_usd, note)
        return await judge_run(db, run, judging, spec, base, models.models(), report)


def judge_spec(config: JudgeConfig) -> JudgeSpec:
    """Return what a config says of the judge."""
    return JudgeSpec(config.model, config.asked, config.max_tokens, config.temperature)


def base_version(config: JudgeConfig, run: Run) -> str:
    """Return the version of the grades that the judge's stand beside."""
    if config.grader is not None:
        return own_version(config.grader)
    if config.answers is not None and config.answers != run_answers(run):
        return version_taking(config.answers)
    return run_version(run)


def open_judge_run(session: Session, run: Run, spec: JudgeSpec, base: str) -> Run:
    """Return the run that holds the judge's requests about an eval run, made if there is none.

    It has a cap and a ledger of its own; the eval run stays as it is.
    """
    wanted = {
        "eval_run": run.id,
        "model": spec.model,
        "judge": spec.id,
        "asked": spec.asked,
        "grader": spec.version(base),
    }
    name = check_name(f"judge-{model_slug(spec.model)[:20]}-{spec.asked}.{run.name}"[:95])
    for number in count(1):
        numbered = name if number == 1 else f"{name}.{number}"
        try:
            find_same_run(session, name=numbered, kind=JUDGE, spec=wanted, question_ids=[])
        except InputError:  # another judge of a like name, or another version of the grader
            continue
        opened, _ = open_run(
            session, name=numbered, kind=JUDGE, spec=wanted, question_ids=[], versions=package_versions()
        )
        return opened
    raise AssertionError("unreachable")


async def judge_run(
    db: Database, run: Run, judging: Run, spec: JudgeSpec, base: str, models: Models, report: TellStage
) -> Judged:
    """Ask the judge about the samples of an eval run that it is to grade, and store its grades.

    Every sample needs a grade by `base` first. A question that any run asked before in the same way is not
    sent again. After a kill or a spent budget the same call resumes. Samples that the judge is not asked
    about, and those without a verdict, keep the grade of `base` in the judge's version.
    """
    version = spec.version(base)
    with db.write() as session:
        base_row, judge_row = find_grader(session, base), grader_id(session, version)
        finish_run(session, judging.id, finished=False)
    if base_row is None:
        raise InputError(f"run {run.name} has no grades by {base}. Run `tagrpo eval grade {run.name}` first.")
    with db.read() as session:
        problems = {problem.id: problem for problem in run_problems(session, run.id)}
    pending = list(read_pending(db, problems, base_row, judge_row, KINDS[spec.asked]))
    samples = {sample.asked: sample.sample_id for sample in pending if sample.asked is not None}
    with db.write() as session:
        add_tasks(session, judging.id, [str(sample_id) for sample_id in samples.values()])
    store = Store(db)

    async def ask(asker: Asker, sample_id: str) -> None:
        question = await store.read(_read_questions, int(sample_id))
        await asker.ask(
            prompt_request(
                spec.model,
                spec.prompt,
                spec.sampling,
                question.text,
                seed=sample_seed(0, question.id, 0),
                scope=spec.id,
                kind=JUDGE,
                about=question.id,
            )
        )

    try:
        outcome = await work_on(
            store,
            judging.id,
            ask,
            models,
            lambda progress: report("asking the judge", progress.done, progress.total, progress.words),
        )
    finally:
        store.close()
    counts = _store(db, spec, judge_row, pending)
    with db.write() as session:
        finish_run(session, judging.id, finished=not counts["waiting"])
    names = ("correct", "wrong", "unsure", "silent", "empty", "waiting")
    return Judged(
        run=judging,
        version=version,
        by_outcome={name: counts[name] for name in names},
        stopped=outcome.stopped,
        message=outcome.message,
        failures=outcome.failures,
    )


def _read_questions(session: Session, sample_ids: Sequence[int]) -> list[Question]:
    texts = read_texts(session, list(sample_ids))
    places = dict(
        session.execute(
            select(SampleRow.id, SampleRow.run_problem_id).where(SampleRow.id.in_(sample_ids))
        ).all()
    )
    of_samples = read_problems(session, RunProblemRow.id.in_(set(places.values())))
    problems = {problem.id: problem for problem in of_samples}
    questions = [question_about(problems[places[id]], texts[id]) for id in sample_ids]
    assert all(question is not None for question in questions)
    return cast(list[Question], questions)


def _store(db: Database, spec: JudgeSpec, judge_row: int, pending: Sequence[Pending]) -> Counter[str]:
    """Write the grades of those samples whose reply is there; return how many got which."""
    counts: Counter[str] = Counter()
    for part in in_parts(pending, SAMPLES_AT_ONCE):
        with db.write() as session:
            verdicts = read_verdicts(session, spec.id, [sample.asked for sample in part if sample.asked])
            rows = []
            for sample in part:
                row, outcome = _grade(sample, spec, verdicts)
                counts[outcome] += 1
                if row is not None:
                    place = {"sample_id": sample.sample_id, "run_problem_id": sample.run_problem_id}
                    rows.append({**place, "grader_id": judge_row, **row})
            if rows:
                session.execute(upsert(_GRADES).on_conflict_do_nothing(), rows)
    return counts


def _grade(
    sample: Pending, spec: JudgeSpec, verdicts: Mapping[str, GradeValue | None]
) -> tuple[dict[str, Any] | None, str]:
    kept = {name: value for name, value in sample.row.items() if name != "asked_about"}
    if sample.asked is None:
        return kept, "empty" if sample.row["asked_about"] else "not asked"
    if sample.asked not in verdicts:
        return None, "waiting"
    verdict = verdicts[sample.asked]
    if verdict is None:
        return {**kept, "reason": f"{kept['reason']}; no verdict of {spec.reason}"}, "silent"
    if verdict is GradeValue.UNKNOWN:
        return {**kept, "reason": f"{kept['reason']}; unsure: {spec.reason}"}, "unsure"
    return {**kept, "value": verdict.value, "reason": spec.reason}, verdict.value
