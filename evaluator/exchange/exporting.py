"""Writes the samples of an eval run as rows: JSON Lines, parquet, or a data set for the Hub."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.counts import count_samples
from evaluator.evals.overview import shown_grader
from evaluator.evals.problems import RunProblem, run_problems
from evaluator.evals.samples import read_headers, read_texts
from evaluator.evals.tables import SampleRow
from evaluator.exchange.agreement import find_other_tool
from service.database import Database
from service.errors import InputError
from service.questions.images import Image, data_address, image_loader, parquet_cell
from service.runs.store import Run
from service.telling import TellProgress
from service.writing import write_file, write_folder

SamplesFormat: TypeAlias = Literal["jsonl", "parquet", "hf"]

DATA_FILE = "data/train-00000-of-00001.parquet"
MANIFEST = "tagrpo.json"
_PER_GROUP = 500
_NUMBERS = ("position", "copy", "variant", "sample", "seed", "prompt_tokens", "completion_tokens")
_PICTURED_PER_GROUP = 50  # rows with images of up to 20 MB


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

    def write_lines(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for row in _rows(db, run, report, data_address):
                file.write(json.dumps(row) + "\n")

    def write_table(path: Path) -> None:
        _write_parquet(path, _rows(db, run, report, parquet_cell))

    def write_data_set(folder: Path) -> None:
        (folder / DATA_FILE).parent.mkdir()
        write_table(folder / DATA_FILE)
        about = {name: getattr(run, name) for name in ("id", "spec", "versions")}
        text = json.dumps({"run": run.name, **about, "samples": count}, ensure_ascii=False, indent=2) + "\n"
        (folder / MANIFEST).write_text(text, encoding="utf-8")
        (folder / "README.md").write_text(_card(run, count), encoding="utf-8")

    if form == "hf":
        write_folder(target, write_data_set, overwrite=overwrite, mark=MANIFEST)
    else:
        write_file(target, write_lines if form == "jsonl" else write_table, overwrite=overwrite)
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
        for row in _samples(db, problem, ours, None if other is None else other.id):
            yield common | row
        report(done, len(problems))


def _samples(
    db: Database, problem: RunProblem, grader: int | None, theirs: int | None
) -> Iterator[dict[str, Any]]:
    with db.read() as session:
        of_problem = SampleRow.run_problem_id == problem.id
        headers = read_headers(session, of_problem, grader)
        texts = read_texts(session, [header.id for header in headers])
        graded = [] if theirs is None else read_headers(session, of_problem, theirs)
    other = {header.id: header.reason for header in graded}
    same = ("stop_reason", "prompt_tokens", "completion_tokens", "seed")
    for header in headers:
        yield {
            "sample": header.ordinal,
            "response": texts[header.id],
            **{name: getattr(header, name) for name in same},
            "grade": header.value,
            "reason": header.reason,
            "extracted": header.extracted,
            "answer_place": header.source,
            "human_grade": header.human,
            "other_grade": other.get(header.id),
        }


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    import pyarrow
    from datasets import Features, List, Value
    from datasets import Image as ImageFeature
    from pyarrow import parquet

    first = next(rows)
    kinds = {name: Value("int64" if name in _NUMBERS else "string") for name in first}
    pictured = "images" in first
    schema: Any = Features({**kinds, **({"images": List(ImageFeature())} if pictured else {})}).arrow_schema
    every = chain([first], rows)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while part := list(islice(every, _PICTURED_PER_GROUP if pictured else _PER_GROUP)):
            try:
                table = pyarrow.Table.from_pylist(part, schema=schema)
            except UnicodeEncodeError as error:
                raise InputError(
                    "a response contains an invalid character (a lone surrogate), which parquet cannot "
                    "store. Write JSON Lines instead."
                ) from error
            writer.write_table(table)


def _card(run: Run, samples: int) -> str:
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: {DATA_FILE}
tags:
- tagrpo
- evaluation
---
# Responses of {run.spec["model"]} to {run.spec["problems"]}

{samples:,} responses of the evaluation `{run.name}`, one per row, with the grades of tagrpo's grader.
`tagrpo.json` contains the settings. The problems come from the benchmark and keep its licence.

`tagrpo eval import {DATA_FILE} --model NAME` imports them again.
"""
