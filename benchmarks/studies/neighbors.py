"""Which rewrites a least distance refuses, and what choices among neighbors yield.

    python -m benchmarks.studies.neighbors [--data ../shared/data] [--rewrites FILE.parquet|FILE.jsonl]

1. On pairs of questions and rewrites: quantiles of the distance, the share that is refused at several least
   distances; beside them the same questions with one phrase, or two, exchanged by another that says the same.
   A file of rewrites has the columns original_question and rephrased_question (or question).
2. On the shipped demo: two neighbors a question, at random and furthest apart; difficulties by preference.
3. What numbers of neighbors yield, from the demo's pilot and from its verdicts; "from 0.5": adaptive, for
   questions whose chance of equal rewards is that or more.

The last line is JSON. Files that are not there are named.
"""

import argparse
import json
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data, print_table
from evaluator.signal.cost import compare_choices
from evaluator.signal.groups import count_groups
from evaluator.signal.rate_model import fit_rates
from rephraser.checks.text import distance
from rephraser.config import MIN_DISTANCE
from rephraser.sets import Adaptive, Selection, draft
from service.database import Database
from ui.shipped_demo.unpacking import SHIPPED, unpack

FILES = ("rephrase_gsm8k_decontaminator", "free_honest", "free_broken", "math_natural_near_pairs")
LEAST = (0.05, 0.1, MIN_DISTANCE, 0.2, 0.3)
QUANTILES = (0.01, 0.1, 0.5, 0.9)
RUN, PILOT, G, N = "candidates", "pilot.sandbox-1", 8, 3
PHRASES = {
    "are left": "remain",
    "How many": "What number of",
    "Find": "Determine",
    "Compute": "Calculate",
    "What is": "Find",
    "Evaluate": "Compute",
    "such that": "so that",
    "is equal to": "equals",
    "each": "every",
    "total": "overall",
    "If": "Given that",
    "buys": "purchases",
    "has": "owns",
}
UNMIXED = (0.3, 0.5, 0.7)
Pairs = Sequence[tuple[str, str]]


def main(data: Path, rewrites: Path | None) -> None:
    distances: list[dict[str, Any]] = []
    named = {name: data / f"{name}.jsonl" for name in FILES}
    named |= {} if rewrites is None else {"rewrites": rewrites}
    questions: list[str] = []
    for name, path in named.items():
        if not path.is_file():
            print(f"{name} is not there: {path}")
            continue
        pairs = read_pairs(path)
        distances.append(summarize(name, pairs))
        questions += [question for question, _ in pairs if name != "math_natural_near_pairs"]
    for count in (1, 2) if questions else ():
        exchanged = list(exchange(dict.fromkeys(questions), count))
        distances.append(summarize(f"{count} phrase(s) exchanged", exchanged))
    report = {"distance, and the share of pairs below a least one": distances}
    with (
        tempfile.TemporaryDirectory() as folder,
        Database.open(unpack(SHIPPED, Path(folder)), create=False) as db,
    ):
        report["two neighbors a question of the shipped demo"] = compare_preferences(db)
        for pilot in (PILOT, None):
            title = f"numbers of neighbors, G={G}, N={N}, from {pilot or 'the answers of the verdicts'}"
            report[title] = compare_numbers(db, pilot)
    for title, rows in report.items():
        print_table(title, rows)
    print(json.dumps(report))


def read_pairs(path: Path) -> list[tuple[str, str]]:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        rows = parquet.read_table(path).to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    pairs = [(row["original_question"], row.get("rephrased_question") or row.get("question")) for row in rows]
    return [(question, text) for question, text in pairs if question and text]


def exchange(questions: dict[str, None], count: int) -> Iterator[tuple[str, str]]:
    """Yield questions with their first `count` phrases exchanged; those with fewer are left out."""
    for question in questions:
        known = [(old, new) for old, new in PHRASES.items() if re.search(rf"(?<!\w){old}(?!\w)", question)]
        if len(known) >= count:
            text = question
            for old, new in known[:count]:
                text = re.sub(rf"(?<!\w){old}(?!\w)", new, text, count=1)
            yield question, text


def summarize(name: str, pairs: Pairs) -> dict[str, Any]:
    values = sorted(distance(*pair) for pair in pairs)
    return {
        "pairs": name,
        "rows": len(values),
        **{f"quantile {share}": values[int(share * (len(values) - 1))] for share in QUANTILES},
        **{f"below {least}": sum(value < least for value in values) / len(values) for least in LEAST},
    }


def compare_preferences(db: Database) -> list[dict[str, Any]]:
    """Return how far apart two of the demo's neighbors of a question are, and how hard."""
    found = []
    with db.read() as session:
        for prefer in ("at random", "any", "easier", "level", "harder"):
            wish = {} if prefer == "at random" else {"n": 2, "prefer": prefer}
            near, solved, kinds = [], [], dict.fromkeys(("easier", "level", "harder"), 0)
            for entry in draft(session, RUN, Selection(**wish)).entries:
                neighbors = list(entry.neighbors)
                if not wish:  # ids are hashes of the texts
                    neighbors = sorted(neighbors, key=lambda one: one.candidate_id)[:2]
                texts = [entry.question.text, *(one.text for one in neighbors)]
                near.append(min(distance(*pair) for pair in combinations(texts, 2)))
                for one in neighbors:
                    assert one.successes is not None
                    solved.append(one.successes.neighbor_right / one.successes.neighbor_drawn)
                    kinds[one.successes.difficulty] += 1
            means = {"nearest pair": statistics.mean(near), "solved": statistics.mean(solved)}
            found.append({"chosen": prefer, **means, **kinds})
    return found


def compare_numbers(db: Database, pilot: str | None) -> list[dict[str, Any]]:
    with db.read() as session:
        one = draft(session, RUN, Selection(n=N, adaptive=Adaptive(g=G, pilot=pilot)))
    model = fit_rates(count_groups(one.groups))
    rows = compare_choices(one.groups, model, G, N)[:-1]
    for chance in UNMIXED:
        adaptive = compare_choices(one.groups, model, G, N, unmixed=chance)[-1]
        rows.append({**adaptive, "choice": f"from {chance}"})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data(parser)
    parser.add_argument("--rewrites", type=Path)
    given = parser.parse_args()
    main(given.data, given.rewrites)
