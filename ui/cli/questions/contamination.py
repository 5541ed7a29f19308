"""`tagrpo questions contamination`: which questions or neighbors repeat problems of a benchmark."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.eval.settings import BenchmarkRows
from ui.cli.files import RowsFile
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.benchmarks import LoadedBenchmark
    from service.database import Database
    from service.questions.contamination import Overlap, Settings, Text
    from service.questions.duplicates import EqualAnswers

PAIRS_SHOWN = 20


@dataclass(frozen=True)
class _Side:
    """A set of texts: its name, its content hash, and for each text the row it stands in."""

    name: str
    hash: str
    texts: "tuple[Text, ...]"
    rows: dict[str, int]


def contamination(
    set_name: Annotated[str, Argument(metavar="SET", help="Name of a question set.")],
    benchmark: Annotated[
        list[str], Option(help="Known benchmark, or a .toml or .jsonl file. Repeat the option for several.")
    ],
    neighbors: Annotated[
        str | None, Option(help="Also check the neighbors of this neighbor set (NAME, NAME@3).")
    ] = None,
    ngram: Annotated[int, Option(help="Number of words in an n-gram.")] = 8,
    threshold: Annotated[
        float, Option(help="Share of a problem's n-grams that a text must contain to match, 0 to 1.")
    ] = 0.5,
    ratio: Annotated[float, Option(help="Fuzzy ratio from which two texts match, 50 to 100.")] = 90,
    *,
    rows: BenchmarkRows,
    file: RowsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """Find questions (and neighbors) that repeat benchmark problems, and store the result for reports.

    exact: the same words, regardless of formatting. fuzzy: nearly the same words. n-gram: the text contains
    long passages of the problem. variant: similar wording, but other numbers, another answer or other images;
    variants are counted separately, since they are usually different problems. Rows are numbered from 0. No
    texts are printed or written.

    Exit code 3: problems are repeated (variants do not count).

    Example: tagrpo questions contamination math --benchmark math500

    Example: tagrpo questions contamination math --benchmark mine.jsonl --out pairs.jsonl
    """
    from evaluator.grading import Grader
    from service.questions.contamination import Settings, store_check

    load = rows.loader(benchmark)
    file.check()
    settings = Settings(ngram, threshold, ratio)
    with (
        terminal.progress("contamination") as bar,
        db.open() as database,
        Grader() as grader,
    ):
        sides = _sides(database, set_name, neighbors)
        loaded = [load(name) for name in benchmark]

        def equal(pairs: Sequence[tuple[str, str]]) -> list[bool]:
            return [value == "correct" for value in grader.equal_many(pairs)]

        checks: list[dict[str, Any]] = []
        pairs: list[dict[str, Any]] = []
        for against in loaded:
            for side in sides:
                overlaps = _find(side, against, settings, equal, bar)
                checks.append(_check_json(side, against, overlaps))
                pairs += _pairs(side, against, overlaps)
                with database.write() as session:
                    store_check(
                        session,
                        set_name=side.name,
                        set_hash=side.hash,
                        benchmark=against.name,
                        problems_hash=against.problems_hash,
                        settings=settings,
                        overlaps=overlaps,
                    )
    file.write(pairs)
    record = {"settings": settings.to_json(), "checks": checks, "pairs": pairs}
    terminal.emit(record, _print, checks, pairs, file.out)
    repeated = sum(check["repeated_problems"] for check in checks)
    if repeated:
        raise exits.needs_attention(f"{plural(repeated, 'benchmark problem')} repeated")


def _sides(database: "Database", set_name: str, neighbors: str | None) -> list[_Side]:
    from rephraser.sets import load_set
    from service.questions import get_set, load_members
    from service.questions.contamination import Text

    with database.read() as session:
        stored = get_set(session, set_name)
        members = [member for member in load_members(session, set_name) if member.held is None]
        texts = tuple(
            Text(member.question.id, member.question.text, member.question.answer, member.question.images)
            for member in members
        )
        rows = {member.question.id: member.position for member in members}
        sides = [_Side(set_name, stored.content_hash, texts, rows)]
        if neighbors is not None:
            published = load_set(session, neighbors)
            of_neighbors: dict[str, Text] = {}
            places = {}
            for row, entry in enumerate(published.entries):
                answer, images = entry.question.answer, entry.question.images
                for neighbor in entry.neighbors:
                    id = neighbor.candidate_id
                    of_neighbors[id], places[id] = Text(id, neighbor.text, answer, images), row
            header = published.header
            sides.append(_Side(header.ref, header.content_hash, tuple(of_neighbors.values()), places))
    return sides


def _find(
    side: _Side, loaded: "LoadedBenchmark", settings: "Settings", equal: "EqualAnswers", bar: output.Bar
) -> "list[Overlap]":
    from service.questions.contamination import Text, find_overlaps

    return find_overlaps(
        side.texts,
        [Text(problem.id, problem.text, problem.answer, problem.images) for problem in loaded.problems],
        settings,
        equal=equal,
        progress=output.stage(bar, f"{side.name} and {loaded.name}"),
    )


def _check_json(side: _Side, loaded: "LoadedBenchmark", overlaps: "Sequence[Overlap]") -> dict[str, Any]:
    from service.questions.contamination import MEASURES, VARIANT

    by_measure = Counter(overlap.measure for overlap in overlaps)
    repeated = {overlap.problem_id for overlap in overlaps if overlap.measure != VARIANT}
    return {
        "set": side.name,
        "texts": len(side.texts),
        "benchmark": loaded.name,
        "problems": len(loaded.problems),
        "problems_hash": loaded.problems_hash,
        "repeated_problems": len(repeated),
        "pairs": {measure: by_measure[measure] for measure in MEASURES},
    }


def _pairs(side: _Side, loaded: "LoadedBenchmark", overlaps: "Sequence[Overlap]") -> list[dict[str, Any]]:
    problem_rows = {problem.id: row for row, problem in enumerate(loaded.problems)}
    return [
        {
            "set": side.name,
            "benchmark": loaded.name,
            "source_id": overlap.source_id,
            "row": side.rows[overlap.source_id],
            "problem_id": overlap.problem_id,
            "problem_row": problem_rows[overlap.problem_id],
            "measure": overlap.measure,
            "score": overlap.score,
        }
        for overlap in overlaps
    ]


def _print(checks: Sequence[dict[str, Any]], pairs: Sequence[dict[str, Any]], out: Path | None) -> None:
    from service.questions.contamination import MEASURES, VARIANT

    columns = ("set", "texts", "benchmark", "problems")
    rows = [[*(check[name] for name in columns), *check["pairs"].values()] for check in checks]
    output.table([*columns, *MEASURES], rows)
    lines = [
        f"{pair['measure']} {pair['score']:g}: row {pair['row']} of {pair['set']} ({pair['source_id']}), "
        f"row {pair['problem_row']} of {pair['benchmark']}"
        for pair in pairs
        if pair["measure"] != VARIANT
    ]
    output.say_some(lines, PAIRS_SHOWN, "all are in {out}" if out is None else f"all in {out}")
