"""Files of responses: rows (JSON Lines, CSV, parquet), and those of evaluation tools."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evaluator.exchange.responses import (
    OutsideResponse,
    choose_columns,
    present_columns,
    read_responses,
    with_thought,
)
from service.errors import InputError
from service.questions.columns import CANDIDATES, Columns, RowProblem, lacking_columns
from service.questions.files import BadRow, JsonNumber, RawRow, Source, open_file

Format: TypeAlias = Literal["rows", "inspect", "lighteval", "lm-eval", "evalscope", "nemo-skills"]
FORMATS: tuple[Format, ...] = ("rows", "inspect", "lighteval", "lm-eval", "evalscope", "nemo-skills")

_ROWS_LOOKED_AT = 200
"""Columns of JSON Lines are taken from the first rows; a column that comes later is an error there."""

_LIGHTEVAL = ({"doc", "model_response"}, {"__doc__", "__model_response__"})
_LM_EVAL = {"doc_id", "doc", "resps", "filtered_resps"}
_EVALSCOPE = {"input", "target", "sample_score"}
_USER = "**User**:"
_EVALSCOPE_PREDICTIONS = {"model_output", "messages", "index"}
_NEMO = {"generation", "expected_answer"}
_NEMO_THOUGHT = "reasoning_content"
_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+")
_DRAWN_WITH = ("temperature", "top_p", "top_k", "max_gen_toks", "do_sample")
_VERDICT = re.compile(r"judge?ment:[\s*]*(yes|no)\b", re.I)
_BAD_NAMED = 5


@dataclass(frozen=True)
class ResponseFile:
    """Files of one tool as one list of responses, read anew by each call of `read`, a row at a time.

    `settings` are those under which the tool says that it drew (temperature, max_tokens, ...). `model`,
    `scorer` and `poses` (the task) are what it names, None where it does not.
    """

    name: str
    form: Format
    sha256: str
    read: Callable[[], Iterator[OutsideResponse]]
    model: str | None = None
    scorer: str | None = None
    poses: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def open_responses(
    paths: Sequence[Path],
    form: Format | None = None,
    columns: Mapping[str, str] | None = None,
    scorer: str | None = None,
) -> ResponseFile:
    """Open files of one tool; the format follows from their content unless it is given.

    Args:
        columns: by part (see `COLUMNS`) the columns of rows whose names are not the usual ones.
        scorer: of an inspect_ai log with several scorers, the one whose scores stand beside our grades; of
            rows and details the column or metric.

    Raises:
        InputError: a file that cannot be read, columns that are missing, files of several formats.
    """
    if not paths:
        raise InputError("name a file of responses.")
    opened = [_open(path, form, dict(columns or {}), scorer) for path in paths]
    first = opened[0]
    for path, other in zip(paths, opened, strict=True):
        for what in ("form", "model", "scorer", "settings"):
            if getattr(other, what) != getattr(first, what):
                words = {"form": "format"}.get(what, what)
                raise InputError(
                    f"{path}: its {words} is {getattr(other, what)}, that of {paths[0]} "
                    f"{getattr(first, what)}; import them one by one."
                )
    if len(opened) == 1:
        return first
    together = hashlib.sha256("".join(each.sha256 for each in opened).encode()).hexdigest()

    def read() -> Iterator[OutsideResponse]:
        for each in opened:
            yield from each.read()

    return replace(first, name=f"{first.name} and {len(opened) - 1} more", sha256=together, read=read)


def _open(path: Path, form: Format | None, columns: dict[str, str], scorer: str | None) -> ResponseFile:
    suffix = path.suffix.lower()
    if form == "inspect" or (form is None and (suffix == ".eval" or _is_json_log(path))):
        from evaluator.exchange.inspect_logs import open_log

        return open_log(path, scorer)
    source = open_file(path)
    present = source.columns or _columns_of(source)
    if form is None:
        if any(names <= set(present) for names in _LIGHTEVAL):
            form = "lighteval"
        elif set(present) >= _LM_EVAL:
            form = "lm-eval"
        elif set(present) >= _EVALSCOPE:
            form = "evalscope"
        elif set(present) >= _EVALSCOPE_PREDICTIONS:
            raise InputError(
                f"{source.name}: predictions of evalscope hold no answers of the problems; "
                "import the file of the same name in its folder reviews."
            )
        else:
            form = "nemo-skills" if set(present) >= _NEMO else "rows"
    if form == "lighteval":
        return _open_lighteval(source, present, scorer)
    if form == "lm-eval":
        return _open_lm_eval(path, source, scorer)
    if form == "evalscope":
        return _open_evalscope(source, scorer)
    if scorer is not None:
        columns.setdefault("score", scorer)
    if form == "nemo-skills":
        usual = {"response": "_full_generation", "question": "problem"}
        columns = {part: name for part, name in usual.items() if name in present} | columns
    chosen = choose_columns(columns, present, source.name)

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        unread = [name for name in chosen.values() if name not in row.values]
        if chosen["response"] in unread:
            there = ", ".join(row.values) or "none"
            raise RowProblem(f'it has no "{chosen["response"]}"; there are: {there}')
        values = _nemo(row.values, chosen) if form == "nemo-skills" else row.values
        return read_responses(row.place, values, chosen)

    thoughts = [_NEMO_THOUGHT] if form == "nemo-skills" and _NEMO_THOUGHT in present else []
    wanted = list(dict.fromkeys([*chosen.values(), *thoughts]))
    return ResponseFile(
        source.name,
        form,
        str(source.origin["sha256"]),
        lambda: _checked(source, wanted, responses),
        scorer=chosen.get("score"),
    )


def _nemo(values: Mapping[str, Any], columns: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a row of NeMo-Skills with its thought in the response, and a judge's verdict as yes or no."""
    changed = dict(values)
    response, thought = values.get("generation"), values.get(_NEMO_THOUGHT)
    if columns["response"] == "generation" and isinstance(response, str) and isinstance(thought, str):
        changed["generation"] = with_thought(thought, response)
    verdict = columns.get("score")
    if verdict == "judgement" and isinstance(values.get(verdict), str):
        match = _VERDICT.search(values[verdict])
        changed[verdict] = match[1] if match else values[verdict]
    return changed


def _is_json_log(path: Path) -> bool:
    """Say whether a file looks like an inspect_ai log in JSON: one object with `eval` in it."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(4096)
    return b'"version"' in begin and b'"eval"' in begin and b'"run_id"' in begin


def _columns_of(source: Source) -> tuple[str, ...]:
    rows = [row.values for row in islice(source.rows, _ROWS_LOOKED_AT) if isinstance(row, RawRow)]
    return present_columns(rows)


def _checked(
    source: Source,
    wanted: Sequence[str],
    responses: Callable[[RawRow], Iterator[OutsideResponse]],
) -> Iterator[OutsideResponse]:
    """Yield the responses of a source's rows; at the end fail with those rows that cannot be used."""
    bad: list[str] = []
    number = 0
    for row in source.read(wanted):
        number += 1
        try:
            if isinstance(row, BadRow):
                raise RowProblem(row.problem)
            read = list(responses(row))
        except RowProblem as problem:
            bad.append(f"{row.place}: {problem}")
        else:
            if not bad:
                yield from read
    if not number:
        raise InputError(f"{source.name}: there are no rows in it.")
    if bad:
        more = f"\n  and {len(bad) - _BAD_NAMED} more" if len(bad) > _BAD_NAMED else ""
        raise InputError(
            f"{source.name}: {len(bad)} of {number} rows cannot be used:\n  "
            + "\n  ".join(bad[:_BAD_NAMED])
            + f"{more}\nA file is taken whole; mend these rows."
        )


def _open_lighteval(source: Source, present: Sequence[str], scorer: str | None) -> ResponseFile:
    """Open the details of lighteval: a row a problem, with all responses to it, and a score of them together.

    Its score of a row is that of a response only where the row has one.
    """
    mark = "__" if "__doc__" in present else ""
    doc_column, told_column, metric_column = (
        f"{mark}{each}{mark}" for each in ("doc", "model_response", "metric")
    )
    names = "response", "question", "id", "answer", "images", "completion_tokens", "score"
    parts = {name: name for name in names}
    metric = scorer or _first_metric(source, metric_column)

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        doc, replied = row.values.get(doc_column), row.values.get(told_column)
        if not isinstance(doc, Mapping) or not isinstance(replied, Mapping):
            raise RowProblem(f'"{doc_column}" or "{told_column}" is no object')
        texts, thoughts = list(replied.get("text") or []), replied.get("reasonings") or []
        if not texts:
            raise RowProblem("it has no text of a response; log-likelihood tasks cannot be imported")
        if len(thoughts) == len(texts):
            texts = [with_thought(thought, text) for thought, text in zip(thoughts, texts, strict=True)]
        tokens = replied.get("output_tokens") or []
        scores = row.values.get(metric_column) or {}
        values = {
            "response": texts,
            "question": doc.get("query"),
            "id": doc.get("id"),
            "answer": _gold(doc),
            "images": doc.get("images"),
            "completion_tokens": [len(each) for each in tokens] if len(tokens) == len(texts) else None,
            "score": scores.get(metric) if len(texts) == 1 else None,
        }
        return read_responses(row.place, values, parts)

    wanted = [name for name in (doc_column, told_column, metric_column) if name in present]
    return ResponseFile(
        source.name,
        "lighteval",
        str(source.origin["sha256"]),
        lambda: _checked(source, wanted, responses),
        scorer=metric,
    )


def _open_lm_eval(path: Path, source: Source, scorer: str | None) -> ResponseFile:
    """Open samples of lm-evaluation-harness: a row a problem and filter, with all responses to it.

    A filter takes the answer out of a response, and metrics are of what it took, so that a task of two
    filters has every response twice: the rows of one are read. `scorer` names metric and filter as the
    harness's results do (`exact_match,strict-match`); by default the first of each. A metric of several
    responses together is that of none of them.
    """
    metrics, filters, present = dict[str, None](), dict[str, None](), dict[str, None]()
    drawn: Mapping[str, Any] = {}
    for row in source.rows:
        if isinstance(row, RawRow):
            present |= dict.fromkeys(row.values)
            named = row.values.get("metrics")
            metrics |= dict.fromkeys(map(str, named if isinstance(named, list) else ()))
            filters[str(row.values.get("filter", ""))] = None
            drawn = drawn or _arguments(row.values)[1]
    metric, _, of_filter = (scorer or "").partition(",")
    metric = metric or next(iter(metrics), "")
    chosen = of_filter or next(iter(filters), "")
    if chosen not in filters or (metric and metric not in present):
        raise InputError(
            f"{source.name}: no scorer {scorer!r}; give METRIC,FILTER: metrics are "
            f"{', '.join(metrics) or 'none'}, filters {', '.join(filters)}."
        )
    parts = {name: name for name in ("response", "question", "id", "answer", "score", "extracted")}

    def read() -> Iterator[OutsideResponse]:
        seen: set[str] = set()  # rows of older versions do not name their filter

        def responses(row: RawRow) -> Iterator[OutsideResponse]:
            values = row.values
            if str(values.get("filter", "")) != chosen or str(values.get("doc_id")) in seen:
                return iter(())
            seen.add(str(values.get("doc_id")))
            if "resps" not in values:
                raise RowProblem('it has no "resps", as samples of lm-evaluation-harness have')
            texts = _first(values.get("resps"))
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise RowProblem('"resps" has no text; log-likelihood tasks cannot be imported')
            alone = len(texts) == 1
            named = {
                "response": texts,
                "question": _asked(values),
                "id": values.get("doc_id"),
                "answer": _first(values.get("target")),
                "score": values.get(metric) if alone else None,
                "extracted": _first(values.get("filtered_resps")) if alone else None,
            }
            return read_responses(row.place, named, parts)

        yield from _checked(source, wanted, responses)

    wanted = [name for name in present if name in (*_LM_EVAL, "filter", "target", "arguments", metric)]
    task = _TASK.fullmatch(path.stem)
    return ResponseFile(
        source.name,
        "lm-eval",
        str(source.origin["sha256"]),
        read,
        scorer=f"{metric},{chosen}" if metric and chosen else metric or None,
        poses=task[1] if task else None,
        settings={name: _number(drawn[name]) for name in _DRAWN_WITH if drawn.get(name) is not None},
    )


def _asked(values: Mapping[str, Any]) -> str | None:
    """Return a document's question; where that lacks what else the document has of it, the prompt."""
    doc = values["doc"] if isinstance(values.get("doc"), Mapping) else {}
    spelled = {name.lower(): name for name in doc}
    column = next((spelled[name] for name in CANDIDATES["question"] if name in spelled), None)
    text = doc.get(column) if column else None
    if isinstance(text, str) and not lacking_columns(doc, Columns(question=column), text):
        return text
    prompt = _arguments(values)[0]
    return prompt if isinstance(prompt, str) else None


def _arguments(values: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the prompt of a row of lm-evaluation-harness and how its responses were drawn."""
    asked = values.get("arguments")
    first = next(iter(asked.values()), None) if isinstance(asked, Mapping) else _first(asked)
    prompt, settings = (
        (first.get("arg_0"), first.get("arg_1"))
        if isinstance(first, Mapping)
        else (*first, None, None)[:2]
        if isinstance(first, list | tuple)
        else (None, None)
    )
    return _first(prompt), settings if isinstance(settings, Mapping) else {}


def _number(value: Any) -> Any:
    return json.loads(value) if isinstance(value, JsonNumber) else value


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value


def _open_evalscope(source: Source, scorer: str | None) -> ResponseFile:
    """Open reviews of evalscope: a row a response, with its prompt, gold and a score for each metric.

    Its ids count the rows of a subset, so a problem is known by its text.
    """
    parts = {name: name for name in ("response", "question", "answer", "score", "extracted")}

    def score_of(row: RawRow) -> Mapping[str, Any]:
        sample = row.values.get("sample_score")
        score = sample.get("score") if isinstance(sample, Mapping) else None
        if not isinstance(score, Mapping):
            raise RowProblem('"sample_score" holds no "score"')
        return score

    first = next((row for row in source.rows if isinstance(row, RawRow)), None)
    metric = scorer or (next(iter(score_of(first).get("value") or {}), None) if first is not None else None)

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

    sha256 = str(source.origin["sha256"])
    read = partial(_checked, source, sorted(_EVALSCOPE), responses)
    return ResponseFile(source.name, "evalscope", sha256, read, scorer=metric)


def _first_metric(source: Source, column: str) -> str | None:
    row = next((row for row in source.rows if isinstance(row, RawRow)), None)
    metrics = {} if row is None else row.values.get(column) or {}
    return next((name for name, value in metrics.items() if value is not None), None)


def _gold(doc: Mapping[str, Any]) -> Any:
    """Return the gold of a document: the choice at its index, the first where there are several."""
    choices, place = doc.get("choices") or [], doc.get("gold_index")
    place = place[0] if isinstance(place, list) and place else place
    index = int(place) if isinstance(place, int | str) and not isinstance(place, bool) else -1
    return choices[index] if 0 <= index < len(choices) else None
