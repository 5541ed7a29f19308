"""Coverage and speed of the rules proposer on MATH train; `--sample 60 --seed 3` prints pairs to read."""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter

from benchmarks.harness import add_data
from rephraser.proposing.rules import RULES_VERSION, propose_by_rules


def without_figures(text: str) -> str:
    """The text with figure code shortened, for reading."""
    return re.sub(r"\[asy\].*?\[/asy\]", "[figure]", text, flags=re.S)


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--rows", type=int, help="only the first so many")
    parser.add_argument("--candidates", type=int, default=3, help="candidates asked for per question")
    parser.add_argument("--sample", type=int, default=0, help="print this many random pairs to read")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample and of the proposer")
    args = parser.parse_args()

    with (args.data / "math_train.jsonl").open(encoding="utf-8") as lines:
        questions = [str(json.loads(line)["question"]) for line in lines][: args.rows]
    start = time.perf_counter()
    proposed = [propose_by_rules(question, args.candidates, seed=args.seed) for question in questions]
    seconds = time.perf_counter() - start

    if args.sample:
        rng = random.Random(args.seed)
        rows = rng.sample([i for i, found in enumerate(proposed) if found], args.sample)
        for number, row in enumerate(rows, 1):
            candidate = rng.choice(proposed[row])
            print(f"--- {number} (row {row}) {', '.join(candidate.transformations)}")
            print(f"  {without_figures(questions[row])}\n  =>\n  {without_figures(candidate.text)}\n")

    sizes = Counter(len(found) for found in proposed)
    rules = Counter(name for found in proposed for candidate in found for name in candidate.transformations)
    total = len(questions)
    print(f"rules version {RULES_VERSION}, {total} questions, {args.candidates} candidates asked for")
    for size in sorted(sizes):
        print(f"  {size} candidates: {sizes[size]:5d} questions ({sizes[size] / total:.1%})")
    for name, count in rules.most_common():
        print(f"  {name:22s} {count:5d}")
    report = {
        "questions": total,
        "coverage": round(1 - sizes[0] / total, 4),
        "coverage_3": round(sum(c for size, c in sizes.items() if size >= 3) / total, 4),
        "candidates": sum(len(found) for found in proposed),
        "questions_per_second": round(total / seconds),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
