"""`tagrpo eval benchmarks`: what is known of them, and whether they still are what they were."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ui.cli import exits
from ui.cli.eval.settings import BenchmarkRows
from ui.cli.output import terminal

if TYPE_CHECKING:
    from evaluator.benchmarks.types import LoadedBenchmark
    from evaluator.grading import Grader

AFTER = ("split", "revision", "content_hash", "gated", "licence", "citation", "note")


def benchmarks(
    names: Annotated[list[str] | None, Argument(metavar="[NAME|FILE]...")] = None,
    check: Annotated[bool, Option("--check")] = False,
    *,
    rows: BenchmarkRows,
) -> None:
    """List the known benchmarks; with names or files, load these and check them.

    A check compares the row count and the content with the known ones, and grades every gold answer against
    itself. Rows are numbered from 0; for gated benchmarks only row numbers are shown.

    Exit code 3: a benchmark cannot be loaded, its content differs, or gold answers fail.

    Example: tagrpo eval benchmarks

    Example: tagrpo eval benchmarks mine.jsonl

    Example: tagrpo eval benchmarks aime24 --from aime24.jsonl

    Args:
        names: Benchmarks to check, or .toml and .jsonl files of your own.
        check: Check all known benchmarks.
    """
    from evaluator.benchmarks.catalogue import BENCHMARKS
    from evaluator.benchmarks.loading import find_benchmark
    from evaluator.benchmarks.types import ChangedBenchmarkError
    from evaluator.grading import Grader
    from service.errors import PrerequisiteError

    load = rows.loader(names or list(BENCHMARKS))
    if not names and not check:
        terminal.rows(
            "benchmarks",
            [
                {
                    "name": benchmark.name,
                    "title": benchmark.title,
                    "rows": benchmark.rows,
                    "kind": benchmark.kind.value,
                    "from": benchmark.hub_id,
                    "configs": list(benchmark.configs),
                    **{name: getattr(benchmark, name) for name in AFTER},
                }
                for benchmark in BENCHMARKS.values()
            ],
            "name title rows kind from gated licence",
        )
        return
    names = names or list(BENCHMARKS)
    for name in names:
        find_benchmark(name)
    results: list[dict[str, Any]] = []
    with terminal.progress("check") as bar, Grader() as grader:
        for count, name in enumerate(names):
            bar.update(count, len(names), name)
            try:
                loaded = load(name)
            except (ChangedBenchmarkError, PrerequisiteError) as error:
                results.append({"name": name, "ok": False, "problem": str(error)})
            else:
                results.append(_check(loaded, grader))
        bar.update(len(names), len(names))
    terminal.show({"benchmarks": results})
    failed = [name for name, result in zip(names, results, strict=True) if not result["ok"]]
    if failed:
        raise exits.needs_attention(f"failed checks: {', '.join(failed)}")


def _check(loaded: "LoadedBenchmark", grader: "Grader") -> dict[str, Any]:
    from evaluator.benchmarks.golds import check_golds

    failures = [
        {"row": failure.row, "problem": failure.problem_id, "reason": failure.reason}
        for failure in check_golds(loaded, grader)
    ]
    return {
        "name": loaded.name,
        "ok": not failures,
        "problems": len(loaded.problems),
        "problems_hash": loaded.problems_hash,
        "source": loaded.source,
        "content": loaded.content,
        "gold_failures": failures,
    }
