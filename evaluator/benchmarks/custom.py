"""Benchmarks of the user's own: a file of rows, or a few lines of TOML that say where the rows are."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.types import Benchmark, BenchmarkColumns
from evaluator.grading import AnswerKind
from evaluator.grading.kinds import read_tolerance
from service.errors import InputError
from service.questions import hub
from service.questions.store import default_set_name

_TEXTS = (
    "name",
    "title",
    "file",
    "hub",
    "split",
    "revision",
    "kind",
    "tolerance",
    "licence",
    "citation",
    "content_hash",
)
_KEYS = (*_TEXTS, "configs", "rows", "columns", "gated")
_COLUMNS = ("question", "answer", "solution", "kind", "tolerance", "options")


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
            f'{place}: the name "{name}" is that of a known benchmark; rename it, or load this file as its '
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
        found = re.search(rf"^[ \t]*\[?[\"']?{re.escape(key)}[\"']?[ \t]*[=\]]", self.text, re.M)
        return f"{self.path}:{self.text.count(chr(10), 0, found.start()) + 1}" if found else str(self.path)

    def fail(self, key: str, problem: str) -> InputError:
        return InputError(f"{self.place(key)}: {problem}.")

    def benchmark(self) -> Benchmark:
        if not self.values:
            raise InputError(f'{self.path}: is empty; it needs at least file = "..." or hub = "...".')
        self._check_keys(self.values, _KEYS)
        texts = {key: self._text(key) for key in _TEXTS}
        file, hub_id = texts["file"], texts["hub"]
        if (file is None) == (hub_id is None):
            raise InputError(f'{self.path}: give either file = "rows.jsonl" or hub = "org/name".')
        if hub_id is not None and not hub.is_id(hub_id):
            raise self.fail("hub", f'"{hub_id}" is no id of a Hub data set, like org/name')
        for key in ("split", "revision", "configs"):
            if file is not None and key in self.values:
                raise self.fail(key, f"{key} is for data sets of the Hub; file = ... has none")
        name = texts["name"] or _file_name(self.path)
        if default_set_name(name) != name or not name.isascii():
            raise self.fail(
                "name", f'"{name}" cannot name a benchmark; use letters (a to z), digits, "-", "_", "."'
            )
        _check_name(name, self.place("name"))
        kind, columns = self._kind(texts["kind"]), self._columns()
        if columns.options and kind is not AnswerKind.CHOICE:
            raise self.fail("options", 'options need kind = "choice"')
        return Benchmark(
            name=name,
            title=texts["title"] or name,
            hub_id=hub_id,
            configs=self._configs(),
            split=texts["split"] or ("test" if hub_id else None),
            revision=texts["revision"],
            rows=self._rows(),
            columns=columns,
            kind=kind,
            licence=texts["licence"] or "not declared",
            citation=texts["citation"] or "",
            gated=self._flag("gated"),
            content_hash=texts["content_hash"],
            tolerance=self._tolerance(texts["tolerance"], kind),
            file=None if file is None else self.path.parent / file,
        )

    def _check_keys(self, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in values:
            if key not in known:
                raise self.fail(key, f'unknown key "{key}"; known are {", ".join(known)}')

    def _text(self, key: str) -> str | None:
        value = self.values.get(key)
        if key == "tolerance" and isinstance(value, float | int) and not isinstance(value, bool):
            return str(value)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.fail(key, f"{key} is {value!r}; a text in quotes is needed")
        return value

    def _flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, f"{key} is {value!r}; true or false is needed")
        return value

    def _rows(self) -> int | None:
        value = self.values.get("rows")
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise self.fail("rows", f"rows is {value!r}; a whole number from 1 is needed")
        return value

    def _configs(self) -> tuple[str, ...]:
        return self._names("configs", self.values.get("configs", []))

    def _names(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self.fail(key, f'{key} is {value!r}; a list of names is needed, like ["a", "b"]')
        return tuple(value)

    def _kind(self, name: str | None) -> AnswerKind:
        try:
            return AnswerKind(name) if name else AnswerKind.LATEX
        except ValueError:
            known = ", ".join(AnswerKind)
            raise self.fail("kind", f'"{name}" is no kind of answer; there are {known}') from None

    def _tolerance(self, tolerance: str | None, kind: AnswerKind) -> str | None:
        if tolerance is None:
            return None
        if kind is not AnswerKind.TOLERANCE:
            raise self.fail("tolerance", 'a tolerance needs kind = "tolerance"')
        try:
            read_tolerance(tolerance)
        except InputError as error:
            raise self.fail("tolerance", str(error)) from error
        return tolerance

    def _columns(self) -> BenchmarkColumns:
        value = self.values.get("columns", {})
        if not isinstance(value, dict):
            raise self.fail("columns", 'columns must be a table: [columns], then question = "..."')
        self._check_keys(value, _COLUMNS)
        options = self._names("options", value.get("options", []))
        named = {key: column for key, column in value.items() if key != "options"}
        for key, column in named.items():
            if not isinstance(column, str) or not column:
                raise self.fail(key, f"{key} is {column!r}; the name of a column is needed")
        if options and ("question" not in named or len(options) < 2 or "answer" in named):
            raise self.fail(
                "options",
                "options need a question column, no answer column, and two columns, the right one first",
            )
        return BenchmarkColumns(options=options, **named)
