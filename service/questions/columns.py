"""Which columns of a source hold the question, its gold answer and its labels, and what is read from them."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from service.answer_kinds import AnswerKind
from service.boxes import boxed_answer, last_boxed
from service.errors import InputError
from service.hashing import canonical_text
from service.questions.files import JsonNumber
from service.questions.images import ImageProblem, RowImages, order_numbered
from service.questions.question import Question, make_question

CANDIDATES: dict[str, tuple[str, ...]] = {
    "question": ("question", "problem", "prompt", "input", "instruction", "query", "messages"),
    "answer": (
        *("answer", "final_answer", "gold", "ground_truth", "target", "expected_answer"),
        *("ground_truth_answer", "correct_answer", "reference_answer", "answerKey", "golden"),
    ),
    "solution": ("solution", "response", "output", "rationale"),
    "level": ("level", "difficulty"),
    "subject": ("subject", "type", "problem_type", "category", "subfield", "topic", "course"),
    "images": ("images", "decoded_image", "image"),
}
"""The usual names of each part of a question."""
PROGRAM_CANDIDATES: dict[str, tuple[str, ...]] = CANDIDATES | {
    "images": (),
    "question": ("prompt", "text", *CANDIDATES["question"]),
    "answer": ("test_list", "tests", "test", "answer"),
    "solution": ("canonical_solution", "code", "reference_solution", "solution"),
}
"""Where questions ask for programs; the answer's column holds the tests."""
_BELONGS_TO_A_QUESTION = frozenset(
    {"body", "context", "passage", "background", "premise", "table", "task_prefix", "options", "choices"}
)
"""Columns that a question may not make sense without, where its own column is another."""
_OPTION_COLUMN = re.compile(r"[A-J]|(?:[Oo]p(?:tion)?|[Cc]hoice)[ _]?(?:[A-Ja-j]|1?[0-9])")
_OPTION_MARKS = (ascii_uppercase, [*map(str, range(20))], [*map(str, range(1, 20))])
_CONTROL = re.compile(r"[^\n\t\r -~\xa0-\ud7ff\ue000-\U0010ffff]")
_EATEN_BACKSLASH = {"\x0c": "\\f", "\x08": "\\b", "\x07": "\\a", "\x0b": "\\v"}
_LETTERED = re.compile(r"\s*\(?[A-Za-z][).:]")
_LETTER_OR_NUMBER = re.compile(r"^\s*\(?[A-Za-z0-9][).:]")
_LABEL = re.compile(r"[A-Za-z]|\d{1,2}")  # of an option
_HASHES = re.compile(r"(?:^|\n)[ \t]*####[ \t]*(.*?)[ \t]*(?:\n|$)")


@dataclass(frozen=True)
class Columns:
    """Names of columns; None where the source has none, or (before `resolve`) to look for one.

    A name may lead into nested values by dots (`reward_model.ground_truth`). `further` columns belong to the
    question too, and stand below it in this order.
    """

    question: str | None = None
    answer: str | None = None
    solution: str | None = None
    level: str | None = None
    subject: str | None = None
    images: str | None = None
    further: tuple[str, ...] = ()

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Columns":
        """Return columns given as PART=NAME; a question may have several."""
        given: dict[str, list[str]] = {}
        for word in words:
            part, equals, name = word.partition("=")
            if part not in CANDIDATES or not equals:
                parts = ", ".join(CANDIDATES)
                raise InputError(f"--column {word}: give PART=NAME, where PART is one of {parts}.")
            if part in given and part != "question":
                raise InputError(f"--column {part}=: only a question can have several columns.")
            given.setdefault(part, []).append(name)
        further = tuple(given.get("question", ())[1:])
        return cls(**{part: names[0] for part, names in given.items()}, further=further)

    def as_dict(self) -> dict[str, str]:
        """Return the columns that are set, by what they hold; without `further`."""
        return {part: name for part in CANDIDATES if (name := getattr(self, part)) is not None}

    def names(self) -> list[str]:
        """Return all columns that are set."""
        return [*self.as_dict().values(), *self.further]

    def left_out(self, present: Collection[str]) -> list[str]:
        """Return the columns that are not read, though a question may make no sense without them."""
        read = {name.split(".")[0] for name in self.names()}
        needed = _BELONGS_TO_A_QUESTION.union(option_columns(present))
        return [name for name in present if not needed.isdisjoint((name, name.lower())) and name not in read]


@dataclass(frozen=True)
class RowLimits:
    """What a row may hold: the longest text in characters; whether control characters are removed."""

    max_characters: int = 100_000
    strip_control: bool = False


class RowProblem(Exception):
    """A row that cannot be used: why and, if an import has one, the way out."""

    def __str__(self) -> str:
        return ". ".join(map(str, self.args))


def resolve(
    columns: Columns,
    present: Collection[str],
    source: str,
    kind: AnswerKind = AnswerKind.LATEX,
    setting: str = "--column {}=NAME",
) -> Columns:
    """Check the columns that were named against those there are, and look for the others by usual names.

    The answer comes from the answer column; only if there is none (and none was named), from the last box of
    the solution column. Questions that ask for programs have both: tests, and a program.
    """
    programs = kind is AnswerKind.CODE
    usual = dict(PROGRAM_CANDIDATES if programs else CANDIDATES)
    if columns.solution and not programs:
        del usual["answer"]  # the named solution column is to be used
    needed = [("question",), ("answer",) if programs else ("answer", "solution")]
    named = [*columns.as_dict().items(), *(("question", name) for name in columns.further)]
    chosen = choose_columns(named, usual, needed, present, source, setting)
    if programs and ("images" in chosen or columns.further):
        raise InputError(f"{source}: programming questions have one question column and no images.")
    options = option_columns(columns.further)
    marks = [re.findall(r"\d+$|.$", name)[0].upper() for name in options]
    if options and not any([*order][: len(marks)] == marks for order in _OPTION_MARKS):
        raise InputError(f"{source}: give all columns of options, in order: {', '.join(sorted(options))}.")
    if "answer" in chosen and not columns.solution and not programs:
        chosen.pop("solution", None)
    return Columns(**chosen, further=columns.further)


def choose_columns(
    named: Iterable[tuple[str, str]],
    usual: Mapping[str, Sequence[str]],
    needed: Iterable[Sequence[str]],
    present: Collection[str],
    source: str,
    setting: str = "--column {}=NAME",
) -> dict[str, str]:
    """Return columns by part: the named ones, which must be there, and the others by their usual names.

    The first name of a part counts; an empty one leaves the part out. Of each of the `needed` one part has to
    be there. In messages, `setting` is what names the column of a part.
    """
    chosen: dict[str, str] = {}
    taken = set()
    there = f"available: {', '.join(sorted(present)) or 'none'}."
    for part, name in named:
        if name and column_of(name, present) is None:
            raise InputError(f'{source}: no column "{name}" ({setting.format(part)}); {there}')
        chosen.setdefault(part, name)
        taken.add(name)
    for part, names in usual.items():
        column = usual_column(names, [name for name in present if name not in taken])
        if part not in chosen and column is not None:
            chosen[part] = column
            taken.add(column)
    chosen = {part: name for part, name in chosen.items() if name}
    for parts in needed:
        if chosen.keys().isdisjoint(parts):
            options = " or ".join(map(setting.format, parts))
            raise InputError(
                f"{source}: no column looks like the {' or '.join(parts)}. Pass it with {options}; {there}"
            )
    return chosen


def column_of(name: str, present: Collection[str]) -> str | None:
    """Return the column that a name means or, with dots, leads into; None if there is none."""
    return next((each for each in (name, name.split(".")[0]) if each in present), None)


def usual_column(names: Sequence[str], present: Sequence[str]) -> str | None:
    """Return the first of some usual names that is there, as it is or else in any case; None without one."""
    spelled = {name.lower(): name for name in reversed(present)} | {name: name for name in present}
    return next((spelled[name] for name in names if name in spelled), None)


def option_columns(names: Iterable[str]) -> list[str]:
    """Return the columns that hold one option each, such as A and B, option_a and option_b; none for one."""
    options = [name for name in names if _OPTION_COLUMN.fullmatch(name)]
    return options if len(options) > 1 else []


def _letter(place: int) -> str:
    """Return the letter of an option by its place, from 0; a number behind Z."""
    return ascii_uppercase[place] if place < len(ascii_uppercase) else str(place + 1)


def read_question(
    values: Mapping[str, Any], columns: Columns, limits: RowLimits, images: RowImages | None = None
) -> Question:
    """Return the question of a row; its answer is empty where the row has none. `images` keeps its images.

    Raises:
        RowProblem: no question text, a value that is no text, control characters, a text too long, an image
            that cannot be used, or placeholders that do not go with the images.
    """
    below = {name: _further_text(read_cell(values, name, limits), name) for name in columns.further}
    options = option_columns(below)
    if not all(_LETTERED.match(below[name]) for name in options if below[name]):
        for place, name in enumerate(options):
            below[name] = below[name] and f"({_letter(place)}) {below[name]}"
    text = "\n".join((question_text(values, columns, limits), *filter(None, below.values())))
    if columns.answer is not None:
        answer = _answer(read_cell(values, columns.answer, limits), columns.answer)
    else:
        solution = text_of(read_cell(values, columns.solution, limits), "solution", columns.solution)
        answer = last_boxed(solution) or ""
    try:
        ids = () if images is None else images.take(value_at(values, columns.images))
        text, ids = order_numbered(text, ids)
        return make_question(text, answer, *labels(values, columns, limits), images=ids)
    except ImageProblem as problem:
        raise RowProblem(f'"{columns.images}": {problem}') from problem


def question_text(values: Mapping[str, Any], columns: Columns, limits: RowLimits) -> str:
    """Return the text in the question's column; of chat messages, the one message of the user."""
    column = columns.question
    value = value_at(values, column)
    text: str = _within(limits, text_of(asked_in(value) or value, "question", column), column)
    if not text.strip():
        raise RowProblem(f'"{column}" is empty')
    return text


def labels(values: Mapping[str, Any], columns: Columns, limits: RowLimits) -> tuple[str | None, str | None]:
    """Return level and subject of a row; None where it has none, or no single value."""

    def label(column: str | None) -> str | None:
        value = value_at(values, column)
        if isinstance(value, list | Mapping):
            return None
        return canonical_text(_within(limits, _scalar(value, column), column)) or None

    return label(columns.level), label(columns.subject)


def lacking_columns(values: Mapping[str, Any], columns: Columns, text: str) -> list[str]:
    """Return the columns that are not read, though they hold what a question may need and its text lacks."""
    names = []
    for name in columns.left_out(values):
        value = values[name]
        try:
            lines = _further_text(value, name).splitlines()
        except RowProblem:
            lines = [str(value)]
        if any(_LETTER_OR_NUMBER.sub("", line).strip() not in text for line in lines):
            names.append(name)
    return names


def read_cell(values: Mapping[str, Any], column: str | None, limits: RowLimits) -> Any:
    """Return `value_at` of a column, its texts within the limits.

    Raises:
        RowProblem: control characters, or a text too long.
    """
    return _within(limits, value_at(values, column), column)


def value_at(values: Any, column: str | None) -> Any:
    """Return the value in a column of a row, to which dots may lead; None if there is none.

    Of a list of objects a dot leads into each: `samples.text` is the list of their texts.
    """
    if isinstance(values, list):
        each = [value_at(entry, column) for entry in values]
        return each if any(entry is not None for entry in each) else None
    if column is None or not isinstance(values, Mapping):
        return None
    if column in values:
        return values[column]
    step, _, rest = column.partition(".")
    return value_at(values.get(step), rest) if rest else None


def _within(limits: RowLimits, value: Any, column: str | None) -> Any:
    if isinstance(value, list):
        return [_within(limits, entry, column) for entry in value]
    if isinstance(value, Mapping):
        return {key: _within(limits, entry, column) for key, entry in value.items()}
    if not isinstance(value, str):
        return value
    if len(value) > limits.max_characters:
        raise RowProblem(
            f'"{column}" has {len(value):,} characters, more than {limits.max_characters:,}',
            "Raise --max-characters if that is intended",
        )
    bad = _CONTROL.search(value)
    if bad is None or limits.strip_control:
        return _CONTROL.sub("", value)
    eaten = _EATEN_BACKSLASH.get(bad[0])
    hint = f' (often caused by "{eaten}" in LaTeX after a lost backslash)' if eaten else ""
    raise RowProblem(
        f'"{column}" contains the control character U+{ord(bad[0]):04X} at character {bad.end()}{hint}',
        "Fix the file, or pass --strip-control to remove such characters",
    )


def asked_in(messages: Any) -> str | None:
    """Return what the one message of a user asks in a list of chat messages; None where it is none."""
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        return None
    asked = [each.get("content") for each in messages if each.get("role") == "user"]
    return asked[0] if len(asked) == 1 and isinstance(asked[0], str) else None


def text_of(value: Any, part: str, column: str | None) -> str:
    """Return a value that has to be text; "" where there is none."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise RowProblem(
            f'"{column}" is {str(value)[:60]}, not text', f"Choose another column: --column {part}=NAME"
        )
    return value


def _further_text(value: Any, column: str) -> str:
    """Return the text of a further column, "" for nothing; a list as options with letters, a line each.

    Options may have labels of their own: `{"A": ...}`.

    Raises:
        RowProblem: an object.
    """
    if isinstance(value, list):
        lines = [_further_text(entry, column) for entry in value]
        if all(_LETTERED.match(line) for line in lines):
            return "\n".join(lines)
        return "\n".join(f"({_letter(place)}) {line}" for place, line in enumerate(lines))
    labelled = isinstance(value, Mapping) and all(_LABEL.fullmatch(str(label)) for label in value)
    if labelled and value and all(isinstance(text, str) for text in value.values()):
        return "\n".join(f"({label}) {_further_text(text, column)}" for label, text in value.items())
    return _scalar(value, column, "question").strip()


def _answer(value: Any, column: str) -> str:
    if isinstance(value, list):
        return ", ".join(filter(None, (_answer(part, column) for part in value)))
    return bare_answer(_scalar(value, column, "answer"))


def bare_answer(text: str) -> str:
    """Return what a gold answer is without its solution: what is boxed, or behind four hashes as in GSM8K."""
    boxed = boxed_answer(text)
    if boxed is not None:
        return boxed
    hashes = _HASHES.findall(text)
    return str(hashes[-1]) if hashes else text


def _scalar(value: Any, column: str | None, part: str = "") -> str:
    """A number or text as text; a missing value (NaN is one) as the empty text."""
    if value is None:
        return ""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        if math.isinf(value):
            raise RowProblem(f'"{column}" is an infinite number')
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, bytes):
        raise RowProblem(f'"{column}" contains bytes, not text')
    if isinstance(value, Mapping):
        raise RowProblem(f'"{column}" is an object', f"Select a value: --column {part}={column}.NAME")
    return str(value)
