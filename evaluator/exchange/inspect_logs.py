"""Logs of inspect_ai, by its own reader: they are compressed and pooled in ways that its versions change."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluator.exchange.files import ResponseFile
from evaluator.exchange.responses import OutsideResponse, read_score, stop_word, with_thought
from evaluator.grading import AnswerKind
from service.errors import InputError, PrerequisiteError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NOT_READ = {"events", "store", "attachments"}
_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "reasoning_effort", "system_message")


def open_log(path: Path, scorer: str | None = None) -> ResponseFile:
    """Open a log (`.eval` or `.json`); its samples are read one at a time.

    Args:
        scorer: whose scores are taken; by default the log's first.

    Raises:
        PrerequisiteError: inspect_ai is not installed.
        InputError: no log, a log of no samples, no such scorer.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise PrerequisiteError(
            f"{path}: logs of inspect_ai are read by inspect_ai; install it: pip install 'tagrpo[inspect]'."
        ) from error
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        header = read_eval_log(str(path), header_only=True)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except Exception as error:  # whatever its reader makes of a file that is none of its logs
        raise InputError(f"{path}: inspect_ai cannot read it as a log ({_brief(error)}).") from error
    scorers = [each.name for each in header.eval.scorers or []]
    if header.results is not None:
        scorers = list(dict.fromkeys([*scorers, *(each.scorer for each in header.results.scores)]))
    if scorer is not None and scorer not in scorers:
        raise InputError(f"{path}: no scorer {scorer!r}; there are: {', '.join(scorers) or 'none'}.")
    chosen = scorer or next(iter(scorers), None)
    config = {
        **header.eval.model_generate_config.model_dump(),
        **header.plan.config.model_dump(exclude_none=True),
    }
    settings = {name: config[name] for name in _SETTINGS if config.get(name) is not None}
    settings |= {"inspect_ai": header.eval.packages.get("inspect_ai")}
    return ResponseFile(
        path.name,
        "inspect",
        digest,
        lambda: _samples(path, chosen),
        model=header.eval.model,
        scorer=chosen,
        poses=header.eval.task,
        settings=settings,
    )


def _samples(path: Path, scorer: str | None) -> Iterator[OutsideResponse]:
    from inspect_ai.log import read_eval_log_samples

    count = 0
    try:
        for sample in read_eval_log_samples(str(path), all_samples_required=False, exclude_fields=_NOT_READ):
            count += 1
            yield _response(path.name, sample, scorer)
    except (InputError, GeneratorExit):
        raise
    except Exception as error:
        raise InputError(
            f"{path}: sample {count + 1} cannot be read ({_brief(error)}); the log may be cut off."
        ) from error
    if not count:
        raise InputError(f"{path}: there are no samples in it.")


def _response(name: str, sample: Any, scorer: str | None) -> OutsideResponse:
    place = f"{name}: sample {sample.id}, epoch {sample.epoch}"
    question, answer, kind = _question(sample.input), sample.target, None
    if isinstance(answer, list):
        answer = answer[0] if answer else None
    if sample.choices:
        kind = AnswerKind.CHOICE
        options = (f"({letter}) {text}" for letter, text in zip(LETTERS, sample.choices, strict=False))
        question = "\n".join([question, "", *options])
    choice = next(iter(sample.output.choices), None)
    usage = sample.output.usage
    scores = sample.scores or {}
    score = scores.get(scorer) if scorer else None
    value = None if score is None else score.value
    if isinstance(value, dict):  # our own scorer's
        value = value.get("correct")
    return OutsideResponse(
        place=place,
        text=None if choice is None or sample.error is not None else _text(choice.message),
        question=question,
        id=str(sample.id),
        answer=answer or None,
        kind=kind,
        stop_reason=stop_word(None if choice is None else choice.stop_reason),
        prompt_tokens=None if usage is None else usage.input_tokens,
        completion_tokens=None if usage is None else usage.output_tokens,
        score=None if score is None else read_score(value, score.answer),
    )


def _question(given: Any) -> str:
    """Return the question: the text, or that of the last message of a user."""
    if isinstance(given, str):
        return given
    users = [message.text for message in given if message.role == "user"]
    return users[-1] if users else ""


def _text(message: Any) -> str:
    if isinstance(message.content, str):
        return str(message.content)
    thoughts = [part.reasoning for part in message.content if part.type == "reasoning"]
    return with_thought("\n\n".join(thoughts), str(message.text))


def _brief(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
