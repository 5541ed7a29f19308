"""The dataset card: content, origin, verification, and loading of a set."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rephraser.sets.counts import RATE_DEFINITION, accept_rates
from rephraser.sets.export import OTHER_LICENSE, SPLIT_FILE, features
from rephraser.sets.types import SetHeader
from rephraser.verdict.successes import solver_name

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


_TEXT = """# {name}, version {version}

{questions:,} math questions with {neighbors:,} neighbors: rephrasings of the same problem, created for
TA-GRPO training. One row is one question; a question without neighbors trains as plain GRPO. Written
by tagrpo.

{verified}

## Loading

```python
from datasets import load_dataset

rows = load_dataset("FOLDER_OR_REPOSITORY", split="train")
print(rows[0]["question"], [neighbor["text"] for neighbor in rows[0]["neighbors"]])
```

`tagrpo sets import FOLDER --name NAME` imports it into a tagrpo database and checks the content hash.

## Columns

- `id`, `question`, `answer` (gold), `level`, `subject`
{images}- `neighbors`, a list of
  - `id`, `text` - `proposer` (llm, rules, file), `strategy` with `strategy_hash` of its instruction, `model`
  - `verdict` (accepted, undecided, unverified, rejected) - `posterior`: probability that both ask the same
  problem, in sets from earlier versions; null in new sets - `reviewed`: whether a human decided - `likeness`:
  similarity to the question's wording, 0 to 1 (share of common words in the same order) - `question_right` of
  `question_drawn` answers by `solver` to the question are correct, and `neighbor_right` of
    `neighbor_drawn` answers to the neighbor; null if answers were not compared

## Counts

{sizes}

{verdicts}

{strategies}

Neighbors decided by a human: {reviewed:,}.

{successes}

## Acceptance rate

{rates}

## Provenance

{provenance}

All other settings (instructions, sampling, package versions) are in `tagrpo.json`.

## License

{license}
"""

_STATED = "`{}`, as stated by the publisher of this set."
_OTHER = (
    "Not stated by the publisher. Neighbors are derived from the questions, so the license of their "
    "source and the terms of the proposing model apply. Check both before using or sharing this set."
)
_IMAGES = "- `images` of the question and its neighbors; `<image>` in a text refers to them in order\n"


def write_card(
    path: Path, header: SetHeader, *, data: Path, memory_bytes: int, license_name: str, images: bool
) -> None:
    """Write a YAML header that `datasets` reads, then the card's text."""
    from datasets.info import DatasetInfo, DatasetInfosDict
    from datasets.splits import SplitDict, SplitInfo
    from huggingface_hub import DatasetCardData

    counts, file_bytes = header.counts, data.stat().st_size
    questions = int(counts["questions"])
    splits = SplitDict({"train": SplitInfo("train", num_bytes=memory_bytes, num_examples=questions)})
    info = DatasetInfo(
        features=features(images=images), splits=splits, download_size=file_bytes, dataset_size=memory_bytes
    )
    head = DatasetCardData(
        license=license_name,
        pretty_name=f"{header.name} v{header.version}",
        tags=["math", "reinforcement-learning", "grpo", "ta-grpo", "tagrpo"],
        task_categories=["text-generation"],
        size_categories=[next((name for limit, name in _SIZES if questions < limit), "n>1M")],
        configs=[{"config_name": "default", "data_files": [{"split": "train", "path": SPLIT_FILE}]}],
    )
    DatasetInfosDict({"default": info}).to_dataset_card_data(head)
    text = _TEXT.format(
        name=header.name,
        version=header.version,
        questions=questions,
        neighbors=counts["neighbors"],
        images=_IMAGES if images else "",
        verified=_verified(counts["neighbors_by_verdict"]),
        sizes=_table(("neighbors of a question", "questions"), counts["questions_by_neighbors"].items()),
        verdicts=_table(("verdict", "neighbors"), counts["neighbors_by_verdict"].items()),
        strategies=_table(("strategy", "neighbors"), counts["neighbors_by_strategy"].items()),
        reviewed=counts["reviewed"],
        successes=_successes(counts.get("successes")),
        rates=_rates(accept_rates(counts.get("proposals", []))),
        provenance=_provenance(header),
        license=_OTHER if license_name == OTHER_LICENSE else _STATED.format(license_name),
    )
    path.write_text(f"---\n{head.to_yaml()}\n---\n\n{text}", encoding="utf-8", newline="\n")


def _verified(verdicts: Mapping[str, int]) -> str:
    accepted, total = verdicts["accepted"], sum(verdicts.values())
    if accepted == total:
        return "All neighbors were accepted."
    rest = _list({name: count for name, count in verdicts.items() if count and name != "accepted"})
    warning = f"**Only {accepted:,} of {total:,} neighbors were accepted; the others: {rest}.**"
    if verdicts["unverified"]:
        warning += " For unverified neighbors, tagrpo did not compare answers."
    return warning


def _successes(successes: Mapping[str, Any] | None) -> str:
    if not successes:
        return "The solvers' success rates on questions and neighbors are unknown."
    parts = _list(successes["difficulty"])
    return (
        f"Success rates of {', '.join(successes['solvers'])}: {successes['neighbor_rate']:.1%} on "
        f"{successes['neighbors']:,} neighbors, {successes['question_rate']:.1%} on their questions. "
        f"Neighbors compared with their questions: {parts} (level: within one standard error)."
    )


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _rates(rates: Sequence[dict[str, Any]]) -> str:
    if not rates:
        return "Unknown: this database does not contain the set's run."
    rows = []
    for *counts, rate, low, high in map(dict.values, rates):
        share = "not measured" if rate is None else f"{rate:.1%} (95% interval {low:.1%} to {high:.1%})"
        rows.append((*counts, share))
    table = _table(("strategy", "accepted", "judged", "unverified", "acceptance rate"), rows)
    return f"{table}\n\nAcceptance rate: {RATE_DEFINITION}."


def _provenance(header: SetHeader) -> str:
    """Return where a version comes from: its hash, its runs with their settings, the selection."""
    settings = ("questions", "proposer", "model", "n", "rounds", "seed", "rule")
    facts: dict[str, Any] = {
        **{name: getattr(header, name) for name in ("content_hash", "id", "parent_id", "created_at")},
        "runs": [
            {
                **{name: run[name] for name in ("name", "id")},
                **{name: run["spec"][name] for name in settings if name in run["spec"]},
                "solvers": list(map(solver_name, run["spec"].get("solvers", ()))),
                "strategies": [
                    {name: strategy.get(name) for name in ("name", "version", "hash")}
                    for strategy in run["spec"].get("strategies", ())
                ],
            }
            for run in header.runs
        ],
        **{name: header.spec[name] for name in ("import", "publish") if name in header.spec},
    }
    return f"```json\n{json.dumps(facts, indent=2, ensure_ascii=False)}\n```"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = []
    for cells in (columns, ["---"] * len(columns), *rows):
        texts = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        lines.append("| " + " | ".join(" ".join(text.split()).replace("|", "\\|") for text in texts) + " |")
    return "\n".join(lines)
