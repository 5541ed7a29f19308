"""The row of an export: a question with its neighbors; its types, and the manifest of the rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from rephraser.checks.wording import likeness_of_words, wording
from rephraser.reviews.status import STATUSES
from rephraser.sets.types import Neighbor, SetEntry, SetHeader, canonical_posterior
from rephraser.tables import candidate_id
from rephraser.verdict.successes import from_columns, to_columns
from service.answer_kinds import AnswerKind
from service.errors import InputError
from service.hashing import canonical_text
from service.questions import make_question
from service.questions.images import ImageProblem, RowImages
from service.runs.store import package_versions

FORMAT = "tagrpo neighbor set"
FORMAT_VERSION = 1
MANIFEST_NAME = "tagrpo.json"
NEIGHBOR_TEXTS = ("text", "proposer", "strategy", "strategy_hash", "model", "verdict")


def to_row(entry: SetEntry, images: Sequence[Any] | None = None) -> dict[str, Any]:
    """Return the exported row of a question; it contains the ids and everything that the hashes cover.

    `images` are its images in the export's form; None leaves the column out.
    """
    question = entry.question
    words = wording(question.text)
    return {
        "id": question.id,
        "question": question.text,
        "answer": question.answer,
        "level": question.level,
        "subject": question.subject,
        "kind": str(question.kind),
        **({} if images is None else {"images": [*images]}),
        "neighbors": [
            {
                "id": neighbor.candidate_id,
                **{key: getattr(neighbor, key) for key in NEIGHBOR_TEXTS},
                "posterior": neighbor.posterior,
                "reviewed": neighbor.reviewed,
                "likeness": likeness_of_words(words, wording(neighbor.text)),
                **to_columns(neighbor.successes),
            }
            for neighbor in entry.neighbors
        ],
    }


def features(*, images: bool = False) -> Any:
    """Return `datasets.Features` of an exported row: ids, texts, a list of neighbors with typed fields.

    Sets of questions with `images` have a column for them too.
    """
    from datasets import Features, Image, List, Value

    text, count = Value("string"), Value("int64")
    return Features(
        {
            "id": text,
            "question": text,
            "answer": text,
            "level": text,
            "subject": text,
            "kind": text,
            **({"images": List(Image())} if images else {}),
            "neighbors": List(
                {
                    "id": text,
                    "text": text,
                    "proposer": text,
                    "strategy": text,
                    "strategy_hash": text,
                    "model": text,
                    "verdict": text,
                    "posterior": Value("float64"),
                    "reviewed": Value("bool"),
                    "likeness": Value("float64"),
                    "solver": text,
                    "question_right": count,
                    "question_drawn": count,
                    "neighbor_right": count,
                    "neighbor_drawn": count,
                }
            ),
        }
    )


def from_row(row: Mapping[str, Any], *, place: str, images: RowImages) -> SetEntry:
    """Return the entry of an exported row. Ids are recomputed; those in the row are ignored.

    Args:
        place: file and row, for messages.
        images: stores the images of the row.

    Raises:
        InputError: a field is missing or of the wrong type, a verdict is unknown, or an image cannot be used.
    """
    text, answer = _filled(row, "question", place), _text(row, "answer", place)
    question = make_question(
        text,
        answer,
        _text_or_none(row, "level", place),
        _text_or_none(row, "subject", place),
        _kind(row, place),
        _images(row, place, images),
    )
    neighbors = row.get("neighbors")
    if not isinstance(neighbors, Sequence) or isinstance(neighbors, str):
        raise InputError(f'{place}: "neighbors" is {neighbors!r}. Give a list, [] if there are none.')
    return SetEntry(
        question,
        tuple(
            _neighbor(neighbor, question.id, place=f"{place}, neighbor {number}")
            for number, neighbor in enumerate(neighbors, start=1)
        ),
    )


def _images(row: Mapping[str, Any], place: str, images: RowImages) -> tuple[str, ...]:
    try:
        return images.take(row.get("images"))
    except ImageProblem as problem:
        raise InputError(f'{place}: "images": {problem}.') from problem


def manifest(header: SetHeader, *, license_name: str) -> dict[str, Any]:
    """Return the manifest of an export: the version, its hash, spec and counts, and its writer."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": header.name,
        "version": header.version,
        "id": header.id,
        "parent_id": header.parent_id,
        "content_hash": header.content_hash,
        "created_at": header.created_at,
        "license": license_name,
        "spec": header.spec,
        "counts": header.counts,
        "exported_with": package_versions(),
    }


def check_manifest(value: object, *, place: str) -> dict[str, Any]:
    """Return a manifest that this tagrpo can read.

    Raises:
        InputError: not a tagrpo manifest, or one of a newer format.
    """
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError(f"{place}: not the manifest of an exported neighbor set.")
    version = value.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{place}: format version {version!r}, but this tagrpo reads only up to {FORMAT_VERSION}. "
            "Upgrade tagrpo."
        )
    objects = [value.get("spec"), value.get("counts", {})]
    if not isinstance(value.get("content_hash"), str) or not all(isinstance(part, dict) for part in objects):
        raise InputError(f"{place}: the manifest has no content hash, no spec or no counts.")
    return value


def _neighbor(value: object, parent: str, *, place: str) -> Neighbor:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {value!r} is not an object with text, strategy, verdict, ...")
    texts = {key: _text(value, key, place) for key in NEIGHBOR_TEXTS}
    texts["text"] = canonical_text(_filled(value, "text", place))
    if texts["verdict"] not in STATUSES:
        raise InputError(f'{place}: "verdict" is {texts["verdict"]!r}. Choose one of {", ".join(STATUSES)}.')
    posterior, reviewed = value.get("posterior"), value.get("reviewed")
    number = isinstance(posterior, int | float) and not isinstance(posterior, bool)
    if posterior is not None and not (number and 0 <= posterior <= 1):
        raise InputError(f'{place}: "posterior" is {posterior!r}. Give a number between 0 and 1, or null.')
    if not isinstance(reviewed, bool):
        raise InputError(f'{place}: "reviewed" is {reviewed!r}. Give true or false.')
    return Neighbor(
        candidate_id=candidate_id(parent, texts["text"]),
        posterior=canonical_posterior(posterior),
        reviewed=reviewed,
        successes=from_columns(value, place),
        **texts,
    )


def _kind(row: Mapping[str, Any], place: str) -> AnswerKind:
    """The kind of a question; sets exported without one contain mathematics."""
    name = _text_or_none(row, "kind", place)
    try:
        return AnswerKind.LATEX if name is None else AnswerKind(name)
    except ValueError:
        raise InputError(f'{place}: "kind" is {name!r}. Choose one of {", ".join(AnswerKind)}.') from None


def _text(row: Mapping[str, Any], key: str, place: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise InputError(f'{place}: "{key}" is {value!r}. Give a string.')
    return value


def _filled(row: Mapping[str, Any], key: str, place: str) -> str:
    text = _text(row, key, place)
    if not canonical_text(text):
        raise InputError(f'{place}: "{key}" is empty.')
    return text


def _text_or_none(row: Mapping[str, Any], key: str, place: str) -> str | None:
    return None if row.get(key) is None else _text(row, key, place)
