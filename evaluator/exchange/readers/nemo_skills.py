"""Rows of NeMo-Skills: thoughts in a column of their own, verdicts of a judge as text."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from evaluator.exchange.readers import rows
from evaluator.exchange.readers.response_file import ResponseFile, RowFile
from evaluator.exchange.responses import with_thought

_THOUGHT = "reasoning_content"
_USUAL = {"response": "_full_generation", "question": "problem"}
_VERDICT = re.compile(r"judge?ment:[\s*]*(yes|no)\b", re.I)


def fits(present: Collection[str]) -> bool:
    """Return whether these are columns of its outputs."""
    return {"generation", "expected_answer"} <= {*present}


def open_rows(file: RowFile) -> ResponseFile:
    """Open rows, with their thoughts in the responses."""
    usual = {part: name for part, name in _USUAL.items() if name in file.present}
    thoughts = [_THOUGHT] if _THOUGHT in file.present else []
    file = replace(file, columns={**usual, **file.columns})
    return rows.open_rows(file, "nemo-skills", _nemo, thoughts)


def _nemo(values: Mapping[str, Any], columns: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a row of NeMo-Skills with its thought in the response, and a judge's verdict as yes or no."""
    changed = dict(values)
    response, thought = values.get("generation"), values.get(_THOUGHT)
    if columns["response"] == "generation" and isinstance(response, str) and isinstance(thought, str):
        changed["generation"] = with_thought(thought, response)
    verdict = columns.get("score")
    if verdict == "judgement" and isinstance(values.get(verdict), str):
        match = _VERDICT.search(values[verdict])
        changed[verdict] = match[1] if match else values[verdict]
    return changed
