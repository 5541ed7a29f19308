"""Writes the samples of an eval run as rows: JSON Lines or parquet."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.counts import count_samples
from evaluator.evals.overview import shown_grader
from evaluator.evals.problems import run_problems
from evaluator.evals.samples import read_headers, read_texts
from evaluator.evals.tables import SampleRow
from evaluator.exchange.agreement import find_other_tool
from service.database import Database
from service.errors import InputError
from service.questions.images import Image, data_address, image_loader, parquet_cell
from service.runs.store import Run
from service.telling import TellProgress
from service.writing import write_file, write_rows

SamplesFormat: TypeAlias = Literal["jsonl", "parquet"]

_SAME = ("stop_reason", "prompt_tokens", "completion_tokens", "seed")  # columns and fields of a sample
_NUMBERS = ("position", "copy", "variant", "sample", "seed", "prompt_tokens", "completion_tokens")


def export_samples(
    db: Database, run: Run, target: Path, form: SamplesFormat, *, overwrite: bool, report: TellProgress
) -> int:
    """Write the samples of a run, one a row, and return their number; the file appears whole or not at all.

    The rows hold all of problems, their images too, and of responses, so `evaluator.exchange.importing`
    imports them again. Grades are those that are shown of the run. Gated benchmarks are refused.
    """
    if is_secret(run.spec["problems"]):
        raise InputError(f"run {run.name} uses a gated benchmark, whose texts may not be exported.")
    with db.read() as session:
        count = sum(problem.samples for problem in count_samples(session, run.id, None))
    if not count and form != "jsonl":
        raise InputError("the run has no samples yet, so there is nothing to write.")

    def write(path: Path) -> None:
        if form == "parquet":
            _write_parquet(path, _rows(db, run, report, parquet_cell))
            return
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for row in _rows(db, run, report, data_address):
                file.write(json.dumps(row) + "\n")

    write_file(target, write, overwrite=overwrite)
    return count


def _rows(
    db: Database, run: Run, report: TellProgress, image_cell: Callable[[Image], Any]
) -> Iterator[dict[str, Any]]:
    with db.read() as session:
        problems = run_problems(session, run.id)
        ours, other = shown_grader(session, run.id), find_other_tool(session, run.id)
    groups = {problem.group_id for problem in problems if problem.variant}
    pictured, load = any(problem.images for problem in problems), image_loader(db)
    copies: Counter[tuple[Any, ...]] = Counter()
    for done, problem in enumerate(problems, 1):
        grouped = problem.group_id in groups
        same = (problem.text, problem.answer, problem.kind, problem.tolerance, problem.images, grouped)
        images = load(problem.images) if problem.images else {}
        cells = {"images": [image_cell(images[id]) for id in problem.images]} if pictured else {}
        common = {
            "model": run.spec["model"],
            "problem_id": problem.problem_id,
            "position": problem.position,
            "copy": 0 if grouped else copies[same],
            "question": problem.text,
            "answer": problem.answer,
            "kind": problem.kind.value,
            "tolerance": problem.tolerance,
            "group": problem.group_id if groups else None,
            "variant": problem.variant,
            "source_id": problem.source_id,
            "strategy": problem.strategy,
            **cells,
        }
        copies[same] += 1
        with db.read() as session:
            of_problem = SampleRow.run_problem_id == problem.id
            headers = read_headers(session, of_problem, ours)
            texts = read_texts(session, [header.id for header in headers])
            theirs = [] if other is None else read_headers(session, of_problem, other.id)
        other_grades = {header.id: header.reason for header in theirs}
        for header in headers:
            yield {
                **common,
                "sample": header.ordinal,
                "response": texts[header.id],
                **{name: getattr(header, name) for name in _SAME},
                "grade": header.value,
                "reason": header.reason,
                "extracted": header.extracted,
                "answer_place": header.source,
                "human_grade": header.human,
                "other_grade": other_grades.get(header.id),
            }
        report(done, len(problems))


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    from datasets import Features, List, Value
    from datasets import Image as ImageFeature

    first = next(rows)
    kinds: dict[str, Any] = {name: Value("int64" if name in _NUMBERS else "string") for name in first}
    if "images" in first:
        kinds["images"] = List(ImageFeature())
    schema: Any = Features(kinds).arrow_schema
    try:
        write_rows(path, schema, chain([first], rows))
    except UnicodeEncodeError as error:
        raise InputError(
            "a response contains an invalid character (a lone surrogate), which parquet cannot store. Write "
            "JSON Lines instead."
        ) from error
