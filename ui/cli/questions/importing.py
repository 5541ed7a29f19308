"""`tagrpo questions import` and `mix`: new sets, and what was odd about them."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import BadParameter, Option

from ui.cli import exits
from ui.cli.output import terminal
from ui.cli.settings import db

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.questions import Columns

PARTS = ("question", "answer", "solution", "level", "subject", "images")


def import_(
    source: str,
    name: str | None = None,
    column: Annotated[list[str] | None, Option(metavar="PART=NAME")] = None,
    kind: Literal["latex", "code"] = "latex",
    config: list[str] | None = None,
    split: str | None = None,
    revision: str | None = None,
    limit: Annotated[int | None, Option(min=1)] = None,
    max_characters: Annotated[int, Option(min=1)] = 100_000,
    strip_control: bool = False,
    skip_bad_rows: bool = False,
) -> None:
    """Import questions as a named set.

    Each gold answer is graded against itself. If it does not grade as correct, the question is held back with
    the reason. Repeated, contradicting and near-duplicate questions are reported. A set never changes:
    importing the same file again does nothing, and other questions need another name. Rows are numbered
    from 0.

    With --kind code the questions ask for Python programs: the answer column contains the tests, the solution
    column a program that passes them. The columns of HumanEval and MBPP are recognized.

    Exit code 3: some questions were held back or left out, contradict each other, or may lack the content of
    a column that was not read (options, choices, body, context, ...); or some gold answers are whole
    solutions.

    Example: tagrpo questions import math_train.jsonl --name math

    Example: tagrpo questions import open-r1/OpenR1-Math-220k --name openr1 --limit 20000

    Args:
        source: A .jsonl, .json, .csv, .tsv or .parquet file, or a Hub dataset id (org/name).
        name: Name of the set. Default: the file's name.
        column: Column with the question, answer, solution, level, subject or images; dots select nested
            values. By default common names are recognized. Repeat the option for several parts, and for a
            question in several columns, in order; a list becomes options with letters. images= imports no
            images. Without an answer column, the gold answer is the solution's last \\boxed{}.
        kind: Kind of the answers; code: a program that passes the tests in the answer column.
        config: Hub: configuration of the dataset. Repeat the option to join several.
        split: Hub: split. Default: train.
        revision: Hub: branch, tag or commit. Default: the newest.
        limit: Read only the first N rows.
        max_characters: Maximum characters of a question or answer.
        strip_control: Remove NUL and other control characters.
        skip_bad_rows: Skip unusable rows and list them.
    """
    from evaluator.grading import AnswerKind, Grader
    from service.questions import RowLimits, read_source, store_import
    from service.questions.store import check_set_name

    if name is not None:
        check_set_name(name)  # before a new database is made
    columns = _read_columns(column or [])
    with terminal.progress("import") as bar:
        rows = read_source(
            source,
            columns=columns,
            limits=RowLimits(max_characters, strip_control),
            kind=AnswerKind(kind),
            limit=limit,
            skip_bad_rows=skip_bad_rows,
            configs=config or (),
            split=split,
            revision=revision,
        )
        with db.open(create=True) as database, Grader() as grader:
            report = store_import(database, rows, grader, name=name, progress=bar)
    terminal.show(report.to_json(), hidden=("spec",))
    if problems := report.attention:
        raise exits.needs_attention("; ".join(problems))


def _read_columns(words: "Sequence[str]") -> "Columns":
    from service.questions import Columns

    given: dict[str, list[str]] = {}
    for word in words:
        part, equals, name = word.partition("=")
        if part not in PARTS or not equals:
            raise BadParameter(f"--column {word}: give PART=NAME, where PART is one of {', '.join(PARTS)}")
        given.setdefault(part, []).append(name)
    questions = given.pop("question", [])
    if several := [part for part, names in given.items() if len(names) > 1]:
        raise BadParameter(f"--column {several[0]}=: only a question can have several columns")
    others: dict[str, Any] = {part: names[0] for part, names in given.items()}
    return Columns(next(iter(questions), None), further=tuple(questions[1:]), **others)


def mix(
    name: str,
    base: Annotated[str, Option()],
    extra: Annotated[str, Option()],
    chunks: Annotated[int, Option(min=0)],
    seed: int = 0,
    chunk: Annotated[int | None, Option(min=1)] = None,
) -> None:
    """Mix a set with random chunks of another, without overlaps.

    The mix contains the usable questions of the base, then the chunks. Questions of the extra set that repeat
    or nearly repeat a question of the base or of an earlier chunk are skipped. With the same seed, a larger
    mix contains the smaller ones.

    Example: tagrpo questions mix math-x1.5 --base math --extra openr1 --chunks 1 --seed 7

    Args:
        name: Name of the new set.
        base: Base set; the mix has all its usable questions.
        extra: Extra set; the mix has random chunks of it.
        chunks: Number of chunks.
        seed: Random seed of the chunks.
        chunk: Questions per chunk. Default: half of the base.
    """
    from service.questions import mix_sets

    with terminal.progress("mix") as progress, db.open() as database:
        report = mix_sets(
            database, name, base=base, extra=extra, seed=seed, chunk=chunk, chunks=chunks, progress=progress
        )
    record = {"set": report.name, "created": report.created, "questions": report.base + report.extra}
    terminal.show({**record, "times": report.times, "spec": report.spec}, hidden=("spec",))
