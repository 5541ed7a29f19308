"""`tagrpo eval benchmarks`: what is known of them, and whether they still are what they were."""

from typing import Annotated, Any

from typer import Argument

from service.errors import PrerequisiteError
from ui.cli import output
from ui.cli.output import terminal
from ui.cli.settings import BenchmarkRows

LISTED = (
    *("name", "title", "rows", "kind", "configs", "split", "revision", "content_hash"),
    *("gated", "licence", "citation", "note"),
)


def benchmarks(
    names: Annotated[list[str] | None, Argument(metavar="[NAME|FILE]...")] = None,
    check: bool = False,
    *,
    rows: BenchmarkRows,
) -> None:
    """List the known benchmarks; with names or files, load these and check them.

    A check compares the rows with the known ones, and grades every gold answer against itself.

    Exit code 3: a benchmark cannot be loaded, its content differs, or gold answers fail.

    Example: tagrpo eval benchmarks aime24 --from aime24.jsonl

    Args:
        names: Benchmarks to check, or .toml and .jsonl files of your own.
        check: Check all known benchmarks.
    """
    from evaluator.benchmarks.catalogue import BENCHMARKS
    from evaluator.benchmarks.golds import check_golds
    from evaluator.benchmarks.loading import find_benchmark
    from evaluator.benchmarks.types import ChangedBenchmarkError
    from evaluator.grading import Grader

    load = rows.loader(names or list(BENCHMARKS))
    if not names and not check:
        known = [
            {"from": benchmark.hub_id, **{name: getattr(benchmark, name) for name in LISTED}}
            for benchmark in BENCHMARKS.values()
        ]
        terminal.rows("benchmarks", known, "name title rows kind from gated licence")
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
                continue
            failures = check_golds(loaded, grader)
            result = {"name": loaded.name, "ok": not failures, "problems": len(loaded.problems)}
            result |= {each: getattr(loaded, each) for each in ("problems_hash", "source", "content")}
            results.append({**result, "gold_failures": failures})
    terminal.show({"benchmarks": results})
    if failed := [name for name, result in zip(names, results, strict=True) if not result["ok"]]:
        raise output.needs_attention(f"failed checks: {', '.join(failed)}")
