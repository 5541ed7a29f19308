"""A judge's run: its samples, replies and grades."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple, cast

from sqlalchemy import Table, exists, select
from sqlalchemy.orm import Session, aliased

from evaluator.config import ScoreConfig
from evaluator.evals.grading import grade_run
from evaluator.evals.problems import RunProblem, read_problems, run_problems
from evaluator.evals.running import sample_seed
from evaluator.evals.runs import find_eval_run, model_slug, run_answers, run_version
from evaluator.evals.samples import read_texts
from evaluator.evals.tables import GradeRow, RunProblemRow, SampleRow
from evaluator.grading import Grader, GradeValue
from evaluator.grading.versions import (
    JUDGE_REASON,
    find_grader,
    grader_id,
    judge_version,
    version_taking,
)
from evaluator.grading.workers.own import own_name, own_version
from evaluator.judging.asking import PROMPT_VERSION, SYSTEM, JudgeQuestion, read_verdict, shown_response
from service.asks.ask import Asker, Failed, Models
from service.asks.request import prompt_request
from service.asks.store import Store, add_tasks
from service.asks.tables import ANSWERED, FINAL, AskRow
from service.asks.work import work_on
from service.database import Database, in_parts, upsert
from service.engines.opening import OpenModels, engine_logs, price_of, remote_model
from service.errors import InputError
from service.hashing import content_id
from service.models.estimate import Estimate, between, priced, tokens
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

JUDGE = "judge"
"""The kind of a judge's runs, and of their asks: one request about one response."""

SAMPLES_AT_ONCE = 500
SHORTEST_REPLY = 4  # tokens: the verdict alone
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
        return PromptSpec(template="{question}", system=SYSTEM)

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
class JudgeOutcome:
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
    config: ScoreConfig, db: Database, report: TellStage, note: Callable[[str], None] = lambda _: None
) -> JudgeOutcome:
    """Grade an eval run, ask the judge about it, and return the outcome; see `judge_run`."""
    spec = judge_spec(config)
    with db.read() as session:
        run = find_eval_run(session, config.run)
    base = base_version(config, run)
    own = config.grader or own_name(run_version(run))
    async with OpenModels(engine_logs(db), config) as models:
        endpoint = await models.open(remote_model(config, spec.model))
        endpoint.check(prompt_request(spec.model, spec.prompt, spec.sampling, "?"))
        with Grader(workers=config.workers, own=own) as grader:
            grade_run(
                db, run.id, grader, lambda done, total: report("grading", done, total, ""), version=base
            )
        with db.write() as session:
            judging = open_judge_run(session, run, spec, base)
            keep_config(session, judging.id, config.stored())
        hold_cap(db, [judging], config.max_usd, note)
        return await judge_run(db, run, judging, spec, base, models.models(), report)


def judge_spec(config: ScoreConfig) -> JudgeSpec:
    """Return what a config says of the judge."""
    if config.model is None:
        raise InputError("no judge is named. Give one with --judge MODEL.")
    return JudgeSpec(config.model, config.asked, config.max_tokens, config.temperature)


def base_version(config: ScoreConfig, run: Run) -> str:
    """Return the version of the grades that the judge is asked about."""
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


class Pending(NamedTuple):
    """A sample with its base grade, as a row of the judge's version, and without a grade of that version."""

    row: dict[str, Any]
    question: JudgeQuestion | None  # to the judge
    chosen: bool  # whether the judge is to grade it


def read_pending(db: Database, run: Run, base_row: int, judge_row: int, asked: Asked) -> Iterator[Pending]:
    """Yield the samples of a run without a grade of the judge's version."""
    judged = aliased(GradeRow)
    query = (
        select(*_GRADES.columns)
        .join(RunProblemRow, RunProblemRow.id == GradeRow.run_problem_id)
        .where(
            RunProblemRow.run_id == run.id,
            GradeRow.grader_id == base_row,
            ~exists().where(judged.sample_id == GradeRow.sample_id, judged.grader_id == judge_row),
        )
        .order_by(RunProblemRow.position, GradeRow.sample_id)
    )
    with db.read() as session:
        problems = {problem.id: problem for problem in run_problems(session, run.id)}
        graded = [{**row, "grader_id": judge_row} for row in session.execute(query).mappings()]
    for part in in_parts(graded, SAMPLES_AT_ONCE):
        with db.read() as session:
            texts = read_texts(session, [row["sample_id"] for row in part if row["value"] in KINDS[asked]])
        for row in part:
            text = texts.get(row["sample_id"])
            question = None if text is None else question_about(problems[row["run_problem_id"]], text)
            yield Pending(row, question, text is not None)


def question_about(problem: RunProblem, text: str) -> JudgeQuestion | None:
    """Return what is asked about a response; None if there is nothing to compare."""
    answer = shown_response(text)
    if not answer or not problem.answer.strip():
        return None
    return JudgeQuestion(problem.text, problem.answer, problem.kind, problem.tolerance, answer)


async def judge_run(
    db: Database, run: Run, judging: Run, spec: JudgeSpec, base: str, models: Models, report: TellStage
) -> JudgeOutcome:
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
        raise InputError(f"run {run.name} has no grades by {base}. Run `tagrpo eval score {run.name}` first.")
    counts: Counter[str] = Counter()
    samples: dict[str, list[dict[str, Any]]] = defaultdict(list)  # by question
    kept: list[dict[str, Any]] = []
    for row, question, chosen in read_pending(db, run, base_row, judge_row, spec.asked):
        if question is not None:
            samples[question.id].append(row)
        else:
            kept.append(row)
            counts["empty"] += chosen
    for part in in_parts(kept, SAMPLES_AT_ONCE):
        with db.write() as session:
            _store(session, part)
    with db.write() as session:
        add_tasks(session, judging.id, [str(rows[0]["sample_id"]) for rows in samples.values()])
    store = Store(db)

    async def ask(asker: Asker, sample_id: str) -> None:
        question = await store.read(_read_questions, int(sample_id))
        request = prompt_request(
            spec.model,
            spec.prompt,
            spec.sampling,
            question.text,
            seed=sample_seed(0, question.id, 0),
            scope=spec.id,
            kind=JUDGE,
            about=question.id,
        )
        verdict = None
        try:
            choice = (await asker.ask(request)).choices[0]
            verdict = read_verdict(choice.full_text, truncated=choice.finish_reason == "length")
        except Failed as failed:
            if failed.final:
                await grade(question.id, None)
            raise
        await grade(question.id, verdict)

    async def grade(question: str, verdict: GradeValue | None) -> None:
        """Store the judge's grade of the samples with a question; without a verdict they keep theirs."""
        outcome = {None: "silent", GradeValue.UNKNOWN: "unsure"}.get(verdict, verdict)
        notes = {"silent": f"; no verdict of {spec.reason}", "unsure": f"; unsure: {spec.reason}"}
        for row in samples.pop(question, ()):
            changed: dict[str, Any] = {"value": verdict, "reason": spec.reason}
            if outcome in notes:
                changed = {"reason": row["reason"] + notes[outcome]}
            await store.write(_store, {**row, **changed})
            counts[str(outcome)] += 1

    try:
        outcome = await work_on(store, judging.id, ask, models, partial(report, "asking the judge"))
    finally:
        store.close()
    counts["waiting"] = sum(map(len, samples.values()))
    with db.write() as session:
        finish_run(session, judging.id, finished=not counts["waiting"])
    names = ("correct", "wrong", "unsure", "silent", "empty", "waiting")
    return JudgeOutcome(
        run=judging,
        version=version,
        by_outcome={name: counts[name] for name in names},
        stopped=outcome.stopped,
        message=outcome.message,
        failures=outcome.failures,
    )


def _read_questions(session: Session, sample_ids: Sequence[int]) -> list[JudgeQuestion]:
    texts = read_texts(session, list(sample_ids))
    places = dict(
        session.execute(
            select(SampleRow.id, SampleRow.run_problem_id).where(SampleRow.id.in_(sample_ids))
        ).all()
    )
    of_samples = read_problems(session, RunProblemRow.id.in_(set(places.values())))
    problems = {problem.id: problem for problem in of_samples}
    return [cast(JudgeQuestion, question_about(problems[places[id]], texts[id])) for id in sample_ids]


def _store(session: Session, rows: Sequence[dict[str, Any]]) -> list[None]:
    session.execute(upsert(_GRADES).on_conflict_do_nothing(), list(rows))
    return [None] * len(rows)


def estimate_judging(config: ScoreConfig, db: Database) -> Estimate:
    """Estimate what asking a judge about an eval run takes, beyond what it has replied to.

    It follows from the lengths of what is asked, with replies from the verdict alone to ones as long as
    `max_tokens` allows. Nothing is written. Samples without a grade by `base` are not counted.
    """
    spec = judge_spec(config)
    prices = price_of([remote_model(config, spec.model)])
    with db.read() as session:
        run = find_eval_run(session, config.run)
        base = base_version(config, run)
        base_row, judge_row = find_grader(session, base), find_grader(session, spec.version(base))
    if base_row is None:
        raise InputError(f"run {run.name} has no grades by {base}. Run `tagrpo eval score {run.name}` first.")
    lengths = {
        question.id: len(question.text)
        for _, question, _ in read_pending(db, run, base_row, judge_row or -1, spec.asked)
        if question is not None
    }
    with db.read() as session:
        replied = select(AskRow.about).where(
            AskRow.scope == spec.id, AskRow.kind == JUDGE, AskRow.state.in_((ANSWERED, FINAL))
        )
        for question in session.scalars(replied):
            lengths.pop(question, None)
    characters = sum(lengths.values()) + len(lengths) * len(SYSTEM)
    completions = len(lengths) * between(min(SHORTEST_REPLY, spec.max_tokens), spec.max_tokens)
    requests = between(len(lengths), len(lengths))
    stage = priced(JUDGE, spec.model, requests, tokens(characters), completions, prices)
    return Estimate(len(lengths), (stage,))
