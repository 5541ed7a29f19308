"""Reviews of evalscope: a row a response, with its prompt, gold and a score for each metric."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from evaluator.exchange.readers.response_file import ResponseFile, RowFile, checked
from evaluator.exchange.responses import OutsideResponse, read_responses
from service.errors import InputError
from service.questions.columns import RowProblem
from service.questions.files import RawRow

_COLUMNS = {"input", "target", "sample_score"}
_PREDICTIONS = {"model_output", "messages", "index"}
_USER = "**User**:"


def fits(present: Collection[str]) -> bool:
    """Return whether these are columns of reviews, or of the predictions beside them."""
    return {*present} >= _COLUMNS or {*present} >= _PREDICTIONS


def open_rows(file: RowFile) -> ResponseFile:
    """Open reviews; their ids count the rows of a subset, so a problem is known by its text."""
    if not {*file.present} >= _COLUMNS:
        raise InputError(
            f"{file.source.name}: evalscope's predictions do not contain the gold answers. Import the file "
            "of the same name in its folder reviews."
        )
    parts = {name: name for name in ("response", "question", "answer", "score", "extracted")}

    def score_of(row: RawRow) -> Mapping[str, Any]:
        sample = row.values.get("sample_score")
        score = sample.get("score") if isinstance(sample, Mapping) else None
        if not isinstance(score, Mapping):
            raise RowProblem('"sample_score" contains no "score"')
        return score

    first = file.first
    metric = file.scorer or (
        next(iter(score_of(first).get("value") or {}), None) if first is not None else None
    )

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        score, prompt = score_of(row), row.values.get("input")
        values = {
            "response": score.get("prediction"),
            "question": prompt.rpartition(_USER)[2].strip() if isinstance(prompt, str) else prompt,
            "answer": row.values.get("target"),
            "score": (score.get("value") or {}).get(metric),
            "extracted": score.get("extracted_prediction"),
        }
        return read_responses(row.place, values, parts)

    return file.opened("evalscope", lambda: checked(file.source, sorted(_COLUMNS), responses), metric)
