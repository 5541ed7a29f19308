"""Eval runs that ask the test server: the server in a thread of this process, problems that it can solve."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import world
from eval_runs import make_eval_spec
from openai_server import OpenAIServer
from sqlalchemy import text

from evaluator.evals.problems import PlacedProblem, Problem, make_problem
from evaluator.evals.running import EvalOutcome, run_eval
from evaluator.evals.runs import open_eval_run
from evaluator.evals.samples import read_texts
from evaluator.grading import Grader
from service.database import Database
from service.engines.opening import OpenModels
from service.models.access import Budget, Model
from service.runs.progress import set_cap
from service.runs.store import Run

MODEL = "hosted_vllm/test-model"


@contextmanager
def running_server(**settings: Any) -> Iterator[OpenAIServer]:
    """Run the test server in a thread, so that code with an event loop of its own can ask it."""
    server = OpenAIServer(**{"answer": world.answer, **settings})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def sums(count: int) -> list[Problem]:
    """Return problems that the small world's solver answers, rightly most of the time."""
    return [make_problem(row["question"], row["answer"]) for row in world.questions(count)]


def start(db: Database, name: str, problems: Sequence[Problem], **spec: Any) -> Run:
    """Open an eval run over the problems; settings of its spec by name, as `make_eval_spec` takes them."""
    made = make_eval_spec(problems, model=MODEL, **spec)
    with db.write() as session:
        run, _ = open_eval_run(session, name, made, [PlacedProblem(problem) for problem in problems], {})
    return run


def draw(
    db: Database,
    run: Run,
    server: OpenAIServer,
    n: int,
    *,
    retry_final: bool = False,
    price: tuple[float, float] | None = None,
    max_usd: float | None = None,
    **options: Any,
) -> EvalOutcome:
    """Draw and grade at the server, with quick retries; `options` are those of `Models`."""
    settings = Model(model=MODEL, base_url=(server.url,), price=price, timeout_s=20)
    if max_usd is not None:
        with db.write() as session:
            set_cap(session, [run.id], max_usd)

    async def evaluate() -> EvalOutcome:
        async with OpenModels(Path(), Budget(max_usd=max_usd)) as models:
            await models.open(settings)
            asked = replace(models.models(), **{"retry_s": 0.001} | options)
            with Grader(workers=1) as grader:
                return await run_eval(
                    db, run, asked, n, lambda *_: None, grader=grader, retry_final=retry_final
                )

    return asyncio.run(evaluate())


def stored(db: Database, run: Run) -> list[Any]:
    """Return (position, ordinal, seed, stop reason, prompt and completion tokens, text) of all samples."""
    query = """
        SELECT r.position, s.ordinal, s.seed, s.stop_reason, s.prompt_tokens, s.completion_tokens, s.id
        FROM samples s JOIN run_problems r ON r.id = s.run_problem_id
        WHERE r.run_id = :run ORDER BY r.position, s.ordinal
    """
    with db.read() as session:
        rows = session.execute(text(query), {"run": run.id}).all()
        texts = read_texts(session, [row[-1] for row in rows])
    return [(*row[:-1], texts[row[-1]]) for row in rows]


def places(db: Database, run: Run) -> list[tuple[int, int]]:
    """Return (position, ordinal) of all samples."""
    return [(row[0], row[1]) for row in stored(db, run)]


def every(problems: int, n: int) -> list[tuple[int, int]]:
    """Return what `places` returns for a run with nothing missing."""
    return [(position, ordinal) for position in range(problems) for ordinal in range(n)]
