"""Measure the search for contamination: math_train against gsm8k_test and math500, time, memory and recall.

    python -m benchmarks.speed.contamination [--data DIR] [--subset N] [--from FILE]

The whole search (words, exact, fuzzy, n-grams) is timed for each file. Then the first N problems of math500
are compared with all of math_train by `rapidfuzz.process.cdist` on one core, with the threshold as its
cut-off (`cdist_ratio`: its seconds over ours for the same pairs, ratios only) and without (`naive_ratio`).
`missed` counts pairs at or above the threshold that our search leaves out. `--from` adds a file of MATH
test. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data, peak_mb
from service.questions.contamination import Settings, Text, find_overlaps


def read(path: Path) -> list[Text]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Text(row["id"], row["question"], row["answer"]) for row in rows]


def search(train: list[Text], name: str, problems: list[Text]) -> dict[str, Any]:
    """Time one search, and count what it finds."""
    started = time.perf_counter()
    found = find_overlaps(train, problems)
    seconds = time.perf_counter() - started
    counts = dict(Counter(overlap.measure for overlap in found))
    print(f"{len(train):,} x {name} ({len(problems):,}): {seconds:.2f} s, {counts}")
    for overlap in found:
        if overlap.measure != "variant":
            print(f"  {overlap.measure} {overlap.score:g}: {overlap.source_id}, {overlap.problem_id}")
    return {"pairs": len(train) * len(problems), "seconds": round(seconds, 3), "found": counts}


def against_cdist(train: list[Text], problems: list[Text], cutoff: float) -> dict[str, Any]:
    """Compare ratios alone with rapidfuzz on the same pairs, both on one core."""
    import numpy as np
    from rapidfuzz import fuzz, process

    from service.questions.contamination.finding import _Near, _read

    ours, theirs = [_read(text) for text in train], [_read(text) for text in problems]
    started = time.perf_counter()
    near = _Near(ours, cutoff)
    found = {(row, place) for row, problem in enumerate(theirs) for place in near.ratios(problem)}
    seconds = time.perf_counter() - started
    texts = [text.joined for text in ours], [text.joined for text in theirs]
    times = []
    for limit in (cutoff, None):
        started = time.perf_counter()
        ratios = process.cdist(
            texts[1], texts[0], scorer=fuzz.ratio, score_cutoff=limit, workers=1, dtype=np.float32
        )
        times.append(time.perf_counter() - started)
    wanted = {(int(row), int(place)) for row, place in zip(*np.nonzero(ratios >= cutoff), strict=True)}
    print(
        f"ratios of {len(train) * len(problems):,} pairs: {seconds:.2f} s; cdist {times[0]:.2f} s with the "
        f"cut-off, {times[1]:.2f} s without; {len(wanted)} pairs wanted, {len(wanted - found)} missed"
    )
    return {
        "pairs": len(train) * len(problems),
        "seconds": round(seconds, 3),
        "cdist_seconds": round(times[0], 3),
        "naive_seconds": round(times[1], 3),
        "cdist_ratio": round(times[0] / seconds, 2),
        "naive_ratio": round(times[1] / seconds, 2),
        "wanted": len(wanted),
        "missed": len(wanted - found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data(parser)
    parser.add_argument("--rows", type=int, help="only the first so many questions of MATH train")
    parser.add_argument("--subset", type=int, default=500, help="problems of math500 compared by cdist")
    parser.add_argument("--from", dest="math_test", type=Path, help="a file of MATH test, searched as well")
    options = parser.parse_args()
    if not (options.data / "math_train.jsonl").is_file():
        parser.error(f"no math_train.jsonl in {options.data}; give the folder with --data")
    train = read(options.data / "math_train.jsonl")[: options.rows]
    benchmarks = {name: read(options.data / f"{name}.jsonl") for name in ("gsm8k_test", "math500")}
    before = peak_mb()
    result: dict[str, Any] = {name: search(train, name, texts) for name, texts in benchmarks.items()}
    result["added_mb"] = round(peak_mb() - before)
    for name in ("olympiadbench_675", "minerva_272", "amc12_83", "aime24", "aime25"):
        result[name] = search(train, name, read(options.data / f"{name}.jsonl"))
    if options.math_test is not None:
        from evaluator.benchmarks import load_benchmark

        loaded = load_benchmark("math-test", source=options.math_test)
        texts = [
            Text(f"row {row}", problem.text, problem.answer) for row, problem in enumerate(loaded.problems)
        ]
        result["math-test"] = search(train, "math-test", texts)
    result["peak_mb"] = round(peak_mb())
    result["ratios"] = against_cdist(train, benchmarks["math500"][: options.subset], Settings().ratio)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
