"""An evaluation of a million samples and more: planning, claims, money, lists and curves, on either database.

One run is planned by the product. At its beginning, middle and end some requests are leased, paid for and
stored as a sampler does it; what lies between is written by plain statements, with the product's triggers.
Another run is planned and stays open, as its requests must not slow this one's. Then what pages, lists and a
second start ask is asked. Times are milliseconds of this process with the server's, CPU seconds those of this
process alone.

    python -m benchmarks.speed.scale [--samples 1000000] [--db FILE_OR_URL]

The database has to be empty; a file is made, and removed, where none is named. A sample takes 0.3 KB on
SQLite and 0.6 KB on PostgreSQL. The last line is one JSON object.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard
from sqlalchemy import func, select, text

from benchmarks.harness import peak_mb
from benchmarks.speed.store import Writer, draw
from evaluator.evals.grading import grade_run
from evaluator.evals.missing import samples_lost, samples_missing
from evaluator.evals.overview import runs_overview
from evaluator.evals.problems import PlacedProblem, make_problem, placed_hash, run_problems
from evaluator.evals.results import load_result
from evaluator.evals.running import EvalCells, plan_run
from evaluator.evals.runs import EvalSpec, open_eval_run
from evaluator.evals.samples import UNGRADED, SampleFilters, browse_samples
from evaluator.evals.tables import SampleRow
from evaluator.evals.votes import read_answers
from evaluator.grading import GRADER_VERSION
from evaluator.grading.versions import grader_id
from service.database import Database
from service.models.settings import PromptSpec, SamplingSettings
from service.runs.cells import is_complete, open_cells, reopen_failed_cells
from service.runs.leases import release_dead_leases, release_leases, renew_leases
from service.runs.progress import page_runs
from service.runs.removing import holdings
from service.runs.spending import read_account, reserve_cells, set_cap
from service.runs.tables import CellRow

CELLS_AT_ONCE = 64
CLAIMS = 10
CELLS_PER_COMMIT = 500
OPEN_SHARE = 10  # a tenth of the requests again, in the run that stays open
MODEL = "model"


class Clock:
    """Times blocks of work, and every transaction that writes."""

    def __init__(self, db: Database) -> None:
        self.writes: list[float] = []
        connect = db.connections.connection

        @contextmanager
        def timed(*, write: bool) -> Iterator[Any]:
            began = time.perf_counter()
            with connect(write=write) as connection:
                yield connection
            if write:
                self.writes.append(time.perf_counter() - began)

        db.connections.connection = timed  # type: ignore[method-assign]

    def measure(self, work: Callable[[], object]) -> dict[str, float]:
        """Return what a call of `work` takes: seconds, CPU seconds, MiB, its longest write transaction."""
        self.writes = []
        held, began, cpu = _forget_peak(), time.perf_counter(), time.process_time()
        work()
        return {
            "s": round(time.perf_counter() - began, 3),
            "cpu_s": round(time.process_time() - cpu, 3),
            "mb": round(_peak() - held, 1),
            "longest_write_s": round(max(self.writes, default=0.0), 3),
        }


def median_ms(work: Callable[[], object], times: int) -> float:
    """Return the median of the milliseconds that `work` takes."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(taken), 2)


def make_run(db: Database, name: str, problems: int, per_request: int) -> Any:
    """Open a run over so many problems."""
    placed = [
        PlacedProblem(make_problem(f"{name}: what is {place} + {place % 89}?", str(place + place % 89)))
        for place in range(problems)
    ]
    spec = EvalSpec(
        name, placed_hash(placed), len(placed), {"file": "generated"}, MODEL, {"sampler": "local"},
        PromptSpec("{question}"), SamplingSettings(samples_per_request=per_request),
    )  # fmt: skip
    with db.write() as session:
        run, _ = open_eval_run(session, name, spec, placed, {})
        set_cap(session, [run.id], 1e9)
        problems_there = run_problems(session, run.id)
    return run, EvalCells(db, run.id, spec, {problem.id: problem for problem in problems_there})


def plan(db: Database, run: Any, work: EvalCells, n: int, per_request: int) -> None:
    """Plan as `eval run` does."""
    problems: Any = list(work.problems.values())
    with db.write() as session:
        release_dead_leases(session, run.id)
    plan_run(db, run.id, problems, n, per_request)


def at_this_point(db: Database, run: Any, work: EvalCells, writer: Writer, chance: Any) -> dict[str, float]:
    """Lease, pay for, draw and store some requests; return the milliseconds of each step."""
    taken: dict[str, list[float]] = {"claim": [], "reserve": [], "store": [], "renew": []}

    def timed(name: str, step: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = step()
        taken[name].append((time.perf_counter() - began) * 1000)
        return result

    def pay(cells: list[int]) -> None:
        with db.write() as session:
            assert read_account(session, run.id).left_usd > 1
            reserve_cells(session, dict.fromkeys(cells, 0.01))

    def renew() -> None:
        with db.write() as session:
            renew_leases(session, work.owner)

    for _ in range(CLAIMS):
        leased = timed("claim", lambda: work.lease(CELLS_AT_ONCE))
        if not leased:
            break
        timed("reserve", lambda: pay([one.cell.id for one in leased]))  # noqa: B023
        timed("renew", renew)
        drawn = [draw(one, MODEL, writer, chance) for one in leased]
        timed("store", lambda: work.store(drawn))  # noqa: B023
    with db.write() as session:
        began = time.perf_counter()
        release_leases(session, work.owner)
        taken["release"] = [(time.perf_counter() - began) * 1000]
    return {name: round(statistics.median(times), 2) for name, times in taken.items() if times}


def fill(db: Database, run: Any, work: EvalCells, until: int, per_request: int) -> None:
    """Fill the empty requests with ids below `until`, with samples and grades, by plain statements."""
    first_problem = min(work.problems)
    blob = zstandard.compress(b"Let us add the two numbers digit by digit. " * 9 + b"The sum is \\boxed{7}.")
    with db.write() as session:
        grader = grader_id(session, GRADER_VERSION)
    places = ", ".join(f"({place})" for place in range(per_request))
    made = (
        f"WITH places(place) AS (VALUES {places}) INSERT INTO samples (id, run_problem_id, ordinal, cell_id, "
        "seed, stop_reason, prompt_tokens, completion_tokens) SELECT (cells.id * :each) + place, "
        "CAST(:problem AS BIGINT) + round, ordinal + place, cells.id, place, "
        "CASE WHEN (cells.id * 7 + place) % 23 = 0 THEN 'length' ELSE 'stop' END, 60, 700 + place "
        "FROM cells, places WHERE cells.id BETWEEN :low AND :high AND cells.state = 'empty'"
    )
    texts = (
        "INSERT INTO sample_texts (sample_id, text) SELECT id, :blob FROM samples "
        "WHERE id BETWEEN :first AND :last AND cell_id IN "
        "(SELECT id FROM cells WHERE id BETWEEN :low AND :high AND state = 'empty')"
    )
    # Some problems are solved always, some never; the last two have a few unknown grades.
    graded = (
        "INSERT INTO grades (sample_id, grader_id, run_problem_id, value, reason, extracted, source) "
        "SELECT id, :grader, run_problem_id, CASE WHEN run_problem_id % 50 = 7 AND ordinal % 97 = 5 THEN "
        "'unknown' WHEN (id * 7919) % 97 < (run_problem_id * 37) % 97 THEN 'correct' ELSE 'wrong' END, "
        "'exact', CAST((id * 31) % 19 AS TEXT), 'box' FROM samples WHERE id BETWEEN :first AND :last "
        "AND cell_id IN (SELECT id FROM cells WHERE id BETWEEN :low AND :high AND state = 'empty')"
    )
    bodies = (
        "INSERT INTO cell_bodies (cell_id, body) SELECT id, :blob FROM cells "
        "WHERE id BETWEEN :low AND :high AND state = 'empty'"
    )
    filled = (
        "UPDATE cells SET state = 'filled', paid_by = :run, model = 'model', prompt_tokens = 60, "
        "completion_tokens = 5600, attempts = 1, cost_usd = 0.001, doubtful_usd = 0, latency_s = 1, "
        "filled_at = :now WHERE id BETWEEN :low AND :high AND state = 'empty'"
    )
    with db.read() as session:
        low = session.scalar(
            select(func.min(CellRow.id)).where(
                CellRow.scope == run.id, CellRow.state == "empty", CellRow.outcome.is_(None)
            )
        )
    for number, start in enumerate(range(low or until, until, CELLS_PER_COMMIT)):
        given = {
            "low": start, "high": min(start + CELLS_PER_COMMIT, until) - 1, "each": per_request,
            "problem": first_problem, "grader": grader, "run": run.id, "blob": blob,
            "now": f"2026-01-01T{number // 60 % 24:02}:{number % 60:02}:00Z",
        }  # fmt: skip
        given["first"], given["last"] = given["low"] * per_request, (given["high"] + 1) * per_request - 1
        with db.write() as session:
            for statement in (made, texts, graded, bodies, filled):
                session.execute(text(statement), given)


class Nothing:
    """Stands for a grader that is given nothing to grade."""

    def grade_many(self, cases: Any) -> Any:
        """Return no grades."""
        return []


def ask(db: Database, run: Any, n: int) -> dict[str, float]:
    """Return the milliseconds of what lists, pages, reports and a second start ask."""

    def in_transaction(query: Callable[[Any], object]) -> Callable[[], None]:
        def work() -> None:
            with db.read() as session:
                query(session)

        return work

    def page(**filters: Any) -> Callable[[Any], object]:
        return lambda session: browse_samples(session, run.id, SampleFilters(**filters))

    middle = (250, n // 2)
    asked: dict[str, Callable[[Any], object]] = {
        "runs list": page_runs,
        "eval list": runs_overview,
        "curve and report": lambda session: load_result(session, run),
        "samples: first page": page(),
        "samples: a page in the middle": lambda s: browse_samples(s, run.id, SampleFilters(), after=middle),
        "samples: unknown": page(value="unknown"),
        "samples: ungraded": page(value=UNGRADED),
        "samples: by people": page(value="human"),
        "samples: no answer found": page(source=""),
        "samples: cut": page(truncated=True),
        "samples: long": page(tokens=100_000),
        "samples: a text": page(text="nowhere to be found"),
        "start: missing": lambda session: samples_missing(session, run.id, n),
        "start: lost": lambda session: samples_lost(session, run.id, n),
        "start: open": lambda session: open_cells(session, run.id),
        "start: complete": lambda session: is_complete(session, run.id),
        "removal: what would go": lambda session: holdings(session, run),
    }
    taken = {}
    for name, query in asked.items():
        taken[name] = median_ms(in_transaction(query), 3)
        print(f"  {name}: {taken[name]} ms", flush=True)
    return taken


def run_all(db: Database, samples: int, problems: int, per_request: int) -> dict[str, Any]:
    """Fill an empty database and ask it; return what is printed."""
    import random

    chance, writer, clock = random.Random(1), Writer(1), Clock(db)
    n = max(per_request, samples // problems // per_request * per_request)
    run, work = make_run(db, "large", problems, per_request)
    report: dict[str, Any] = {"database": db.connections.engine.dialect.name, "samples": n * problems}
    report["plan"] = clock.measure(lambda: plan(db, run, work, n, per_request))
    other, other_work = make_run(db, "open", problems, per_request)
    plan(db, other, other_work, max(per_request, n // OPEN_SHARE), per_request)
    print("planned", report["plan"], flush=True)
    with db.read() as session:
        ids = select(func.min(CellRow.id), func.max(CellRow.id)).where(CellRow.scope == run.id)
        first, last = session.execute(ids).one()
    began = time.perf_counter()
    for name, until in (("begin", first), ("middle", (first + last) // 2), ("end", last - 800)):
        fill(db, run, work, until, per_request)
        report[name] = at_this_point(db, run, work, writer, chance)
        print(name, report[name], f"after {time.perf_counter() - began:.0f} s", flush=True)
    fill(db, run, work, last + 1, per_request)
    with db.write() as session:  # what a sampler drew has no grades yet
        session.execute(
            text(
                "INSERT INTO grades (sample_id, grader_id, run_problem_id, value, reason, extracted, source) "
                "SELECT id, :grader, run_problem_id, 'wrong', 'different', '0', 'box' FROM samples WHERE NOT "
                "EXISTS (SELECT 1 FROM grades WHERE sample_id = samples.id)"
            ),
            {"grader": grader_id(session, GRADER_VERSION)},
        )
    if not isinstance(db.place, Path):
        db.connections.run_alone("ANALYZE")  # as autovacuum does
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(SampleRow)) == n * problems
        assert open_cells(session, run.id) == 0
    report["ms"] = ask(db, run, n)
    report["again"] = {}

    def reopen() -> None:
        with db.write() as session:
            reopen_failed_cells(session, run.id)

    def votes() -> None:
        with db.read() as session:
            read_answers(session, run.id, GRADER_VERSION)

    for name, step in {
        "reopen": reopen,
        "plan": lambda: plan(db, run, work, n, per_request),
        "grade": lambda: grade_run(db, run.id, Nothing(), lambda *_: None),  # type: ignore[arg-type]
        "votes": votes,
    }.items():
        report["again"][name] = clock.measure(step)
        print(f"  again: {name}: {report['again'][name]}", flush=True)
    report["database_mb"] = round(db.size() / 1e6)
    report["peak_mb"] = round(peak_mb())
    return report


def _forget_peak() -> float:
    """Have the system count this process's peak memory anew, where it can; return what is held in MiB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return peak_mb()


def _peak() -> float:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return peak_mb()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--per-request", type=int, default=8)
    parser.add_argument("--db", help="a new file, or the URL of an empty database; it is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = options.db or Path(folder) / "scale.db"
        with Database.open(place) as db:
            print(json.dumps(run_all(db, options.samples, options.problems, options.per_request)))


if __name__ == "__main__":
    main()
