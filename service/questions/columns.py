"""Which columns of a source hold the question, its gold answer and its labels, and what is read from them."""

import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.answer_kinds import AnswerKind
from service.boxes import boxed_answer, last_boxed
from service.errors import InputError
from service.hashing import canonical_text
from service.questions.files import BELONGS_TO_A_QUESTION, QUESTION_NAMES, JsonNumber, letter, option_letters
from service.questions.images import ImageProblem, RowImages, order_numbered
from service.questions.programs import read_asked
from service.questions.question import Question, make_question

CANDIDATES: dict[str, tuple[str, ...]] = {
    "question": QUESTION_NAMES,
    "answer": (
        *("answer", "final_answer", "gold", "ground_truth", "target", "expected_answer"),
        *("ground_truth_answer", "correct_answer", "reference_answer", "answerKey", "golden"),
    ),
    "solution": ("solution", "response", "output", "rationale"),
    "level": ("level", "difficulty"),
    "subject": ("subject", "type", "problem_type", "category", "subfield", "topic", "course"),
    "images": ("images", "decoded_image", "image"),
}
PROGRAM_CANDIDATES: dict[str, tuple[str, ...]] = CANDIDATES | {
    "images": (),
    "question": ("prompt", "text", *CANDIDATES["question"]),
    "answer": ("test_list", "tests", "test", "answer"),
    "solution": ("canonical_solution", "code", "reference_solution", "solution"),
}
"""Where questions ask for programs; the answer's column holds the tests."""
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
        given: dict[str, list[str]] = {part: [] for part in CANDIDATES}
        for word in words:
            part, equals, name = word.partition("=")
            if part not in given or not equals:
                raise InputError(f"--column {word}: give PART=NAME, where PART is one of {', '.join(given)}.")
            given[part].append(name)
        questions = given.pop("question")
        if several := [part for part, names in given.items() if len(names) > 1]:
            raise InputError(f"--column {several[0]}=: only a question can have several columns.")
        others: dict[str, Any] = {part: names[0] for part, names in given.items() if names}
        return cls(questions[0] if questions else None, further=tuple(questions[1:]), **others)

    def as_dict(self) -> dict[str, str]:
        """Return the columns that are set, by what they hold; without `further`."""
        return {part: name for part in CANDIDATES if (name := getattr(self, part)) is not None}

    def names(self) -> list[str]:
        """Return all columns that are set."""
        return [*self.as_dict().values(), *self.further]

    def left_out(self, present: Collection[str]) -> list[str]:
        """Return the columns that are not read, though a question may make no sense without them."""
        read = {name.split(".")[0] for name in self.names()}
        options = option_letters(present)
        wanted = [name for name in present if name.lower() in BELONGS_TO_A_QUESTION or name in options]
        return [name for name in wanted if name not in read]


@dataclass(frozen=True)
class RowLimits:
    """What a row may hold: the longest text in characters; whether control characters are removed."""

    max_characters: int = 100_000
    strip_control: bool = False


class RowProblem(Exception):
    """A row that cannot be used; the message says why and, where there is one, the way out."""


def resolve(
    columns: Columns, present: Collection[str], source: str, kind: AnswerKind = AnswerKind.LATEX
) -> Columns:
    """Check the columns that were named against those there are, and look for the others by usual names.

    The answer comes from the answer column; only where there is none (and none was named), from the last
    box of the solution column. Questions that ask for programs have both: tests, and a program. An empty name
    for the column of images leaves all of them out. Usual names are looked for as they are, then in any case.
    """
    there = ", ".join(sorted(present)) or "none"
    if columns.images == "":
        others = [name for name in present if name.lower() not in CANDIDATES["images"]]
        return resolve(replace(columns, images=None), others, source, kind)
    chosen: dict[str, Any] = columns.as_dict()
    for part, name in (*chosen.items(), *(("question", name) for name in columns.further)):
        if name.split(".")[0] not in present and name not in present:
            raise InputError(f'{source}: no column "{name}" (--column {part}=). Available: {there}.')
    programs = kind is AnswerKind.CODE
    for part, names in (PROGRAM_CANDIDATES if programs else CANDIDATES).items():
        # A solution column that the user named is to be used, so no answer column is looked for.
        answered = (part == "answer" and columns.solution) or (part == "solution" and "answer" in chosen)
        if part in chosen or (answered and not programs):
            continue
        free = [name for name in present if name not in chosen.values() and name not in columns.further]
        if (column := usual_column(names, free)) is not None:
            chosen[part] = column
    if "question" not in chosen:
        raise InputError(
            f"{source}: no column looks like the question. Pass --column question=NAME. Available: {there}."
        )
    if programs and "images" in chosen:
        raise InputError(f"{source}: programming questions cannot have images. Remove --column images=NAME.")
    if programs and columns.further:
        raise InputError(f"{source}: programming questions need a single --column question=NAME.")
    if programs and "answer" not in chosen:
        raise InputError(f"{source}: no column for tests. Pass --column answer=NAME. Available: {there}.")
    if "answer" not in chosen and "solution" not in chosen:
        tests = [name for name in ("test", "tests", "test_list") if name in present]
        if tests:
            raise InputError(
                f'{source}: no column looks like the answer, but "{tests[0]}" looks like a program\'s '
                "tests. If the questions ask for programs, pass --kind code."
            )
        raise InputError(
            f"{source}: no column looks like the answer. Pass --column answer=NAME, or "
            f"--column solution=NAME if the answer is in the solution's \\boxed{{}}. Available: {there}."
        )
    return replace(columns, **chosen)


def usual_column(names: Sequence[str], present: Sequence[str]) -> str | None:
    """Return the first of some usual names that is there, as it is or else in any case; None without one."""
    spelled = {name.lower(): name for name in reversed(present)} | {name: name for name in present}
    return next((spelled[name] for name in names if name in spelled), None)


def read_question(
    values: Mapping[str, Any], columns: Columns, limits: RowLimits, images: RowImages | None = None
) -> Question:
    """Return the question of a row; its answer is empty where the row has none. `images` keeps its images.

    Raises:
        RowProblem: no question text, a value that is no text, control characters, a text too long, an image
            that cannot be used, or placeholders that do not go with the images.
    """
    letters = option_letters(columns.further)
    below = {name: _further_text(value_at(values, name), name, limits) for name in columns.further}
    if all(_LETTERED.match(below[name]) for name in letters if below[name]):
        letters = {}
    parts = [f"({letters[name]}) {part}" if name in letters else part for name, part in below.items() if part]
    text = "\n".join((_question_text(values, columns, limits), *parts))
    if columns.answer is not None:
        answer = _answer(value_at(values, columns.answer), columns.answer, limits)
    else:
        solution = _text(value_at(values, columns.solution), "solution", columns.solution, limits)
        answer = last_boxed(solution) or ""
    level, subject = (_label(values, name, limits) for name in (columns.level, columns.subject))
    try:
        ids = () if images is None else images.take(value_at(values, columns.images))
        text, ids = order_numbered(text, ids)
        return make_question(text, answer, level, subject, images=ids)
    except ImageProblem as problem:
        raise RowProblem(f'"{columns.images}": {problem}') from problem
    except InputError as problem:
        raise RowProblem(f'"{columns.images}" contains {problem}') from problem


def _question_text(values: Mapping[str, Any], columns: Columns, limits: RowLimits) -> str:
    text = _text(value_at(values, columns.question), "question", columns.question, limits)
    if not text.strip():
        raise RowProblem(f'"{columns.question}" is empty')
    return text


def lacking_columns(values: Mapping[str, Any], columns: Columns, text: str) -> list[str]:
    """Return the columns that are not read, though they hold what a question may need and its text lacks."""
    names = []
    for name in columns.left_out(values):
        value = values[name]
        try:
            lines = _further_text(value, name, RowLimits()).splitlines()
        except RowProblem:
            lines = [str(value)]
        if any(_LETTER_OR_NUMBER.sub("", line).strip() not in text for line in lines):
            names.append(name)
    return names


def read_program(values: Mapping[str, Any], columns: Columns, limits: RowLimits) -> tuple[Question, str]:
    """Return the question of a row that asks for a program, and a program that answers it ("" for none).

    Raises:
        RowProblem: as `read_question`.
    """
    text = _question_text(values, columns, limits)
    tests = _program_value(values, "answer", columns.answer)
    if isinstance(tests, list) and all(isinstance(test, str) for test in tests):
        tests = [_checked(test, columns.answer, limits) for test in tests]
    else:
        tests = _text(tests, "answer", columns.answer, limits)
    solution = _program_value(values, "solution", columns.solution)
    solution = _text(solution, "solution", columns.solution, limits)
    try:
        text, gold, reference = read_asked(values, text, tests, solution)
    except ValueError as error:
        raise RowProblem(str(error)) from error
    level, subject = (_label(values, name, limits) for name in (columns.level, columns.subject))
    return make_question(text, gold if tests else "", level, subject, AnswerKind.CODE), reference


def _program_value(values: Mapping[str, Any], part: str, column: str | None) -> Any:
    """Return the value of a column; if a row has none, of another usual one, as in files of mixed rows."""
    others = (values[name] for name in PROGRAM_CANDIDATES[part] if values.get(name) is not None)
    value = value_at(values, column)
    return next(others, None) if value is None else value


def value_at(values: Mapping[str, Any], column: str | None) -> Any:
    """Return what stands in a column of a row, to which dots may lead; None where nothing does.

    Of a list of objects a dot leads into each: `samples.text` is the list of their texts.
    """
    if column is None:
        return None
    if column in values:
        return values[column]
    value: Any = values
    for step in column.split("."):
        value = _step_into(value, step)
    return value


def _step_into(value: Any, step: str) -> Any:
    if isinstance(value, list):
        each = [_step_into(entry, step) for entry in value]
        return each if any(entry is not None for entry in each) else None
    return value.get(step) if isinstance(value, Mapping) else None


def asked_in(messages: Any) -> str | None:
    """Return what the one message of a user asks in a list of chat messages; None where it is none."""
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        return None
    asked = [each.get("content") for each in messages if each.get("role") == "user"]
    return asked[0] if len(asked) == 1 and isinstance(asked[0], str) else None


def _text(value: Any, part: str, column: str | None, limits: RowLimits) -> str:
    if value is None:
        return ""
    if part == "question":
        value = asked_in(value) or value
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise RowProblem(f'"{column}" is {_kind(value)}, not text. Choose another: --column {part}=NAME')
    return _checked(value, column, limits)


def _further_text(value: Any, column: str, limits: RowLimits) -> str:
    """Return what stands below a question, "" for nothing; a list as options with letters, a line each.

    Options may have labels of their own: `{"A": ...}`.

    Raises:
        RowProblem: an object, control characters, or a text too long.
    """
    labelled = isinstance(value, Mapping) and all(_LABEL.fullmatch(str(label)) for label in value)
    if labelled and value and all(isinstance(text, str) for text in value.values()):
        return "\n".join(f"({label}) {_further_text(text, column, limits)}" for label, text in value.items())
    if isinstance(value, list):
        lines = [_further_text(entry, column, limits) for entry in value]
        if not lines or all(_LETTERED.match(line) for line in lines):
            return "\n".join(lines)
        return "\n".join(f"({letter(place)}) {line}" for place, line in enumerate(lines))
    return _scalar(value, column, limits, "question").strip()


def _answer(value: Any, column: str, limits: RowLimits) -> str:
    if isinstance(value, list):
        parts = [_answer(part, column, limits) for part in value]
        return ", ".join(part for part in parts if part)
    return bare_answer(_scalar(value, column, limits, "answer"))


def bare_answer(text: str) -> str:
    """Return what a gold answer is without its solution: what is boxed, or behind four hashes as in GSM8K."""
    boxed = boxed_answer(text)
    if boxed is not None:
        return boxed
    hashes = _HASHES.findall(text)
    return str(hashes[-1]) if hashes else text


def _label(values: Mapping[str, Any], column: str | None, limits: RowLimits) -> str | None:
    value = value_at(values, column)
    if column is None or isinstance(value, list | Mapping):
        return None
    return canonical_text(_scalar(value, column, limits)) or None


def _scalar(value: Any, column: str, limits: RowLimits, part: str = "") -> str:
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
        raise RowProblem(f'"{column}" is an object. Select a value: --column {part}={column}.NAME')
    return _checked(str(value), column, limits)


def _checked(text: str, column: str | None, limits: RowLimits) -> str:
    if len(text) > limits.max_characters:
        raise RowProblem(
            f'"{column}" has {len(text):,} characters, more than {limits.max_characters:,}. Raise '
            "--max-characters if that is intended"
        )
    bad = next((index for index, char in enumerate(text) if _is_control(char)), None)
    if bad is None:
        return text
    if limits.strip_control:
        return "".join(char for char in text if not _is_control(char))
    char = text[bad]
    eaten = _EATEN_BACKSLASH.get(char)
    hint = f' (often caused by "{eaten}" in LaTeX after a lost backslash)' if eaten else ""
    raise RowProblem(
        f'"{column}" contains the control character U+{ord(char):04X} at character {bad + 1}{hint}. Fix the '
        "file, or pass --strip-control to remove such characters"
    )


def _is_control(char: str) -> bool:
    return char not in "\n\t\r" and unicodedata.category(char) in ("Cc", "Cs")


def _kind(value: Any) -> str:
    kind = {"list": "a list", "dict": "an object", "bool": "true or false"}.get(type(value).__name__)
    number = f"the number {value}"[:60] if isinstance(value, JsonNumber | int | float) else "no text"
    return kind or number
