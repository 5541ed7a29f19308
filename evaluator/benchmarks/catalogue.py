"""Benchmarks as TOML: those that tagrpo knows (`catalogue.toml`), and the user's own files."""

import json
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import field, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from evaluator.grading import AnswerKind
from evaluator.grading.compare import read_tolerance
from service.config import read_toml
from service.errors import InputError
from service.questions import hub
from service.runs.store import default_name

Text = Annotated[str, Field(pattern=r"\S")]
_CHECKED = ConfigDict(extra="forbid")


@checked_dataclass(frozen=True, config=_CHECKED)
class BenchmarkColumns:
    """Names of columns. None: the usual names are looked for (see `service.questions.columns`)."""

    question: Text | None = None
    answer: Text | None = None  # else the last box of `solution`
    solution: Text | None = None
    # of a multiple-choice question, the correct one first; they are shuffled and `answer` becomes a letter
    options: tuple[Text, ...] = ()
    kind: Text | None = None  # a row's own kind and tolerance
    tolerance: Text | None = None
    images: Text | None = None
    # the list of options, to which the answer is a letter; rows without any ask for something else
    choices: Text | None = None
    further: tuple[Text, ...] = ()  # parts of the question below `question`
    kinds: Mapping[str, AnswerKind] = field(default_factory=dict)  # what other names for kinds mean


@checked_dataclass(frozen=True, config=_CHECKED)
class Benchmark:
    """A benchmark: its place on the Hub, the expected rows, and what may be done with it."""

    name: Text
    title: Text
    hub_id: Text | None = None
    configs: tuple[Text, ...] = ()
    split: Text | None = None
    revision: Text | None = None  # commit of the Hub data set; None if none could be confirmed
    rows: Annotated[int, Field(ge=1)] | None = None
    columns: BenchmarkColumns = BenchmarkColumns()
    kind: AnswerKind = AnswerKind.LATEX
    licence: Text = "not declared"
    citation: str = ""
    gated: bool = False  # rows are never shown
    content_hash: str | None = None  # of its problems; None if no copy was at hand to compute it
    tolerance: str | None = None
    note: str = ""
    file: Path | None = None  # instead of the Hub for a benchmark of the user's own
    only: tuple[str, str] | None = None  # a column, and the value of the rows that are taken


_BENCHMARK: TypeAdapter[Benchmark] = TypeAdapter(Benchmark)


def _read(values: Mapping[str, Any]) -> Benchmark:
    """Return a benchmark from the keys of a definition."""
    values = {"hub_id" if key == "hub" else key: value for key, value in values.items()}
    columns = values.get("columns")
    if isinstance(columns, dict) and isinstance(names := columns.get("question"), list) and names:
        values["columns"] = {**columns, "question": names[0], "further": names[1:]}
    if type(values.get("tolerance")) in (int, float):
        values["tolerance"] = str(values["tolerance"])
    return _BENCHMARK.validate_json(json.dumps(values, default=str), strict=True)


BENCHMARKS: dict[str, Benchmark] = {
    name: _read({"name": name, **values})
    for name, values in tomllib.loads(
        resources.files("evaluator.benchmarks").joinpath("catalogue.toml").read_text(encoding="utf-8")
    ).items()
}


def is_secret(benchmark: str) -> bool:
    """Return whether a benchmark's texts must not be shown, given its label: those of gated ones."""
    name = benchmark.partition("[")[0]
    return name.startswith("gpqa") or (name in BENCHMARKS and BENCHMARKS[name].gated)


def read_definition(path: Path) -> Benchmark:
    """Return the benchmark that a file defines: a `.toml`, or a file of rows under its own name."""
    # Runs are named after a benchmark, so its name is ASCII.
    plain = unicodedata.normalize("NFKD", path.stem).encode("ascii", "ignore").decode("ascii")
    values: dict[str, Any] = {"name": default_name(plain) or "problems"}
    text = ""

    def refuse(key: str, problem: str) -> InputError:
        """Return the error of a key at its `file:line`; at the file if the key has another form."""
        match = re.search(rf"^[ \t]*\[?[\"']?{re.escape(key)}[\"']?[ \t]*[=\]]", text, re.M)
        place = f"{path}:{text.count(chr(10), 0, match.start()) + 1}" if match else str(path)
        return InputError(f"{place}: {problem}.")

    if path.suffix.lower() == ".toml":
        text, given = read_toml(path)
        if not given:
            raise InputError(f'{path}: is empty. Add at least file = "..." or hub = "...".')
        values |= given
    else:
        values["file"] = path.name
    try:
        benchmark = _read({"title": values["name"], **values})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(next(part for part in reversed(first["loc"]) if isinstance(part, str)))
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            raise refuse(key, f'unknown key "{key}"') from error
        raise refuse(key, f"{key} is {first['input']!r}: {first['msg']}") from error
    name, columns = benchmark.name, benchmark.columns
    if (benchmark.file is None) == (benchmark.hub_id is None):
        raise InputError(f'{path}: give either file = "rows.jsonl" or hub = "org/name".')
    if benchmark.hub_id is not None and not hub.is_id(benchmark.hub_id):
        raise refuse("hub", f'"{benchmark.hub_id}" is not a Hub dataset id like org/name')
    for key in ("split", "revision", "configs") if benchmark.file else ():
        if key in values:
            raise refuse(key, f"{key} applies to Hub datasets only, not to file = ...")
    if default_name(name) != name or not name.isascii():
        raise refuse(
            "name", f'"{name}" is not a valid benchmark name. Use letters (a to z), digits, "-", "_", "."'
        )
    if name in BENCHMARKS:
        raise refuse(
            "name",
            f'the name "{name}" belongs to a built-in benchmark. Rename yours, or load the built-in one from '
            f"your file: {name} --from FILE",
        )
    if benchmark.tolerance is not None:
        if benchmark.kind is not AnswerKind.TOLERANCE:
            raise refuse("tolerance", 'a tolerance needs kind = "tolerance"')
        try:
            read_tolerance(benchmark.tolerance)
        except InputError as error:
            raise refuse("tolerance", str(error)) from error
    if columns.options and (
        benchmark.kind is not AnswerKind.CHOICE
        or columns.question is None
        or columns.further
        or len(columns.options) < 2
        or columns.answer
    ):
        raise refuse(
            "options",
            'options need kind = "choice", one question column, no answer column, and at least two columns, '
            "the correct one first",
        )
    if benchmark.file is not None:
        return replace(benchmark, file=path.parent / benchmark.file)
    return replace(benchmark, split=benchmark.split or "test")
