"""Import of an export: the same members, and so the same content hash, in any database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from sqlalchemy.orm import Session

from rephraser.candidates import candidate_id, candidate_row
from rephraser.questions.store import load_questions, store_questions
from rephraser.sets.export import FORMAT_VERSION, MANIFEST_KEY, MANIFEST_NAME, SPLIT_FILE, manifest_path
from rephraser.sets.store import count_members, write_set
from rephraser.sets.types import Neighbor, PublishedSet, SetEntry, canonical_posterior, set_hash
from rephraser.tables import CandidateRow
from rephraser.verdict.successes import COUNTS, Successes
from service.answer_kinds import AnswerKind
from service.database import Database, upsert
from service.errors import InputError
from service.hashing import canonical_text
from service.questions import hub
from service.questions.files import read_objects
from service.questions.images import ImageProblem, RowImages, store_images
from service.questions.question import Question, make_question
from service.runs.store import check_name

Filled = Annotated[str, AfterValidator(canonical_text), Field(min_length=1)]


class _NeighborOfRow(BaseModel):
    text: Filled
    proposer: str
    strategy: str
    strategy_hash: str
    model: str
    verdict: Literal["accepted", "undecided", "unverified", "rejected"]
    posterior: Annotated[float | None, Field(ge=0, le=1), AfterValidator(canonical_posterior)] = None
    reviewed: bool
    successes: Successes | None = None

    @model_validator(mode="before")
    @classmethod
    def _join_counts(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("solver") is not None:
            return {**value, "successes": {name: value.get(name) for name in ("solver", *COUNTS)}}
        return value


class _ExportedRow(BaseModel):
    question: Filled
    answer: str
    level: str | None = None
    subject: str | None = None
    kind: AnswerKind | None = None  # sets exported without one are mathematics
    neighbors: list[_NeighborOfRow]


class _Manifest(BaseModel):
    format: Literal["tagrpo neighbor set"]
    format_version: int = Field(le=FORMAT_VERSION)
    name: str | None = None
    version: int | None = None
    id: str | None = None
    content_hash: str
    spec: dict[str, Any]
    counts: dict[str, Any] = {}


@dataclass(frozen=True)
class ReadSet:
    """A set as `read_set` found it. `edited`: its rows are not those that its manifest describes."""

    path: Path
    entries: Sequence[SetEntry]
    manifest: _Manifest | None
    edited: bool
    images: RowImages


def import_set(db: Database, read: ReadSet, name: str) -> PublishedSet:
    """Publish an exported set as the next version of `name`, with the same content hash.

    Missing questions and candidates are added; a question that has another level or subject here is refused.
    The counts of the run's proposals are left out if the rows were edited.
    """
    check_name(name)
    entries, described = read.entries, read.manifest
    origin: dict[str, Any] = {"file": read.path.name, "edited": read.edited}
    spec: Mapping[str, Any] = {"import": origin}
    counts: dict[str, Any] = {"questions_left_out": 0, "proposals": []}
    if described is not None:
        origin |= {key: getattr(described, key) for key in ("name", "version", "id", "content_hash")}
        spec = {**described.spec, "import": origin}
        if not read.edited:
            carried = [*counts, "too_like", "duplicates", "contradicted", "adaptive"]
            counts |= {key: described.counts[key] for key in carried if key in described.counts}
    with db.write() as session:
        store_images(session, read.images.read(id for entry in entries for id in entry.question.images))
        _store_questions(session, [entry.question for entry in entries], read.path)
        rows = [
            candidate_row(entry.question, neighbor.text) for entry in entries for neighbor in entry.neighbors
        ]
        if rows:
            session.execute(upsert(CandidateRow).on_conflict_do_nothing(), rows)
        return write_set(session, name, entries, spec=spec, counts=counts)


def read_published(source: str, revision: str | None = None) -> list[SetEntry]:
    """Return the questions of an exported set with their neighbors, without a database.

    `source` is a file or folder of `tagrpo sets export`, or the Hub dataset to which one was pushed. Rows
    that do not match their hash are refused.
    """
    path = Path(source).expanduser()
    if path.exists() or not hub.is_id(source):
        if revision is not None:
            raise InputError(f"{source}: a revision applies to Hub datasets only. Remove it.")
    else:
        path = hub.fetch_files(source, [SPLIT_FILE, MANIFEST_NAME], revision)
    return list(read_set(path).entries)


def read_set(path: Path, *, accept_changes: bool = False) -> ReadSet:
    """Read an exported set: a folder, `.parquet` or `.jsonl`. A file without a manifest is taken as it is.

    Edited rows are refused unless `accept_changes`.
    """
    images = RowImages()
    rows, described = _read_export(path)
    seen: dict[str, int] = {}
    entries = []
    for number, row in enumerate(rows, start=1):
        place = f"{path}: row {number}"
        entry = _read_entry(row, place, images)
        if (first := seen.setdefault(entry.question.id, number)) != number:
            raise InputError(f"{place}: repeats the question of row {first}. Give each question once.")
        if len({neighbor.candidate_id for neighbor in entry.neighbors}) < len(entry.neighbors):
            raise InputError(f"{place}: two neighbors have the same text. Give each once.")
        entries.append(entry)
    if not entries:
        raise InputError(f"{path}: contains no rows.")
    content, successes = set_hash(entries), count_members(entries).get("successes")
    edited = described is not None and (
        (described.content_hash, described.counts.get("successes")) != (content, successes)
    )
    if described is not None and edited and not accept_changes:
        raise InputError(
            f"{path}: the hash of its rows is {content}, but its manifest has {described.content_hash}, "
            "or their success counts differ. The rows changed after the export. Export again, or accept the "
            "changes with `tagrpo sets import --accept-changes`."
        )
    return ReadSet(path, entries, described, edited, images)


def _read_export(path: Path) -> tuple[list[dict[str, Any]], _Manifest | None]:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    described = path / MANIFEST_NAME if path.is_dir() else manifest_path(path)
    if path.is_dir():
        if not described.is_file():
            raise InputError(
                f"{path}: contains no {MANIFEST_NAME}, so it is not an export of a neighbor set."
            )
        rows, _ = _read_parquet(path / SPLIT_FILE)
    elif path.suffix == ".parquet":
        rows, text = _read_parquet(path)
        return rows, None if text is None else _read_manifest(text, path)
    elif path.suffix in {".jsonl", ".json"}:
        rows = [row for _, row in read_objects(path)]
    else:
        raise InputError(f"{path}: not an export. Give a folder, a .parquet or a .jsonl file.")
    return rows, _read_manifest(described.read_bytes(), described) if described.is_file() else None


def _read_parquet(path: Path) -> tuple[list[dict[str, Any]], bytes | None]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: not a readable parquet file ({error}).") from error
    return table.to_pylist(), (table.schema.metadata or {}).get(MANIFEST_KEY)


def _read_manifest(text: bytes, path: Path) -> _Manifest:
    try:
        return _Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise InputError(
            f"{path}: not a manifest of a neighbor set that this tagrpo reads. {where}: {first['msg']}."
        ) from error


def _read_entry(values: dict[str, Any], place: str, images: RowImages) -> SetEntry:
    """Return the entry of an exported row. Ids are recomputed; those in the row are ignored."""
    try:
        row = _ExportedRow.model_validate(values)
        ids, kind = images.take(values.get("images")), row.kind or AnswerKind.LATEX
        question = make_question(row.question, row.answer, row.level, row.subject, kind, ids)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["loc"][0] == "neighbors" and len(first["loc"]) > 1:
            place += f", neighbor {int(first['loc'][1]) + 1}"
        raise InputError(f'{place}: "{first["loc"][-1]}" is {first["input"]!r}: {first["msg"]}.') from error
    except ImageProblem as problem:
        raise InputError(f'{place}: "images": {problem}.') from problem
    neighbors = (Neighbor(candidate_id(question.id, each.text), **vars(each)) for each in row.neighbors)
    return SetEntry(question, tuple(neighbors))


def _store_questions(session: Session, questions: Sequence[Question], path: Path) -> None:
    stored = load_questions(session, [question.id for question in questions])
    for number, question in enumerate(questions, start=1):
        there = stored.get(question.id, question)
        if (there.level, there.subject) != (question.level, question.subject):
            raise InputError(
                f"{path}: row {number}: question {question.id} has level {question.level!r} and subject "
                f"{question.subject!r}, but {there.level!r} and {there.subject!r} in this database. "
                "Questions never change, and the set's hash covers both. Import into another one (--db)."
            )
    store_questions(session, questions)
