"""Files of responses: rows (JSON Lines, CSV, parquet), and those of evaluation tools.

Those of lighteval and lm-evaluation-harness have one row per problem with all responses to it. Details of
lighteval have a score of the responses together. Samples of lm-evaluation-harness have a row per filter, and
metrics of what the filter took out of a response.
"""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evaluator.grading import AnswerKind, Grade, GradeValue
from service.engines.checkpoint import open_thought
from service.errors import InputError, first_lines
from service.questions.columns import (
    CANDIDATES,
    Columns,
    RowProblem,
    asked_in,
    choose_columns,
    column_of,
    lacking_columns,
    usual_column,
    value_at,
)
from service.questions.files import Source, open_file

_OF_EXPORTS = ("copy", "group", "variant", "source_id", "strategy")
"""Parts that are looked for in our exports alone: elsewhere such names say something else."""
COLUMNS: dict[str, tuple[str, ...]] = {
    "response": (
        *("response", "responses", "completion", "generation", "output", "model_output", "completions"),
        *("generations", "outputs", "generated", "generated_text", "model_response", "text", "prediction"),
        "code",  # in outputs of Qwen2.5-Math's harness and its relatives
    ),
    "question": ("question", "problem", "prompt", "input", "query", "messages", "origin_prompt"),
    "id": ("problem_id", "question_id", "unique_id", "id", "doc_id"),
    "answer": (
        *("expected_answer", "expected", "gold", "ground_truth", "ground_truth_answer"),
        *("correct_answer", "reference_answer", "answer", "target", "gts", "gt", "answerKey"),
        *("golden", "final_answer"),
    ),
    "stop_reason": ("stop_reason", "finish_reason"),
    "completion_tokens": ("completion_tokens", "output_tokens", "num_generated_tokens", "tokens"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "num_input_tokens"),
    "score": ("score", "grade", "correct", "is_correct", "symbolic_correct", "reward"),
    "extracted": ("extracted", "predicted_answer", "extracted_answer"),
    "images": CANDIDATES["images"],
    **{part: (part,) for part in ("seed", "kind", "tolerance", *_OF_EXPORTS)},
}
"""The parts of a response, and the names under which each is looked for.

If the gold has another name, `answer` may be the model's own answer, so it comes last.
"""
_EXPORTED = frozenset({"copy", "group", "variant"})
"""The columns by which an export is known."""
_OF_ALL = ("score", "extracted", "completion_tokens")
"""What says nothing of one response where several have one value together."""

NO_STOP_REASON = "unknown"
_STOPS = {"max_tokens": "length", "model_length": "length", "eos": "stop", "end_turn": "stop"}
_RIGHT, _NOT = ("c", "correct", "true", "yes"), ("i", "incorrect", "wrong", "false", "no")


def stop_word(reason: str | None) -> str:
    """Return why a response ended in the words of this house, `NO_STOP_REASON` where a tool does not say."""
    return NO_STOP_REASON if not reason else _STOPS.get(reason, reason)


Whole = Annotated[int, Field(ge=0, le=2**63 - 1)]


class OutsideResponse(BaseModel):
    """A response that another tool drew."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    place: str  # where it is: `file:line`
    text: str | None  # None if a request brought none
    question: str | None = None
    id: str | None = None  # the tool's own of the problem
    answer: str | None = None
    kind: AnswerKind | None = None
    tolerance: str | None = None
    images: Any = None  # what the cell holds
    stop_reason: Annotated[str, AfterValidator(stop_word)] = NO_STOP_REASON
    prompt_tokens: Whole | None = None
    completion_tokens: Whole | None = None
    seed: Whole | None = None
    score: Grade | None = None  # what the tool says of it, in its own words
    copy_number: Whole = Field(0, alias="copy")
    group: str | None = None  # from here on the problem's place in a run over a neighbor set
    variant: Whole = 0
    source_id: str | None = None
    strategy: str | None = None


Format: TypeAlias = Literal["rows", "inspect", "lighteval", "lm-eval"]


@dataclass(frozen=True)
class ResponseFile:
    """Files of one tool as one list of responses."""

    name: str
    form: Format
    sha256: str
    read: Callable[[], Iterator[OutsideResponse]]  # reads the file again, one row at a time
    model: str | None = None  # as the tool names it
    scorer: str | None = None
    poses: str | None = None  # the task
    # under which the tool says that it drew (temperature, max_tokens, ...)
    settings: Mapping[str, Any] = field(default_factory=dict)


Parts: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""Returns the parts of the responses in a row, by their names in `COLUMNS`; None for a row to leave out."""


def response_columns(named: Mapping[str, str], present: Collection[str], source: str) -> dict[str, str]:
    """Return by part the columns of a source: those that are named, and the others by usual names.

    An empty name leaves a part out, as `score=` of a file whose scores are points.
    """
    for part, column in named.items():
        if part not in COLUMNS:
            raise InputError(f"--column {part}={column}: unknown part. Available: {', '.join(COLUMNS)}.")
    foreign = () if {*present} >= _EXPORTED else _OF_EXPORTS
    usual = {part: names for part, names in COLUMNS.items() if part not in foreign}
    return choose_columns(named.items(), usual, [("response",), ("question", "id")], present, source)


def read_responses(
    place: str, parts: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> Iterator[OutsideResponse]:
    """Yield the responses of a row; if its response is a list, the other parts may be lists too.

    Args:
        names: columns by part, for messages; without it, parts have their own names.
    """
    row, names = {**parts}, names or {part: part for part in parts}
    row["question"] = asked_in(row.get("question")) or row.get("question")
    row["answer"] = _gold(row.get("answer"))
    texts, images = row.pop("response"), row.pop("images", None)
    if not isinstance(texts, list):
        yield _response(place, texts, images, row, names)
        return
    for number, text in enumerate(texts):
        its_own = {part: _of(part, value, number, len(texts)) for part, value in row.items()}
        yield _response(f"{place}, response {number}", text, images, its_own, names)


def _of(part: str, value: Any, number: int, count: int) -> Any:
    if part != "answer" and isinstance(value, list) and len(value) == count:
        return value[number]
    return None if part in _OF_ALL and count > 1 else value


def _gold(value: Any) -> Any:
    """Return a gold, of a list its different parts; equal ones may be one for each response."""
    if isinstance(value, list) and value and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(dict.fromkeys(map(str, value)))
    return value


def _response(
    place: str, text: Any, images: Any, row: Mapping[str, Any], columns: Mapping[str, str]
) -> OutsideResponse:
    column = columns["response"]
    if isinstance(text, Mapping) and text:
        raise RowProblem(
            f'"{column}" contains {", ".join(map(str, text))} instead of text. Choose one, such as '
            f"--column response={column}.{next(iter(text))}"
        )
    if text is not None and not isinstance(text, str):
        raise RowProblem(f'"{column}" is not text')
    # An empty cell of CSV holds nothing, and NaN is not equal to itself.
    read = {part: value for part, value in row.items() if value not in (None, "") and value == value}

    try:
        score = read_score(read.pop("score", None), read.pop("extracted", None))
        return OutsideResponse(place=place, text=text, images=images, score=score, **read)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RowProblem(f'"{columns[str(first["loc"][0])]}": {first["msg"]}') from None


def with_thought(thought: str | None, text: str) -> str:
    """Return a response with a thought that a server took out of it in front, as it was drawn."""
    return f"<think>\n{thought}\n</think>\n\n{text}" if thought and thought.strip() else text


def read_score(value: Any, extracted: Any = None) -> Grade | None:
    """Return another tool's score as a grade; None where it gave none.

    Whatever is neither right nor wrong (half a point, "no answer") is unknown.

    >>> read_score("C").value, read_score(0.0).value, read_score(0.5).value
    (<GradeValue.CORRECT: 'correct'>, <GradeValue.WRONG: 'wrong'>, <GradeValue.UNKNOWN: 'unknown'>)
    """
    if value is None:
        return None
    text = " ".join(str(value).split())[:200]
    try:
        number = float(text)
    except ValueError:
        word = text.lower()
        number = 1.0 if word in _RIGHT else 0.0 if word in _NOT else math.nan
    grades = {1.0: GradeValue.CORRECT, 0.0: GradeValue.WRONG}
    answer = None if extracted is None else str(extracted)
    return Grade(grades.get(number, GradeValue.UNKNOWN), answer, text)


LM_EVAL_COLUMNS = {"doc_id", "doc", "resps", "filtered_resps", "filter"}


def read_lighteval(source: Source, metric: str | None) -> tuple[list[str], Parts, str | None]:
    """Return the columns to read of details, what returns the parts of a row, and the metric of the score.

    The score of a row counts only if the row has one response.
    """
    mark = "__" if "__doc__" in source.columns else ""  # in some versions
    columns = [f"{mark}{each}{mark}" for each in ("doc", "model_response", "metric")]
    first = next((row.values for row in source.rows if not row.problem), {})
    metrics = first.get(columns[2]) or {}
    chosen = metric or next((name for name, value in metrics.items() if value is not None), None)

    def parts(row: Mapping[str, Any]) -> dict[str, Any]:
        doc, replied, scores = map(row.get, columns)
        if not isinstance(doc, Mapping) or not isinstance(replied, Mapping):
            raise RowProblem(f'"{columns[0]}" or "{columns[1]}" is not an object')
        texts, thoughts = list(replied.get("text") or []), replied.get("reasonings") or []
        if not texts:
            raise RowProblem("it has no response text. Log-likelihood tasks cannot be imported")
        if len(thoughts) == len(texts):
            texts = [with_thought(thought, text) for thought, text in zip(thoughts, texts, strict=True)]
        tokens = replied.get("output_tokens") or []
        choices, gold = doc.get("choices") or [], doc.get("gold_index")
        gold = gold[0] if isinstance(gold, list) and gold else gold
        place = int(gold) if isinstance(gold, int | str) and str(gold).isdecimal() else len(choices)
        return {
            "response": texts,
            "question": doc.get("query"),
            "id": doc.get("id"),
            "answer": choices[place] if place < len(choices) else None,
            "images": doc.get("images"),
            "completion_tokens": [len(each) for each in tokens] if len(tokens) == len(texts) else None,
            "score": (scores or {}).get(chosen) if len(texts) == 1 else None,
        }

    return [name for name in columns if name in source.columns], parts, chosen


def read_lm_eval(source: Source, scorer: str | None) -> tuple[list[str], Parts, str | None]:
    """Return the columns to read of samples, what returns a row's parts, and the metric and filter of scores.

    A task of two filters has every response twice: the rows of one are read. `scorer` names metric and filter
    as the harness's results do (`exact_match,strict-match`); by default the first of each. If a
    row has several responses, its metric is about all of them, so none of them gets a score.
    """
    rows = [row.values for row in source.rows if not row.problem]
    present = dict.fromkeys(name for row in rows for name in row)
    filters = dict.fromkeys(str(row.get("filter")) for row in rows)
    listed = (row["metrics"] for row in rows if isinstance(row.get("metrics"), list))
    metrics = dict.fromkeys(str(name) for names in listed for name in names)
    metric, _, of_filter = (scorer or "").partition(",")
    metric, chosen = metric or next(iter(metrics), ""), of_filter or next(iter(filters), "")
    if chosen not in filters or (metric and metric not in present):
        raise InputError(
            f"{source.name}: no scorer {scorer!r}. Give METRIC,FILTER. Metrics: "
            f"{', '.join(metrics) or 'none'}. Filters: {', '.join(filters)}."
        )

    def parts(row: Mapping[str, Any]) -> dict[str, Any] | None:
        if lacking := LM_EVAL_COLUMNS - {*row}:
            raise RowProblem(f'it has no "{min(lacking)}", so it is not an lm-evaluation-harness sample')
        if row["filter"] != chosen:
            return None
        texts = _first(row["resps"])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise RowProblem('"resps" has no text. Log-likelihood tasks cannot be imported')
        alone = len(texts) == 1
        return {
            "response": texts,
            "question": _asked(row),
            "id": row["doc_id"],
            "answer": _first(row.get("target")),
            "score": row.get(metric) if alone else None,
            "extracted": _first(row["filtered_resps"]) if alone else None,
        }

    wanted = [name for name in present if name in {*LM_EVAL_COLUMNS, "target", "arguments", metric}]
    return wanted, parts, f"{metric},{chosen}" if metric and chosen else metric or None


def _asked(row: Mapping[str, Any]) -> str | None:
    """Return a document's question, or the prompt if the question lacks other parts of the document."""
    doc = row["doc"] if isinstance(row.get("doc"), Mapping) else {}
    column = usual_column(CANDIDATES["question"], list(doc))
    text = doc.get(column) if column else None
    if isinstance(text, str) and not lacking_columns(doc, Columns(question=column), text):
        return text
    asked = row.get("arguments")
    first = next(iter(asked.values()), None) if isinstance(asked, Mapping) else _first(asked)
    prompt = _first(first.get("arg_0") if isinstance(first, Mapping) else _first(first))
    return prompt if isinstance(prompt, str) else None


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value


_LM_EVAL_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+")


def open_responses(
    paths: Sequence[Path], form: Format | None = None, columns: Mapping[str, str] | None = None
) -> ResponseFile:
    """Open files of one tool; the format follows from their content unless it is given.

    Args:
        columns: by part (see `COLUMNS`) the columns of rows whose names are not the usual ones; `score` is
            also a metric of details, or one of several scorers of an inspect_ai log.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a file is given twice, so its responses would count twice. Remove one.")
    opened = [_open(path, form, columns or {}) for path in paths]
    first = opened[0]
    for path, other in zip(paths, opened, strict=True):
        for what in ("form", "model", "scorer", "settings"):
            if getattr(other, what) != getattr(first, what):
                words = {"form": "format"}.get(what, what)
                raise InputError(
                    f"{path}: the {words} is {getattr(other, what)}, but in {paths[0]} it is "
                    f"{getattr(first, what)}. Import the files one by one."
                )
    if len(opened) == 1:
        return first
    together = hashlib.sha256("".join(each.sha256 for each in opened).encode()).hexdigest()

    def read() -> Iterator[OutsideResponse]:
        for each in opened:
            yield from each.read()

    return replace(first, name=f"{first.name} and {len(opened) - 1} more", sha256=together, read=read)


def with_thoughts_opened(file: ResponseFile) -> ResponseFile:
    """Return a file whose prompts ended in `<think>`, as templates have it, with that in its responses."""

    def read() -> Iterator[OutsideResponse]:
        for response in file.read():
            text = response.text
            yield response if text is None else response.model_copy(update={"text": open_thought(text)})

    return replace(file, settings={**file.settings, "thoughts": "started in the prompt"}, read=read)


def _open(path: Path, form: Format | None, columns: Mapping[str, str]) -> ResponseFile:
    scorer = columns.get("score") or None
    if form == "inspect" or (form is None and (path.suffix.lower() == ".eval" or _is_json_log(path))):
        from evaluator.exchange.inspect_logs import open_log

        return open_log(path, scorer)
    source = open_file(path)
    present = {*source.columns}
    if form is None:
        if present >= {"doc", "model_response"} or present >= {"__doc__", "__model_response__"}:
            form = "lighteval"
        else:
            form = "lm-eval" if present >= LM_EVAL_COLUMNS else "rows"
    parts: Parts
    task, names = None, None
    if form == "lighteval":
        wanted, parts, scorer = read_lighteval(source, scorer)
    elif form == "lm-eval":
        wanted, parts, scorer = read_lm_eval(source, scorer)
        task = _LM_EVAL_TASK.fullmatch(path.stem)
    else:
        names = response_columns(columns, source.columns, source.name)
        wanted = [name for each in names.values() if (name := column_of(each, present))]
        parts, scorer = partial(_parts_of_row, names), names.get("score")
    return ResponseFile(
        path.name,
        form,
        str(source.origin["sha256"]),
        lambda: _read(source, list(dict.fromkeys(wanted)), parts, names),
        scorer=scorer,
        poses=task[1] if task else None,
    )


def _parts_of_row(columns: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
    column = columns["response"]
    if column_of(column, row) is None:
        raise RowProblem(f'it has no "{column}". Available: {", ".join(row) or "none"}')
    return {part: value_at(row, name) for part, name in columns.items()}


def _read(
    source: Source, wanted: Sequence[str], parts: Parts, names: Mapping[str, str] | None
) -> Iterator[OutsideResponse]:
    """Yield the responses of a source's rows; at the end fail with those rows that cannot be used."""
    bad: list[str] = []
    number = 0
    for row in source.read(wanted):
        number += 1
        try:
            if row.problem:
                raise RowProblem(row.problem)
            values = parts(row.values)
            read = [] if values is None else list(read_responses(row.place, values, names))
        except RowProblem as problem:
            bad.append(f"{row.place}: {problem}")
        else:
            if not bad:
                yield from read
    if not number:
        raise InputError(f"{source.name}: contains no rows.")
    if bad:
        raise InputError(
            f"{source.name}: {len(bad)} of {number} rows cannot be used:{first_lines(bad)}\nA file is "
            "imported completely or not at all; fix these rows."
        )


def _is_json_log(path: Path) -> bool:
    """Say whether a file looks like an inspect_ai log in JSON: one object with `eval` in it."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(4096)
    return b'"version"' in begin and b'"eval"' in begin and b'"run_id"' in begin
