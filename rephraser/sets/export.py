"""Export of a version: JSON Lines, parquet, or a Hugging Face dataset with its card (`card.md`)."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from rephraser.checks.text import likeness
from rephraser.sets.store import RATE_DEFINITION, accept_rates, load_set
from rephraser.sets.types import SetEntry, SetHeader, set_hash
from rephraser.verdict.successes import COUNTS, solver_name
from service.database import Database
from service.errors import DatabaseError, InputError
from service.questions.images import Image, LoadImages, data_address, image_loader, parquet_cell
from service.runs.store import package_versions
from service.writing import check_file_target, check_folder_target, write_file, write_folder, write_rows

FORMAT = "tagrpo neighbor set"
FORMAT_VERSION = 1
MANIFEST_NAME = "tagrpo.json"
NEIGHBOR_TEXTS = ("text", "proposer", "strategy", "strategy_hash", "model", "verdict")
SPLIT_FILE = "data/train-00000-of-00001.parquet"
MANIFEST_KEY = b"tagrpo"
_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,49}")
OTHER_LICENSE = "other"


def export_set(
    db: Database,
    reference: str,
    target: Path,
    form: Literal["hf", "jsonl", "parquet"],
    *,
    license_name: str = OTHER_LICENSE,
    overwrite: bool = False,
) -> SetHeader:
    """Write a set, one row per question, and return its header.

    `hf` is a folder that `datasets.load_dataset(TARGET)` reads without a network: typed parquet, a card, the
    manifest. The other forms are one file; the manifest is stored in a parquet file's schema, or for JSON
    Lines in `TARGET.tagrpo.json`. A set whose members do not match its hash is refused.
    """
    if not _LICENSE.fullmatch(license_name):
        raise InputError(
            f"{license_name!r} is not a license identifier. Use a Hub name: mit, cc-by-4.0, other."
        )
    if form == "hf":
        check_folder_target(target, overwrite=overwrite, mark=MANIFEST_NAME)
    for path in {"hf": (), "parquet": (target,), "jsonl": (manifest_path(target), target)}[form]:
        check_file_target(path, overwrite=overwrite)
    with db.read() as session:
        whole = load_set(session, reference)
    header, entries = whole.header, whole.entries
    if set_hash(entries) != header.content_hash:
        raise DatabaseError(
            f"{header.ref}: its members do not match its hash. `tagrpo sets show {header.ref} --verify` "
            "reports the differences."
        )
    described, load = _manifest_text(header, license_name), image_loader(db)

    def write_hf(folder: Path) -> None:
        (folder / SPLIT_FILE).parent.mkdir()
        _write_parquet(folder / SPLIT_FILE, entries, described, load)
        _write_text(folder / MANIFEST_NAME, described)
        _write_text(folder / "README.md", _card(header, license_name, images=_pictured(entries)))

    if form == "hf":
        write_folder(target, write_hf, overwrite=overwrite, mark=MANIFEST_NAME)
    elif form == "parquet":
        write_file(target, lambda path: _write_parquet(path, entries, described, load), overwrite=overwrite)
    else:
        write_file(manifest_path(target), lambda path: _write_text(path, described), overwrite=overwrite)
        write_file(target, lambda path: _write_jsonl(path, entries, load), overwrite=overwrite)
    return header


def manifest_path(target: Path) -> Path:
    """Return the path of a JSON Lines export's manifest."""
    return target.with_name(f"{target.name}.{MANIFEST_NAME}")


def features(*, images: bool = False) -> Any:
    """Return `datasets.Features` of an exported row; questions with `images` have a column for them."""
    from datasets import Features, Image, List, Value

    text, count = Value("string"), Value("int64")
    neighbor = {
        **dict.fromkeys(("id", *NEIGHBOR_TEXTS), text),
        "posterior": Value("float64"),
        "reviewed": Value("bool"),
        "likeness": Value("float64"),
        "solver": text,
        **dict.fromkeys(COUNTS, count),
    }
    return Features(
        {
            **dict.fromkeys(("id", "question", "answer", "level", "subject", "kind"), text),
            **({"images": List(Image())} if images else {}),
            "neighbors": List(neighbor),
        }
    )


def _pictured(entries: Sequence[SetEntry]) -> bool:
    return any(entry.question.images for entry in entries)


def _rows(
    entries: Sequence[SetEntry], load: LoadImages, to_cell: Callable[[Image], Any]
) -> Iterator[dict[str, Any]]:
    """Yield the exported row of each question, with the ids and everything that the hashes cover."""
    pictured = _pictured(entries)
    for entry in entries:
        question, ids = entry.question, entry.question.images
        images = load(ids) if ids else {}
        yield {
            "id": question.id,
            "question": question.text,
            **{name: getattr(question, name) for name in ("answer", "level", "subject")},
            "kind": str(question.kind),
            **({"images": [to_cell(images[id]) for id in ids]} if pictured else {}),
            "neighbors": [
                {
                    "id": neighbor.candidate_id,
                    **{key: getattr(neighbor, key) for key in NEIGHBOR_TEXTS},
                    "posterior": neighbor.posterior,
                    "reviewed": neighbor.reviewed,
                    "likeness": likeness(question.text, neighbor.text),
                    **{name: getattr(neighbor.successes, name, None) for name in ("solver", *COUNTS)},
                }
                for neighbor in entry.neighbors
            ],
        }


def _write_jsonl(path: Path, entries: Sequence[SetEntry], load: LoadImages) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in _rows(entries, load, data_address):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_parquet(path: Path, entries: Sequence[SetEntry], described: str, load: LoadImages) -> None:
    schema: Any = features(images=_pictured(entries)).arrow_schema
    schema = schema.with_metadata({**schema.metadata, MANIFEST_KEY: described.encode()})
    write_rows(path, schema, _rows(entries, load, parquet_cell))


def _manifest_text(header: SetHeader, license_name: str) -> str:
    """Return the manifest of an export: the version, its hash, spec and counts, and its writer."""
    names = ("name", "version", "id", "parent_id", "content_hash", "created_at", "spec", "counts")
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **{name: getattr(header, name) for name in names},
        "license": license_name,
        "exported_with": package_versions(),
    }
    return json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_STATED = "`{}`, as stated by the publisher of this set."
_OTHER = (
    "Not stated by the publisher. Neighbors are derived from the questions, so the license of their "
    "source and the terms of the proposing model apply. Check both before using or sharing this set."
)
_IMAGES = "- `images` of the question and its neighbors; `<image>` in a text refers to them in order\n"


def _card(header: SetHeader, license_name: str, *, images: bool) -> str:
    """Return a YAML header that `datasets` reads, then the card's text."""
    from huggingface_hub import DatasetCardData

    counts, questions = header.counts, int(header.counts["questions"])
    head = DatasetCardData(
        license=license_name,
        pretty_name=f"{header.name} v{header.version}",
        tags=["math", "reinforcement-learning", "grpo", "ta-grpo", "tagrpo"],
        task_categories=["text-generation"],
        size_categories=[next((name for limit, name in _SIZES if questions < limit), "n>1M")],
        configs=[{"config_name": "default", "data_files": [{"split": "train", "path": SPLIT_FILE}]}],
    )
    template = resources.files("rephraser.sets").joinpath("card.md").read_text(encoding="utf-8")
    text = template.format(
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
    return f"---\n{head.to_yaml()}\n---\n\n{text}"


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
