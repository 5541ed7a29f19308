"""Benchmarks of the user's own: a file of rows, or a few lines of TOML that say where the rows are."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.types import Benchmark, BenchmarkColumns
from evaluator.grading import AnswerKind
from evaluator.grading.compare import read_tolerance
from service.errors import InputError
from service.questions import hub
from service.questions.store import default_set_name

Rule: TypeAlias = tuple[Callable[[Any], bool], str]
"""Whether a value may stand there, and what is needed where it may not."""

_TEXT: Rule = (lambda value: isinstance(value, str) and bool(value.strip()), "a text in quotes is needed")
_COLUMN: Rule = (lambda value: isinstance(value, str) and bool(value), "the name of a column is needed")
_NAMES: Rule = (
    lambda value: isinstance(value, list) and all(isinstance(name, str) and name for name in value),
    'a list of names is needed, like ["a", "b"]',
)
_KEYS: Mapping[str, Rule] = {
    **dict.fromkeys(("name", "title", "file", "hub", "split", "revision", "kind"), _TEXT),
    "tolerance": (lambda value: type(value) in (int, float) or _TEXT[0](value), _TEXT[1]),
    **dict.fromkeys(("licence", "citation", "content_hash"), _TEXT),
    "configs": _NAMES,
    "rows": (lambda value: type(value) is int and value >= 1, "a whole number from 1 is needed"),
    "columns": (
        lambda value: isinstance(value, dict),
        'columns must be a table: [columns], then question = "..."',
    ),
    "gated": (lambda value: isinstance(value, bool), "true or false is needed"),
}
_COLUMNS: Mapping[str, Rule] = {
    "question": (lambda value: _COLUMN[0](value) or (_NAMES[0](value) and value), f"{_COLUMN[1]}, or a list"),
    **dict.fromkeys(("answer", "solution", "kind", "tolerance", "images", "choices"), _COLUMN),
    "options": _NAMES,
}


def read_definition(path: Path) -> Benchmark:
    """Return the benchmark that a file defines: a `.toml`, or a file of rows under its own name.

    Raises:
        InputError: no such file, broken TOML, an unknown key or a value that cannot be used; the message
            names file and line.
    """
    if path.suffix.lower() == ".toml":
        return _Definition(path).benchmark()
    name = _file_name(path)
    _check_name(name, str(path))
    return Benchmark(
        name=name,
        title=name,
        hub_id=None,
        configs=(),
        split=None,
        revision=None,
        rows=None,
        columns=BenchmarkColumns(),
        kind=AnswerKind.LATEX,
        licence="not declared",
        citation="",
        file=path,
    )


def _file_name(path: Path) -> str:
    """Return a benchmark's name by its file; runs are named after it, so only ASCII stays."""
    plain = unicodedata.normalize("NFKD", path.stem).encode("ascii", "ignore").decode("ascii")
    return default_set_name(plain) or "problems"


def _check_name(name: str, place: str) -> None:
    if name in BENCHMARKS:
        raise InputError(
            f'{place}: the name "{name}" is that of a known benchmark. Rename it, or load this file as its '
            f"rows: {name} --from FILE."
        )


class _Definition:
    """A TOML file with the lines of its keys, for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_bytes().decode("utf-8-sig")
            self.values: dict[str, Any] = tomllib.loads(text)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InputError(f"{path}:{line}: not UTF-8 (byte 0x{error.object[error.start]:02x}).") from error
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path}: not valid TOML ({error}).") from error
        self.text = text

    def place(self, key: str) -> str:
        """Return `file:line` of a key, the file alone where the key stands in another form."""
        match = re.search(rf"^[ \t]*\[?[\"']?{re.escape(key)}[\"']?[ \t]*[=\]]", self.text, re.M)
        return f"{self.path}:{self.text.count(chr(10), 0, match.start()) + 1}" if match else str(self.path)

    def fail(self, key: str, problem: str) -> InputError:
        return InputError(f"{self.place(key)}: {problem}.")

    def benchmark(self) -> Benchmark:
        if not self.values:
            raise InputError(f'{self.path}: is empty. It needs at least file = "..." or hub = "...".')
        self._check(self.values, _KEYS)
        value_of = self.values.get
        file, hub_id = value_of("file"), value_of("hub")
        if (file is None) == (hub_id is None):
            raise InputError(f'{self.path}: give either file = "rows.jsonl" or hub = "org/name".')
        if hub_id is not None and not hub.is_id(hub_id):
            raise self.fail("hub", f'"{hub_id}" is not a Hub dataset id like org/name')
        for key in ("split", "revision", "configs"):
            if file is not None and key in self.values:
                raise self.fail(key, f"{key} applies to Hub datasets only, not to file = ...")
        name = value_of("name") or _file_name(self.path)
        if default_set_name(name) != name or not name.isascii():
            raise self.fail(
                "name", f'"{name}" is not a valid benchmark name. Use letters (a to z), digits, "-", "_", "."'
            )
        _check_name(name, self.place("name"))
        kind, columns = self._kind(), self._columns()
        if columns.options and kind is not AnswerKind.CHOICE:
            raise self.fail("options", 'options need kind = "choice"')
        return Benchmark(
            name=name,
            title=value_of("title", name),
            hub_id=hub_id,
            configs=tuple(value_of("configs", ())),
            split=value_of("split", "test" if hub_id else None),
            revision=value_of("revision"),
            rows=value_of("rows"),
            columns=columns,
            kind=kind,
            licence=value_of("licence", "not declared"),
            citation=value_of("citation", ""),
            gated=value_of("gated", False),
            content_hash=value_of("content_hash"),
            tolerance=self._tolerance(kind),
            file=None if file is None else self.path.parent / file,
        )

    def _check(self, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
        for key, value in values.items():
            if key not in rules:
                raise self.fail(key, f'unknown key "{key}". Known keys: {", ".join(rules)}')
            holds, needed = rules[key]
            if not holds(value):
                raise self.fail(key, f"{key} is {value!r}, but {needed}")

    def _kind(self) -> AnswerKind:
        name = self.values.get("kind", AnswerKind.LATEX)
        try:
            return AnswerKind(name)
        except ValueError:
            kinds = ", ".join(AnswerKind)
            raise self.fail("kind", f'"{name}" is not a kind of answer. Kinds: {kinds}') from None

    def _tolerance(self, kind: AnswerKind) -> str | None:
        if "tolerance" not in self.values:
            return None
        tolerance = str(self.values["tolerance"])
        if kind is not AnswerKind.TOLERANCE:
            raise self.fail("tolerance", 'a tolerance needs kind = "tolerance"')
        try:
            read_tolerance(tolerance)
        except InputError as error:
            raise self.fail("tolerance", str(error)) from error
        return tolerance

    def _columns(self) -> BenchmarkColumns:
        named = dict(self.values.get("columns", {}))
        self._check(named, _COLUMNS)
        options = tuple(named.pop("options", ()))
        if options and ("question" not in named or len(options) < 2 or "answer" in named):
            raise self.fail(
                "options",
                "options need a question column, no answer column, and at least two columns, the correct "
                "one first",
            )
        question = named.pop("question", None)
        names: list[str] = question if isinstance(question, list) else []
        if options and names:
            raise self.fail("options", "options need one question column")
        if names:
            question, *names = names
        return BenchmarkColumns(question=question, options=options, further=tuple(names), **named)
