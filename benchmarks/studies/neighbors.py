"""Which rewrites a least distance refuses, and what choices among neighbors yield.

    python -m benchmarks.studies.neighbors [--data ../shared/data] [--rewrites FILE.parquet|FILE.jsonl]

1. On pairs of questions and rewrites: the share that is refused at several least distances, also of the same
   questions with one phrase exchanged by another that says the same. A file of rewrites has the columns
   original_question and rephrased_question (or question).
2. On the shipped demo: two neighbors a question, at random and furthest apart; difficulties by preference.
3. What numbers of neighbors yield, from the demo's pilot.

The last line is JSON. Files that are not there are named.
"""

import argparse
import re
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from benchmarks.harness import add_data, print_report, read_jsonl
from evaluator.signal.cost import compare_choices
from evaluator.signal.groups import count_groups
from evaluator.signal.rates import fit_rates
from rephraser.checks.text import distance
from rephraser.config import MIN_DISTANCE
from rephraser.sets.publish import Adaptive, Selection, draft
from service.database import Database
from ui.shipped_demo.unpacking import SHIPPED, unpack

FILES = ("rephrase_gsm8k_decontaminator", "free_honest", "free_broken", "math_natural_near_pairs")
LEAST = (0.1, MIN_DISTANCE, 0.2, 0.3)
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
    if questions:
        distances.append(summarize("one phrase exchanged", list(exchange(dict.fromkeys(questions)))))
    with (
        tempfile.TemporaryDirectory() as folder,
        Database.open(unpack(SHIPPED, Path(folder)), create=False) as db,
        db.read() as session,
    ):
        chosen = draft(session, RUN, Selection(n=N, adaptive=Adaptive(g=G, pilot=PILOT)))
        preferences = compare_preferences(session)
    numbers = compare_choices(chosen.groups, fit_rates(count_groups(chosen.groups)), G, N)
    print_report(
        {
            "share of pairs below a least distance": distances,
            "two neighbors a question of the shipped demo": preferences,
            f"numbers of neighbors, G={G}, N={N}, from {PILOT}": numbers,
        }
    )


def read_pairs(path: Path) -> list[tuple[str, str]]:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        rows = parquet.read_table(path).to_pylist()
    else:
        rows = read_jsonl(path)
    pairs = [(row["original_question"], row.get("rephrased_question") or row.get("question")) for row in rows]
    return [(question, text) for question, text in pairs if question and text]


def exchange(questions: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield questions with their first known phrase exchanged; those without one are left out."""
    for question in questions:
        for old, new in PHRASES.items():
            text, count = re.subn(rf"(?<!\w){old}(?!\w)", new, question, count=1)
            if count:
                yield question, text
                break


def summarize(name: str, pairs: Pairs) -> dict[str, Any]:
    values = [distance(*pair) for pair in pairs]
    shares = {f"below {least}": sum(value < least for value in values) / len(values) for least in LEAST}
    return {"pairs": name, "rows": len(values), **shares}


def compare_preferences(session: Session) -> list[dict[str, Any]]:
    """Return how far apart two of the demo's neighbors of a question are, and how hard."""
    compared = []
    for prefer in ("at random", "any", "easier", "level", "harder"):
        wish = {} if prefer == "at random" else {"n": 2, "prefer": prefer}
        near, solved, kinds = [], [], dict.fromkeys(("easier", "level", "harder"), 0)
        for entry in draft(session, RUN, Selection(**wish)).entries:
            neighbors = list(entry.neighbors)
            if not wish:  # ids are hashes of the texts
                neighbors = sorted(neighbors, key=lambda each: each.candidate_id)[:2]
            texts = [entry.question.text, *(each.text for each in neighbors)]
            near.append(min(distance(*pair) for pair in combinations(texts, 2)))
            for each in neighbors:
                assert each.successes is not None
                solved.append(each.successes.neighbor_right / each.successes.neighbor_drawn)
                kinds[each.successes.difficulty] += 1
        means = {"nearest pair": statistics.mean(near), "solved": statistics.mean(solved)}
        compared.append({"chosen": prefer, **means, **kinds})
    return compared


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data(parser)
    parser.add_argument("--rewrites", type=Path)
    given = parser.parse_args()
    main(given.data, given.rewrites)
