"""Eval runs in the database: how fast samples go in, how fast pages and curves come out, how large it is.

Ten runs of 782 problems are filled as a sampler fills them: cells planned, leased, drawn and committed with
headers and texts, then graded, all through the product's own functions. In the last run four problems each
stand together as a question and its neighbors. The responses are generated prose about arithmetic with fresh
numbers, 4,096 characters each; `text_ratio` says how much zstd saves on a single one (2.2 here; responses
of models to competition problems reach 2.3 to 4). Neither making the texts nor judging the answers is timed.
Then the queries that pages need are asked again and again at random places, each time in a transaction of its
own; the system's cache is warm.

One run's data is also written in two usual ways: as JSON Lines, and as one table with the texts inside,
indexed by problem. They are asked for the same page and the same counts; ratios are their median times over
ours.

    python -m benchmarks.speed.store [--samples 1000000] [--folder DIR]

It needs about 2.6 KB of disk a sample, and 0.9 GB more for the two alternatives at full size, in a temporary
folder that is removed at the end. The last line is one JSON object; times are milliseconds.
"""

import argparse
import json
import math
import random
import re
import sqlite3
import statistics
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.harness import peak_mb
from evaluator.evals.grading import grade_run
from evaluator.evals.overview import runs_overview, shown_grader
from evaluator.evals.problems import PlacedProblem, make_problem, placed_hash, run_problems
from evaluator.evals.results import load_result
from evaluator.evals.running import EvalCells, plan_samples
from evaluator.evals.runs import EvalSpec, open_eval_run
from evaluator.evals.samples import count_samples, page_samples, read_texts
from evaluator.grading import Grade, GradeValue
from service.database import Database
from service.database.base import ZSTD_LEVEL
from service.models.drawing import DrawnCell, Response
from service.models.settings import PromptSpec, SamplingSettings
from service.runs.cells import Receipt

VARIANTS = 4
TEXT_BYTES = 4096
PAGE = 25
SAMPLES_PER_CELL = 8
CELLS_PER_COMMIT = 64

WORDS = re.findall(
    "[a-z]+",
    """the sum product remainder area triangle number ways second term side value total cost probability ratio
    slope line digit coefficient result equation inequality largest factor angle circle square root integer
    divisor multiple prime sequence polynomial therefore since we obtain simplify substitute multiply divide
    subtract add both sides consider let denote that this equals so hence now recall from which follows note
    case first each between distance speed hours minutes workers cookies students meters tank fraction percent
    average median set element subset order edge diagonal chord tangent height base volume cylinder plane axis
    origin parabola focus function domain inverse limit bound maximum minimum congruent residue cycle pattern
    even odd common difference geometric original remaining at least exactly one two three four than more less
    twice half final answer is are be can must have given know find need using gives means holds implies with
    for and or not then if where only all some any no of in on by to a an as into over under after before""",
)
FORMULAS = re.split(
    r" \| ",
    r"\frac{%d}{%d} | %dx + %d = 0 | x^2 - %dx + %d | \sqrt{%d} \approx %d | %d \cdot %d | \binom{%d}{%d} | "
    r"%d \equiv %d \pmod{7} | \left(%d, %d\right)",
)


class Writer:
    """Makes responses: sentences of common words in no order, with numbers and formulas, each text new."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sentences = [self._sentence() for _ in range(40_000)]

    def _sentence(self) -> str:
        chance = self._random
        parts = []
        for _ in range(chance.randint(7, 16)):
            # Common words are far more common than rare ones, as in any language.
            parts.append(WORDS[int(len(WORDS) * chance.random() ** 1.7)])
            if chance.random() < 0.22:
                formula = chance.choice(FORMULAS) % (chance.randint(1, 999), chance.randint(1, 99))
                parts.append(f"${formula}$")
        return " ".join(parts).capitalize() + ". "

    def text(self, answer: int) -> str:
        """Return a response of about 4 KB that ends in the answer."""
        end = f"The final answer is \\boxed{{{answer}}}."
        body = "".join(self._random.choices(self._sentences, k=62))
        return body[: TEXT_BYTES - len(end) - 1] + " " + end


@dataclass
class Filling:
    """What went in, and the seconds of the product's functions by step."""

    samples: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"plan": 0.0, "samples": 0.0, "grades": 0.0})

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the seconds of the block to a step."""
        began = time.perf_counter()
        yield
        self.seconds[step] += time.perf_counter() - began


class BoxReader:
    """Stands for the grader: what it judges is right or wrong at a glance, and its own time is known."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def grade_many(self, cases: Any) -> list[Any]:
        """Return grades by the last box of each response; one in a hundred of the wrong ones is unknown."""
        began = time.perf_counter()
        grades = []
        for case in cases:
            answer = case.response.rpartition("boxed{")[2].partition("}")[0]
            value, reason = GradeValue.WRONG, "different"
            if answer == case.gold:
                value, reason = GradeValue.CORRECT, "exact"
            elif zlib.crc32(case.response.encode()) % 100 == 0:
                value, reason = GradeValue.UNKNOWN, "timeout"
            grades.append(Grade(value, answer, reason, "box"))
        self.seconds += time.perf_counter() - began
        return grades


def make_run(db: Any, number: int, problems_each: int, neighbors: bool) -> tuple[Any, Any]:
    """Open a run of so many problems; over a neighbor set every four of them share a group."""
    problems = [
        make_problem(
            f"Box {place} holds {place % 97} balls and {place % 89} cubes. How many things are in it?",
            str(place % 97 + place % 89),
        )
        for place in range(problems_each)
    ]
    placed = [
        PlacedProblem(problem, f"q_{place // VARIANTS:06d}", place % VARIANTS, strategy="paraphrase")
        if neighbors
        else PlacedProblem(problem)
        for place, problem in enumerate(problems)
    ]
    spec = EvalSpec(
        "neighbors" if neighbors else "boxes",
        placed_hash(placed),
        len(placed),
        {"file": "generated"},
        f"model-{number}",
        {"sampler": "local"},
        PromptSpec("{question}"),
        SamplingSettings(samples_per_request=SAMPLES_PER_CELL),
    )
    with db.write() as session:
        run, _ = open_eval_run(session, f"run-{number}", spec, placed, {})
    return run, spec


def fill_run(db: Any, run: Any, spec: Any, n: int, writer: Writer, filling: Filling) -> None:
    """Plan, lease, draw and commit n samples a problem, then grade them; texts and verdicts are not timed."""
    with filling.timed("plan"), db.write() as session:
        problems = {problem.id: problem for problem in run_problems(session, run.id)}
        plan_samples(session, run.id, list(problems.values()), n, SAMPLES_PER_CELL)
    work = EvalCells(db, run.id, spec, problems)
    chance = random.Random(run.id)
    while True:
        with filling.timed("samples"):
            leased = work.lease(CELLS_PER_COMMIT)
        if not leased:
            break
        drawn = [draw(request, spec.model, writer, chance) for request in leased]
        filling.samples += sum(len(one.responses) for one in drawn)
        with filling.timed("samples"):
            work.store(drawn)
    reader = BoxReader()
    with filling.timed("grades"):
        grade_run(db, run.id, reader, lambda done, total: None)  # type: ignore[arg-type]
    filling.seconds["grades"] -= reader.seconds


def draw(request: Any, model: str, writer: Writer, chance: random.Random) -> Any:
    """Return responses to a problem: some problems are solved always, some never, most now and then."""
    rate = (request.problem.position * 0.618) % 1
    gold = int(request.problem.answer)
    responses = [
        Response(
            writer.text(gold if chance.random() < rate else gold + chance.randint(1, 9)),
            "stop" if chance.random() < 0.95 else "length",
            60,
            chance.randint(600, 1400),
        )
        for _ in range(request.count)
    ]
    return DrawnCell(request, responses, Receipt(model, 60, 8000, 0.0, 1, 1.0))


def latencies(ask: Callable[[], object], times: int) -> dict[str, float]:
    """Return the median and the 95th percentile of the milliseconds an answer takes."""
    ask()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    slow = taken[math.ceil(0.95 * len(taken)) - 1]
    return {"p50": round(statistics.median(taken), 3), "p95": round(slow, 3)}


def measure_pages(db: Any, runs: Sequence[Any], times: int) -> dict[str, dict[str, float]]:
    """Ask what pages ask, at random places, each time in a transaction of its own."""
    chance = random.Random(1)
    with db.read() as session:
        problems = {run.id: run_problems(session, run.id) for run in runs}
        grader = shown_grader(session, runs[0].id)

    def page(session: Any, *, texts: bool, **how: Any) -> None:
        run = chance.choice(runs)
        problem = chance.choice(problems[run.id])
        how["after_ordinal"] = chance.randrange(-1, 100)
        samples = page_samples(session, run.id, problem.id, limit=PAGE, **how)
        if texts:
            read_texts(session, [sample.id for sample in samples])

    few = max(5, times // 10)
    asked: dict[str, tuple[Callable[[Any], object], int]] = {
        "page_headers": (lambda session: page(session, texts=False, grader_id=grader.id), times),
        "page_with_texts": (lambda session: page(session, texts=True, grader_id=grader.id), times),
        "page_grader_chosen": (lambda session: page(session, texts=True), times),
        "curve_counts": (lambda session: [count_samples(session, run.id, grader.id) for run in runs], few),
        "curve_results": (lambda session: [load_result(session, run) for run in runs], few),
        "runs": (runs_overview, few),
    }

    def in_transaction(query: Callable[[Any], object]) -> None:
        with db.read() as session:
            query(session)

    found = {}
    for name, (query, repeats) in asked.items():
        found[name] = latencies(lambda query=query: in_transaction(query), repeats)  # type: ignore[misc]
        print(f"{name}: p50 {found[name]['p50']} ms, p95 {found[name]['p95']} ms", flush=True)
    return found


def write_alternatives(db: Any, run: Any, folder: Path) -> tuple[Path, Path]:
    """Write a run's samples as JSON Lines and as one table with the texts inside; return both paths."""
    lines, table = folder / "run.jsonl", folder / "inline.db"
    connection = sqlite3.connect(table)
    connection.execute("CREATE TABLE responses (id INTEGER PRIMARY KEY, problem, ordinal, stop, grade, text)")
    connection.execute("CREATE INDEX by_problem ON responses (problem, ordinal)")
    with lines.open("w", encoding="utf-8") as file, db.read() as session:
        for problem in run_problems(session, run.id):
            samples = page_samples(session, run.id, problem.id, limit=None)
            texts = read_texts(session, [sample.id for sample in samples])
            for one in samples:
                row = {"problem": problem.id, "ordinal": one.ordinal, "stop": one.stop_reason}
                row |= {"grade": one.value, "text": texts[one.id]}
                file.write(json.dumps(row) + "\n")
                connection.execute("INSERT INTO responses VALUES (NULL, ?, ?, ?, ?, ?)", tuple(row.values()))
    connection.commit()
    return lines, table


def compare(db: Any, run: Any, folder: Path, times: int) -> dict[str, dict[str, float]]:
    """Return the median milliseconds of a page with texts and of a run's counts, three ways."""
    lines, table = write_alternatives(db, run, folder)
    chance = random.Random(2)
    with db.read() as session:
        ids = [problem.id for problem in run_problems(session, run.id)]
        grader = shown_grader(session, run.id)
    inline = sqlite3.connect(table)
    by_grade = "SELECT problem, grade, count(*), sum(stop = 'length') FROM responses GROUP BY 1, 2"
    one_page = "SELECT * FROM responses WHERE problem = ? ORDER BY ordinal LIMIT ?"

    def our_page() -> None:
        with db.read() as session:
            samples = page_samples(session, run.id, chance.choice(ids), limit=PAGE, grader_id=grader.id)
            read_texts(session, [sample.id for sample in samples])

    def our_counts() -> None:
        with db.read() as session:
            count_samples(session, run.id, grader.id)

    def scanned_page() -> None:
        wanted, found = chance.choice(ids), 0
        with lines.open(encoding="utf-8") as file:
            for line in file:
                found += json.loads(line)["problem"] == wanted
                if found == PAGE:
                    return

    def scanned_counts() -> None:
        counts: Counter[tuple[int, str]] = Counter()
        with lines.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                counts[row["problem"], row["grade"]] += 1

    return {
        "page": versus(
            latencies(our_page, times),
            inline=latencies(lambda: inline.execute(one_page, (chance.choice(ids), PAGE)).fetchall(), times),
            jsonl=latencies(scanned_page, 9),
        ),
        "counts": versus(
            latencies(our_counts, times),
            inline=latencies(lambda: inline.execute(by_grade).fetchall(), 3),
            jsonl=latencies(scanned_counts, 3),
        ),
    }


def versus(ours: dict[str, float], **others: dict[str, float]) -> dict[str, float]:
    """Return the median of ours, and of each other way with its ratio to it."""
    ratios = {f"ratio_{way}": round(theirs["p50"] / ours["p50"], 3) for way, theirs in others.items()}
    return {"ours": ours["p50"], **{way: theirs["p50"] for way, theirs in others.items()}, **ratios}


def run_all(runs_in_all: int, problems_each: int, samples: int, times: int, folder: Path) -> dict[str, Any]:
    """Fill a database in the folder and ask it; return what is printed."""
    n = max(1, math.ceil(samples / (runs_in_all * problems_each)))
    writer, filling, runs = Writer(1), Filling(), []
    path = folder / "store.db"
    with Database.open(path) as db:
        for number in range(runs_in_all):
            run, spec = make_run(db, number, problems_each, neighbors=number == runs_in_all - 1)
            fill_run(db, run, spec, n, writer, filling)
            runs.append(run)
            print(f"run {number + 1} of {runs_in_all}: {filling.samples:,} samples in", flush=True)
    peak = peak_mb()  # the texts' maker included
    with Database.open(path) as db:
        size = path.stat().st_size
        queries = measure_pages(db, runs, times)
        alternatives = compare(db, runs[0], folder, times)
    raw = filling.samples * TEXT_BYTES
    texts = [writer.text(answer).encode() for answer in range(1000)]
    ratios = [len(text) / len(zstandard.compress(text, ZSTD_LEVEL)) for text in texts]
    stored = filling.seconds["plan"] + filling.seconds["samples"]
    return {
        "samples": filling.samples,
        "runs_problems_n": [runs_in_all, problems_each, n],
        "text_ratio": round(statistics.mean(ratios), 2),
        "samples_per_second": round(filling.samples / stored),
        "grades_per_second": round(filling.samples / filling.seconds["grades"]),
        "peak_mb": round(peak),
        "database_mb": round(size / 1e6),
        "database_to_raw": round(size / raw, 3),
        "ms": queries,
        "one_run": alternatives,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--problems", type=int, default=782, help="of each run")
    parser.add_argument("--samples", type=int, default=1_000_000, help="of all runs")
    parser.add_argument("--times", type=int, default=200, help="how often each page is asked for")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(
            json.dumps(run_all(options.runs, options.problems, options.samples, options.times, Path(folder)))
        )


if __name__ == "__main__":
    main()
