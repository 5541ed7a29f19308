"""`tagrpo questions contamination`: which questions or neighbors repeat problems of a benchmark."""

from typing import Annotated

from typer import Argument, Option

from ui.cli import exits
from ui.cli.eval.settings import BenchmarkRows
from ui.cli.output import plural, terminal
from ui.cli.settings import db


def contamination(
    set_name: Annotated[str, Argument(metavar="SET")],
    benchmark: Annotated[list[str], Option()],
    neighbors: str | None = None,
    ngram: Annotated[int, Option(min=1, max=100)] = 8,
    threshold: Annotated[float, Option(min=0.01, max=1)] = 0.5,
    ratio: Annotated[float, Option(min=50, max=100)] = 90,
    *,
    rows: BenchmarkRows,
) -> None:
    """Find questions and neighbors that repeat benchmark problems; reports mention it.

    exact: the same words, regardless of formatting. fuzzy: nearly the same words. n-gram: the text contains
    long passages of the problem. variant: similar wording, but other numbers, answers or images: usually a
    different problem. Rows are numbered from 0. No texts are printed.

    Exit code 3: problems are repeated (variants do not count).

    Example: tagrpo questions contamination math --benchmark math500

    Args:
        set_name: Name of a question set.
        benchmark: Known benchmark, or a .toml or .jsonl file.
        neighbors: Also check the neighbors of this neighbor set (NAME, NAME@3).
        ngram: Number of words in an n-gram.
        threshold: Share of a problem's n-grams that a text must contain to match, 0 to 1.
        ratio: Minimum fuzzy similarity of matching texts, 50 to 100.
    """
    from evaluator.grading import Grader
    from rephraser.contamination import check_contamination
    from service.questions.contamination.finding import Settings

    load = rows.loader(benchmark)
    settings = Settings(ngram, threshold, ratio)
    with terminal.progress("contamination") as report, db.open() as database, Grader() as grader:
        loaded = [load(name) for name in benchmark]
        checks, pairs = check_contamination(database, set_name, neighbors, loaded, settings, grader, report)
    terminal.show({"settings": settings.to_json(), "checks": checks, "pairs": pairs})
    if repeated := sum(check["repeated_problems"] for check in checks):
        raise exits.needs_attention(f"{plural(repeated, 'benchmark problem')} repeated")
