"""Logs of inspect_ai: zip files of a JSON object a sample (`.eval`), or one JSON object (`.json`).

Its own reader looks through the whole directory of the zip for every sample, which takes hours from some
100,000 samples on; here it is read once. What is taken of a sample is what its documentation names.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import zstandard

from evaluator.exchange.files import OutsideResponse, ResponseFile, read_score, stop_word, with_thought
from evaluator.grading import AnswerKind
from service.errors import InputError
from service.hashing import file_sha256
from service.questions.images import PLACEHOLDER

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEADERS = ("header.json", "_journal/start.json")
"""Where a log says what it is: the second alone in one that was not finished."""

_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "reasoning_effort", "system_message")
_ATTACHED = "attachment://"
_ZSTD = 93
_LOCAL_HEADER = 30

_UNREADABLE = (
    struct.error,
    *(BadZipFile, zstandard.ZstdError, zlib.error, NotImplementedError),
    *(ValueError, KeyError, TypeError, AttributeError),
)
"""What comes of reading a log that is none, or of another version."""


def open_log(path: Path, scorer: str | None = None) -> ResponseFile:
    """Open a log; the samples of an `.eval` are read one at a time, a `.json` is read whole.

    Args:
        scorer: whose scores are taken; by default the log's first.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    digest = file_sha256(path)
    try:
        header = next(_read(path))
        about = header["eval"]
        scorers = [each["name"] for each in about.get("scorers") or []]
        scorers += [each["scorer"] for each in (header.get("results") or {}).get("scores", [])]
        config = {**(about.get("model_generate_config") or {}), **(header["plan"].get("config") or {})}
        version = (about.get("packages") or {}).get("inspect_ai")
        model, task = str(about["model"]), str(about["task"])
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as an inspect_ai log ({_brief(error)}).") from error
    if scorer is not None and scorer not in scorers:
        raise InputError(
            f"{path}: no scorer {scorer!r}. Available: {', '.join(dict.fromkeys(scorers)) or 'none'}."
        )
    settings = {name: config[name] for name in _SETTINGS if config.get(name) is not None}
    chosen = scorer or next(iter(scorers), None)
    return ResponseFile(
        path.name,
        "inspect",
        digest,
        lambda: _responses(path, chosen),
        model=model,
        scorer=chosen,
        poses=task,
        settings={**settings, "inspect_ai": version},
    )


def _read(path: Path) -> Iterator[Any]:
    """Yield what a log says of itself, then its samples."""
    if path.suffix.lower() == ".json":
        whole = json.loads(path.read_bytes())
        yield whole
        yield from whole.get("samples") or []
        return
    with ZipFile(path) as log:
        # A member that was written again comes after its former self.
        members = {info.filename: info for info in log.infolist()}
        header = next((members[name] for name in _HEADERS if name in members), None)
        if header is None:
            raise KeyError(f"it contains no {_HEADERS[0]}")
        yield _member(log, header)
        for name, info in members.items():
            if name.startswith("samples/") and name.endswith(".json"):
                yield _member(log, info)


def _responses(path: Path, scorer: str | None) -> Iterator[OutsideResponse]:
    count = 0
    try:
        for sample in islice(_read(path), 1, None):
            response = _response(path.name, sample, scorer)
            count += 1
            yield response
    except _UNREADABLE as error:
        raise InputError(
            f"{path}: sample {count + 1} cannot be read ({_brief(error)}). The log may be damaged."
        ) from error
    if not count:
        raise InputError(f"{path}: contains no samples.")


def _member(log: ZipFile, info: ZipInfo) -> Any:
    """Return a member of a zip; Python's own reader knows no zstd before 3.14."""
    if info.compress_type != _ZSTD:
        return json.loads(log.read(info))
    file: Any = log.fp
    file.seek(info.header_offset)
    lengths = struct.unpack_from("<HH", file.read(_LOCAL_HEADER), 26)  # of the name and what follows it
    file.seek(info.header_offset + _LOCAL_HEADER + sum(lengths))
    data = zstandard.ZstdDecompressor().decompressobj().decompress(file.read(info.compress_size))
    if zlib.crc32(data) != info.CRC:
        raise BadZipFile(f"the checksum of {info.filename} is wrong")
    return json.loads(data)


def _response(name: str, sample: Mapping[str, Any], scorer: str | None) -> OutsideResponse:
    attached = sample.get("attachments") or {}
    question, images = _question(sample["input"], attached)
    answer, kind = sample.get("target"), None
    if isinstance(answer, list):
        answer = answer[0] if answer else None
    if sample.get("choices"):
        kind = AnswerKind.CHOICE
        options = (f"({letter}) {text}" for letter, text in zip(LETTERS, sample["choices"], strict=False))
        question = "\n".join([question, "", *options])
    replied = sample.get("output") or {}
    choice = next(iter(replied.get("choices") or []), None)
    usage = replied.get("usage") or {}
    score = (sample.get("scores") or {}).get(scorer) or {}
    value = score.get("value")
    if isinstance(value, dict):  # our own scorer's
        value = value.get("correct")
    failed = choice is None or sample.get("error") is not None
    return OutsideResponse(
        place=f"{name}: sample {sample['id']}, epoch {sample['epoch']}",
        text=None if failed or choice is None else _text(choice["message"]["content"], attached),
        question=question,
        id=str(sample["id"]),
        answer=answer or None,
        kind=kind,
        images=images,
        stop_reason=stop_word(None if choice is None else choice.get("stop_reason")),
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
        score=read_score(value, score.get("answer")),
    )


def _question(given: Any, attached: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the question with its images: the text, or that of the last message of a user.

    Images stand where the message has them, unless its text says it.
    """
    if not isinstance(given, str):
        users = [message["content"] for message in given if message.get("role") == "user"]
        given = users[-1] if users else ""
    if isinstance(given, str):
        return _resolved(given, attached), []
    images = [_resolved(part["image"], attached) for part in given if part["type"] == "image"]
    if not images or PLACEHOLDER in _text(given, attached):
        return _text(given, attached), images
    place = {"type": "text", "text": PLACEHOLDER}
    return _text([place if part["type"] == "image" else part for part in given], attached), images


def _text(content: Any, attached: Mapping[str, str]) -> str:
    """Return a message with its thought in front, as it was drawn."""
    if isinstance(content, str):
        return _resolved(content, attached)
    thoughts = [_resolved(part["reasoning"], attached) for part in content if part["type"] == "reasoning"]
    texts = [_resolved(part["text"], attached) for part in content if part["type"] == "text"]
    return with_thought("\n\n".join(thoughts), "".join(texts))


def _resolved(text: str, attached: Mapping[str, str]) -> str:
    """Return a text, which a log may hold beside the sample in place of its second use."""
    return attached.get(text.removeprefix(_ATTACHED), text) if text.startswith(_ATTACHED) else text


def _brief(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
