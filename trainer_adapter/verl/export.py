"""Exporting a neighbor set as the parquet that verl trains on, with a manifest; reading its rows.

Stock verl reads `data_source`, `prompt`, `reward_model` and `extra_info` and passes every other column to the
agent loop. It makes up a new `uid` for each row, so that a joint group has to be one row ("grouped").
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evaluator.grading import AnswerKind, GradeValue
from evaluator.grading.compare import judge, read_tolerance
from evaluator.grading.types import NEEDS_ALGEBRA
from rephraser.sets.store import load_set
from rephraser.sets.types import NeighborSet, SetEntry, select_strategies
from rephraser.verdict.successes import COUNTS
from service.database import Database
from service.errors import InputError
from service.hashing import content_hash as hash_of
from service.hashing import file_sha256
from service.questions.images import LoadImages, image_loader
from service.runs.store import package_versions
from service.writing import check_folder_target, write_folder, write_rows
from trainer_adapter.verl.export_config import DATA_SOURCE, SetRows, VerlExportConfig
from trainer_adapter.verl.prompts import Message, PromptTemplate, prompt_counter

FORMAT = "tagrpo verl export"
FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
TRAIN_NAME = "train.parquet"
VALIDATION_NAME = "validation.parquet"
_QUESTIONS_AT_ONCE = 500

Layout = Literal["grouped", "flat"]
Row = dict[str, Any]
ABILITY = "math"


@dataclass(frozen=True)
class AnswerForm:
    """How the answers of a set are graded in training: their kind, and how far a number may be off."""

    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None

    def __post_init__(self) -> None:
        if self.tolerance is None:
            return
        if self.kind is not AnswerKind.TOLERANCE:
            raise InputError(f"tolerance {self.tolerance}: only the answer kind tolerance uses a tolerance.")
        read_tolerance(self.tolerance)

    def check(self, gold: str, place: str) -> None:
        """Raise unless `gold` is an answer of this kind."""
        if self.kind is AnswerKind.CODE:
            return  # tests are run where questions are imported
        outcome = judge(gold, gold, self.kind, self.tolerance)
        if outcome.value is not GradeValue.CORRECT and outcome is not NEEDS_ALGEBRA:
            raise InputError(f"{place}: its answer {gold!r} is not a valid {self.kind} ({outcome.reason}).")


def export_set(
    database: Database, config: VerlExportConfig, directory: Path, *, overwrite: bool = False
) -> dict[str, Any]:
    """Export a published set as its config says; return the manifest."""
    with database.read() as session:
        published = load_set(session, config.set)
    return export_verl(
        published,
        directory,
        config,
        config.template(),
        layout=config.layout,
        data_source=config.data_source,
        load_images=image_loader(database),
        overwrite=overwrite,
    )


def export_verl(
    published: NeighborSet,
    directory: Path,
    rows: SetRows,
    template: PromptTemplate,
    *,
    layout: Layout = "grouped",
    data_source: str = DATA_SOURCE,
    load_images: LoadImages,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write `train.parquet`, `manifest.json` and, if asked, `validation.parquet`; return the manifest.

    Neighbors whose prompt is over the limit are left out, and so are questions whose own prompt is, with all
    their neighbors; verl would cut long neighbors from the left. All files appear at once or not at all.

    Args:
        rows: what to export, and how answers are graded. Questions that are held back go into
            `validation.parquet`, without neighbors; always the same ones for the same questions.
        layout: "grouped" has one row per question with its neighbors inside, for joint groups; "flat" has one
            row per prompt, for any trainer that reads chat messages (stock verl, TRL).
        data_source: stock verl picks its reward function by this name.
        load_images: gives the images of questions that have some. Their tokens are not counted.
    """
    set_ref, answers = published.header.ref, rows.answers
    check_folder_target(directory, overwrite=overwrite, mark=MANIFEST_NAME)
    chosen = select_strategies(_checked(published.entries, set_ref, answers), rows.strategies, set_ref)
    kept, fitted = _fit(chosen, template)
    if not kept:
        shortest = min(dropped["tokens"] for dropped in fitted["dropped_questions"])
        raise InputError(
            f"{set_ref}: every prompt is longer than {template.max_prompt_tokens} tokens (the shortest has "
            f"{shortest}). Raise the limit."
        )
    training, validation = _split(kept, rows.validation_share)
    splits = {TRAIN_NAME: training} | ({VALIDATION_NAME: validation} if validation else {})
    neighbors = [neighbor for entry in training for neighbor in entry.neighbors]
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "set": set_ref,
        "content_hash": published.header.content_hash,
        "data_source": data_source,
        **({"strategies": sorted(rows.strategies)} if rows.strategies else {}),
        "layout": layout,
        "prompt": {**vars(template), "chat_template_kwargs": dict(template.chat_template_kwargs)},
        "answers": asdict(answers),
        "prompt_lengths": "estimated" if template.tokenizer is None else "tokenizer",
        "counts": {
            "questions": len(training),
            "validation_questions": len(validation),  # without neighbors, so these are of the training file:
            "neighbors": len(neighbors),
            "rows": len(training) + (len(neighbors) if layout == "flat" else 0),
            "verdicts": dict(sorted(Counter(neighbor.verdict for neighbor in neighbors).items())),
            "neighbors_per_question": dict(sorted(Counter(len(each.neighbors) for each in training).items())),
            **fitted,
        },
        "sha256": {},
        "exported_with": package_versions(),
    }

    def write(folder: Path) -> None:
        for name, members in splits.items():
            place = {
                "data_source": data_source,
                "set": set_ref,
                "split": name.removesuffix(".parquet"),
                "answer_kind": answers.kind.value,
                "tolerance": answers.tolerance,
            }
            _write_parquet(folder / name, members, layout, template, place, load_images)
            manifest["sha256"][name] = file_sha256(folder / name)
        text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
        (folder / MANIFEST_NAME).write_text(text, encoding="utf-8", newline="\n")

    write_folder(directory, write, overwrite=overwrite, mark=MANIFEST_NAME)
    return manifest


def _checked(entries: Sequence[SetEntry], set_ref: str, answers: AnswerForm) -> Sequence[SetEntry]:
    if not entries:
        raise InputError(f"{set_ref}: the set has no questions to train on.")
    for entry in entries:
        if not entry.question.answer:
            raise InputError(
                f"{set_ref}: question {entry.question.id} has no answer, so it cannot be rewarded."
            )
        form = AnswerForm(AnswerKind.CODE) if entry.question.kind is AnswerKind.CODE else answers
        form.check(entry.question.answer, f"{set_ref}: question {entry.question.id}")
    return entries


def _fit(entries: Sequence[SetEntry], template: PromptTemplate) -> tuple[list[SetEntry], dict[str, Any]]:
    """Return the entries without prompts over the limit, and the manifest's counts of those prompts."""
    count, limit = prompt_counter(template), template.max_prompt_tokens
    kept: list[SetEntry] = []
    long_neighbors: list[dict[str, Any]] = []
    long_questions: list[dict[str, Any]] = []
    lost, longest = 0, 0
    for start in range(0, len(entries), _QUESTIONS_AT_ONCE):
        batch = entries[start : start + _QUESTIONS_AT_ONCE]
        prompts = [
            template.asking_for(entry.question.kind).messages(text)
            for entry in batch
            for text in (entry.question.text, *(n.text for n in entry.neighbors))
        ]
        lengths = iter(count(prompts))
        for entry in batch:
            tokens, identity = next(lengths), entry.question.id
            around = [(neighbor, next(lengths)) for neighbor in entry.neighbors]
            if tokens > limit:
                long_questions.append({"question_id": identity, "neighbor_id": None, "tokens": tokens})
                lost += len(around)
                continue
            short = [(neighbor, size) for neighbor, size in around if size <= limit]
            long_neighbors += [
                {"question_id": identity, "neighbor_id": neighbor.candidate_id, "tokens": size}
                for neighbor, size in around
                if size > limit
            ]
            kept.append(replace(entry, neighbors=tuple(neighbor for neighbor, _ in short)))
            longest = max(longest, tokens, *(size for _, size in short))
    return kept, {
        "dropped_neighbors": long_neighbors,
        "dropped_questions": long_questions,
        "neighbors_of_dropped_questions": lost,
        "longest_prompt": longest,
    }


def validation_size(share: float, questions: int) -> int:
    """Return how many of so many questions a validation share holds back: at least one, none for 0."""
    return max(1, round(share * questions)) if share else 0


def _split(entries: Sequence[SetEntry], share: float) -> tuple[list[SetEntry], list[SetEntry]]:
    """Return training and validation entries; a question's place among the others is a hash of its id."""
    if share == 0:
        return list(entries), []
    size = validation_size(share, len(entries))
    if size >= len(entries):
        raise InputError(
            f"a validation share of {share} leaves none of {len(entries)} questions for training. Lower it."
        )
    drawn = sorted(
        (entry.question.id for entry in entries), key=lambda identity: hash_of("validation", identity)
    )
    held_back = set(drawn[:size])
    training = [entry for entry in entries if entry.question.id not in held_back]
    validation = [replace(entry, neighbors=()) for entry in entries if entry.question.id in held_back]
    return training, validation


def _write_parquet(
    path: Path,
    entries: Sequence[SetEntry],
    layout: Layout,
    template: PromptTemplate,
    place: Mapping[str, str | None],
    load_images: LoadImages,
) -> None:
    with_images = any(entry.question.images for entry in entries)

    def rows() -> Iterator[Row]:
        index = 0
        for entry in entries:
            ids = entry.question.images
            pictures = load_images(ids) if with_images else {}
            for row in ROWS[layout](entry, template, place):
                row["extra_info"]["index"] = index
                index += 1
                if with_images:
                    row["images"] = [{"bytes": pictures[id].data, "path": None} for id in ids]
                yield row

    write_rows(path, schema(layout, images=with_images), rows())


def grouped_rows(entry: SetEntry, template: PromptTemplate, place: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield one row: the question as `prompt`, its neighbors' prompts in `neighbors` (there may be none)."""
    template = template.asking_for(entry.question.kind)
    row = _row(entry, entry.question.text, template, place)
    row["neighbors"] = [template.messages(neighbor.text) for neighbor in entry.neighbors]
    row["neighbor_ids"] = [neighbor.candidate_id for neighbor in entry.neighbors]
    row["extra_info"] |= {
        "neighbor_strategies": [neighbor.strategy for neighbor in entry.neighbors],
        "neighbor_verdicts": [neighbor.verdict for neighbor in entry.neighbors],
        "neighbor_successes": [each.successes and vars(each.successes) for each in entry.neighbors],
    }
    yield row


def flat_rows(entry: SetEntry, template: PromptTemplate, place: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield a row for the question (variant 0) and one for each neighbor (variants 1, 2, ...)."""
    template = template.asking_for(entry.question.kind)
    row = _row(entry, entry.question.text, template, place)
    row["extra_info"] |= {"variant": 0, **dict.fromkeys(("neighbor_id", "strategy", "verdict", "successes"))}
    yield row
    for variant, neighbor in enumerate(entry.neighbors, start=1):
        row = _row(entry, neighbor.text, template, place)
        row["extra_info"] |= {
            "variant": variant,
            "neighbor_id": neighbor.candidate_id,
            "strategy": neighbor.strategy,
            "verdict": neighbor.verdict,
            "successes": neighbor.successes and vars(neighbor.successes),
        }
        yield row


ROWS: dict[Layout, Callable[[SetEntry, PromptTemplate, Mapping[str, str | None]], Iterator[Row]]] = {
    "grouped": grouped_rows,
    "flat": flat_rows,
}


def read_rows(file: Path, at_once: int, *, images: bool = False) -> Iterator[list[Row]]:
    """Yield what the rows of a file ask, some at a time; a flat file has no column of neighbors."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        names = ("prompt", "neighbors", "neighbor_ids", "extra_info", *(("images",) if images else ()))
        columns = [name for name in names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(at_once, columns=columns):
            yield batch.to_pylist()


def prompts_of(row: Row, neighbors: int) -> Iterator[tuple[str, list[Message]]]:
    """Yield name and messages of a row's prompts: its own, and those of so many neighbors."""
    about = row.get("extra_info") or {}
    question = f"question {about.get('question_id')}"
    own = about.get("neighbor_id")
    yield question if own is None else f"neighbor {own} of {question}", row["prompt"]
    around = zip(row.get("neighbors") or (), row.get("neighbor_ids") or (), strict=True)
    for _, (messages, identity) in zip(range(neighbors), around, strict=False):
        yield f"neighbor {identity} of {question}", messages


def schema(layout: Layout, *, images: bool = False) -> Any:
    """Return the pyarrow schema of a layout; it is the same whether or not any question has neighbors.

    Where any question has images there is a column of them, empty for the others.
    """
    import pyarrow as pa

    text = pa.string()
    messages = pa.list_(pa.struct([("role", text), ("content", text)]))
    counts = pa.struct([("solver", text), *((name, pa.int64()) for name in COUNTS)])
    about = [
        ("index", pa.int64()),
        *(
            (name, text)
            for name in ("question_id", "set", "split", "level", "subject", "answer_kind", "tolerance")
        ),
    ]
    columns = [
        ("data_source", text),
        ("prompt", messages),
        ("ability", text),
        ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
    ]
    if layout == "grouped":
        columns += [("neighbors", pa.list_(messages)), ("neighbor_ids", pa.list_(text))]
        about += [("neighbor_strategies", pa.list_(text)), ("neighbor_verdicts", pa.list_(text))]
        about += [("neighbor_successes", pa.list_(counts))]
    else:
        about += [("variant", pa.int64()), ("neighbor_id", text), ("strategy", text), ("verdict", text)]
        about += [("successes", counts)]
    if images:
        columns += [("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", text)])))]
    return pa.schema([*columns, ("extra_info", pa.struct(about))])


def _row(entry: SetEntry, text: str, template: PromptTemplate, place: Mapping[str, str | None]) -> Row:
    question = entry.question
    return {
        "data_source": place["data_source"],
        "prompt": template.messages(text),
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": question.answer},
        "extra_info": {
            "question_id": question.id,
            "set": place["set"],
            "split": place["split"],
            "level": question.level,
            "subject": question.subject,
            "answer_kind": str(question.kind) if question.kind is AnswerKind.CODE else place["answer_kind"],
            "tolerance": place.get("tolerance"),
        },
    }
