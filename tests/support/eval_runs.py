"""Eval runs made of nothing: problems, samples, texts and grades straight into a database.

`add_eval_run(db, "base.aime24", [(32, 4, 0), (32, 0, 1)])` stores a run of two problems with 32 samples each,
4 and 0 of them correct, 0 and 1 of unknown grade, the rest wrong. The correct ones come first among a
problem's samples, then the unknown ones, then the wrong ones.

`make_eval_spec(temperature=1.0, model="test/other")` takes settings of any part of the spec by name.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runs import add_ask
from sqlalchemy import select, update

from evaluator.config import SamplingSettings
from evaluator.evals.counts import Block
from evaluator.evals.problems import (
    PlacedProblem,
    Problem,
    make_problem,
    problems_hash,
    run_problems,
    store_run_problems,
)
from evaluator.evals.runs import EVAL, EvalSpec
from evaluator.evals.samples import NewSample, insert_grades, insert_samples
from evaluator.evals.tables import SampleRow
from evaluator.grading import GRADER_VERSION
from evaluator.grading.versions import grader_id
from service.asks.store import add_tasks
from service.asks.tables import DONE, TaskRow
from service.database import Database
from service.models.settings import PromptSpec
from service.runs.store import Run, finish_run, open_run

Counts = Sequence[tuple[int, int, int]]
"""Of each problem: samples, correct ones, unknown ones."""

Texts = Callable[[PlacedProblem, int, str], str]
"""Makes a response of the problem, the sample's ordinal and its grade."""

Sources = Mapping[str, str | None]
"""Where answers were found, by the grade of the sample."""

_IN_BOXES: Sources = {}

WRONG_ANSWERS = ("-1", "-2", "-3")
"""Wrong samples of a problem give these in turn, unless told otherwise."""


def make_problems(count: int, name: str = "test") -> list[Problem]:
    """Return problems with whole numbers as answers."""
    return [
        make_problem(f"{name} {number}: what is {number} + 1?", str(number + 1)) for number in range(count)
    ]


def make_eval_spec(of: Sequence[Problem], **changes: Any) -> EvalSpec:
    """Return a spec over the problems; settings of it, its prompt and its sampling are given by name."""
    sampling = {name: changes.pop(name) for name in SamplingSettings.model_fields if name in changes}
    prompt = {name: changes.pop(name) for name in PromptSpec.model_fields if name in changes}
    settings: dict[str, Any] = {
        "problems": "test",
        "problems_hash": problems_hash(of),
        "size": len(of),
        "source": {"file": "test.jsonl"},
        "model": "test/model",
        "engine": {"sampler": "remote", "api_base": "http://localhost:8000/v1"},
        "prompt": PromptSpec(**{"template": "{question}\nPut the final answer in \\boxed{}.", **prompt}),
        "sampling": SamplingSettings(**sampling),
    }
    return EvalSpec(**{**settings, **changes})


def add_eval_run(
    db: Database,
    name: str,
    counts: Counts,
    *,
    benchmark: str = "test",
    problems: Sequence[Problem | PlacedProblem] | None = None,
    texts: Texts | None = None,
    answers: Sequence[Sequence[str | None]] | None = None,
    sources: Sources = _IN_BOXES,
    truncated: Sequence[int] | int = 0,
    graded: Sequence[int] | None = None,
    grader_version: str = GRADER_VERSION,
    tokens: Callable[[int, int], int | None] = lambda position, ordinal: 100,
    usd: float | None = 0.0,
    finished: bool = True,
    **spec: Any,
) -> Run:
    """Store a run with its problems, tasks, samples, texts and grades.

    Args:
        texts: the responses; by default `\\boxed{}` around the extracted answer.
        answers: the extracted answers of each problem's samples; by default the gold answer where correct,
            one of `WRONG_ANSWERS` where wrong, None where unknown.
        sources: where the answers of samples were found, by their grade; in a box by default.
        truncated: how many samples of each problem, the last ones, were cut at the limit of tokens.
        graded: how many samples of each problem, the first ones, have a grade; all by default.
        tokens: a sample's completion tokens by its problem's position and its ordinal; None where the server
            counted those of a request together (then 100 a sample are on the request's receipt).
        usd: the cost of all requests together; None where the price is not known.
        spec: settings of `make_eval_spec`.
    """
    chosen = make_problems(len(counts), benchmark) if problems is None else problems
    placed = [one if isinstance(one, PlacedProblem) else PlacedProblem(one) for one in chosen]
    cut = [truncated] * len(counts) if isinstance(truncated, int) else truncated
    made = make_eval_spec([place.problem for place in placed], problems=benchmark, **spec)
    with db.write() as session:
        versions = {"tagrpo": "0.0.test"}
        run, _ = open_run(
            session, name=name, kind=EVAL, spec=made.to_json(), question_ids=[], versions=versions
        )
        store_run_problems(session, run.id, placed)
        stored = run_problems(session, run.id)
        for position, problem in enumerate(stored):
            n, correct, unknown = counts[position]
            if not n:
                continue
            place = placed[position]
            values = ["correct"] * correct + ["unknown"] * unknown + ["wrong"] * (n - correct - unknown)
            found = list(answers[position]) if answers else _answers(values, place.problem.answer)
            lengths = [tokens(position, ordinal) for ordinal in range(n)]
            billed = sum(100 if length is None else length for length in lengths)
            cost = None if usd is None else usd / len(stored)
            about = {"kind": "sample", "model": made.model, "tokens": (20, billed), "usd": cost}
            ask_id = add_ask(session, run.id, None, **about)
            samples = [
                NewSample(
                    problem.id,
                    ordinal,
                    ask_id,
                    ordinal,
                    texts(place, ordinal, value) if texts else f"So it is \\boxed{{{answer or ''}}}.",
                    "length" if ordinal >= n - cut[position] else "stop",
                    20,
                    lengths[ordinal],
                )
                for ordinal, (value, answer) in enumerate(zip(values, found, strict=True))
            ]
            insert_samples(session, samples)
            add_tasks(session, run.id, [Block(problem.id, 0, n).item])
            first = n if graded is None else graded[position]
            if first:
                _grade(session, problem.id, values[:first], found, grader_version, sources)
        session.execute(update(TaskRow).where(TaskRow.run_id == run.id).values(state=DONE))
        finish_run(session, run.id, finished=finished)
    return run


def add_methods(db: Database, *names: str) -> None:
    """Store runs NAME.aime24, NAME.aime25 and NAME.amc12 of each name, each name with a seed of its own."""
    for seed, name in enumerate(names):
        for benchmark in ("aime24", "aime25", "amc12"):
            counts = [(32, min(32, place * (seed + 2)), place == 1) for place in range(6)]
            add_eval_run(db, f"{name}.{benchmark}", counts, benchmark=benchmark, seed=seed)


def regrade(db: Database, run: Run, counts: Counts, grader_version: str) -> None:
    """Grade the samples of a run again by another version of the grader, with these counts."""
    with db.write() as session:
        for problem, (n, correct, unknown) in zip(run_problems(session, run.id), counts, strict=True):
            values = ["correct"] * correct + ["unknown"] * unknown + ["wrong"] * (n - correct - unknown)
            _grade(session, problem.id, values, _answers(values, problem.answer), grader_version, _IN_BOXES)


def _answers(values: Sequence[str], gold: str) -> list[str | None]:
    by_grade = {"correct": gold, "unknown": None}
    return [
        by_grade[value] if value in by_grade else WRONG_ANSWERS[ordinal % len(WRONG_ANSWERS)]
        for ordinal, value in enumerate(values)
    ]


def _grade(
    session: Any,
    run_problem: int,
    values: Sequence[str],
    answers: Sequence[str | None],
    version: str,
    sources: Sources,
) -> None:
    grader = grader_id(session, version)
    reasons = {"correct": "exact", "wrong": "different", "unknown": "timeout"}
    samples = session.scalars(
        select(SampleRow.id).where(SampleRow.run_problem_id == run_problem).order_by(SampleRow.ordinal)
    ).all()
    insert_grades(
        session,
        [
            {
                "sample_id": sample,
                "grader_id": grader,
                "run_problem_id": run_problem,
                "value": value,
                "reason": reasons[value],
                "extracted": answer,
                "source": sources.get(value, "box"),
            }
            for sample, value, answer in zip(samples, values, answers, strict=False)
        ],
    )
