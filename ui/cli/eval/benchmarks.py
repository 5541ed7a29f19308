"""`tagrpo benchmarks`: list, check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from ui.cli import exits, output
from ui.cli.eval.settings import BenchmarkRows
from ui.cli.output import Terminal

if TYPE_CHECKING:
    from evaluator.benchmarks import Benchmark, GoldFailure, LoadedBenchmark
    from evaluator.grading import Grader

FAILURES_SHOWN = 10


def list_(*, terminal: Terminal) -> None:
    """List the known benchmarks with size, answer kind, source and license.

    Example: tagrpo benchmarks list
    """
    from evaluator.benchmarks import BENCHMARKS

    rows = [_row(benchmark) for benchmark in BENCHMARKS.values()]
    columns = ["name", "title", "rows", "kind", "from", "gated", "licence"]
    cells = [[_yes_or_no(row[column]) for column in columns] for row in rows]
    terminal.emit({"benchmarks": rows}, output.table, columns, cells)


def _row(benchmark: "Benchmark") -> dict[str, Any]:
    after = ("split", "revision", "content_hash", "gated", "licence", "citation", "note")
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "rows": benchmark.rows,
        "kind": benchmark.kind.value,
        "from": benchmark.hub_id,
        "configs": list(benchmark.configs),
        **{name: getattr(benchmark, name) for name in after},
    }


def _yes_or_no(value: Any) -> Any:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


@dataclass(frozen=True)
class _Checked:
    name: str
    loaded: "LoadedBenchmark | None" = None
    problem: str = ""
    failures: "tuple[GoldFailure, ...]" = ()

    @property
    def fine(self) -> bool:
        return not self.problem and not self.failures


def check(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME]...",
            help="Names of known benchmarks, or .toml and .jsonl files. Default: all known benchmarks.",
        ),
    ] = None,
    *,
    rows: BenchmarkRows,
    terminal: Terminal,
) -> None:
    """Load benchmarks and check the row count, the content, and every gold answer against itself.

    Exit code 3: a benchmark cannot be loaded, its content differs, or gold answers fail. Rows are numbered
    from 0; for gated benchmarks only row numbers are shown.

    Example: tagrpo benchmarks check mine.jsonl

    Example: tagrpo benchmarks check aime24 --from aime24.jsonl
    """
    from evaluator.benchmarks import BENCHMARKS, find_benchmark
    from evaluator.grading import Grader

    wanted = names or list(BENCHMARKS)
    load = rows.loader(wanted)
    for name in wanted:
        find_benchmark(name)
    results: list[_Checked] = []
    with terminal.progress("check") as bar, Grader() as grader:
        for count, name in enumerate(wanted):
            bar.update(count, len(wanted), name)
            results.append(_check(name, load, grader))
        bar.update(len(wanted), len(wanted))
    terminal.emit({"benchmarks": [_json(result) for result in results]}, lambda: [*map(_print, results)])
    off = [result.name for result in results if not result.fine]
    if off:
        raise exits.needs_attention(f"failed checks: {', '.join(off)}")


def _check(name: str, load: "Callable[[str], LoadedBenchmark]", grader: "Grader") -> _Checked:
    from evaluator.benchmarks import ChangedBenchmarkError, check_golds
    from service.errors import PrerequisiteError

    try:
        loaded = load(name)
    except (ChangedBenchmarkError, PrerequisiteError) as error:
        return _Checked(name, problem=str(error))
    return _Checked(name, loaded, failures=tuple(check_golds(loaded, grader)))


def _print(result: _Checked) -> None:
    from evaluator.benchmarks import describe_failure, source_name

    loaded = result.loaded
    if loaded is None:
        output.say(f"{result.name}: {result.problem}")
        return
    problems = len(loaded.problems)
    golds = (
        "all gold answers grade as correct"
        if not result.failures
        else f"{len(result.failures):,} gold answers fail"
    )
    output.say(
        f"{loaded.name}: {problems:,} problems from {source_name(loaded.source)}, "
        f"content {loaded.content}, {golds}"
    )
    failures = [describe_failure(loaded, failure) for failure in result.failures]
    output.say_some(failures, FAILURES_SHOWN, "--json")


def _json(result: _Checked) -> dict[str, Any]:
    loaded = result.loaded
    if loaded is None:
        return {"name": result.name, "ok": False, "problem": result.problem}
    return {
        "name": loaded.name,
        "ok": result.fine,
        "problems": len(loaded.problems),
        "problems_hash": loaded.problems_hash,
        "source": loaded.source,
        "content": loaded.content,
        "gold_failures": [
            {"row": failure.row, "problem": failure.problem_id, "reason": failure.reason}
            for failure in result.failures
        ],
    }
