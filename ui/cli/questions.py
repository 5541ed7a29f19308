"""`tagrpo questions`: import, mix, list, show and remove sets; contamination of benchmarks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from ui.cli import output
from ui.cli.lazy import lazy_imports
from ui.cli.output import plural, terminal
from ui.cli.settings import BenchmarkRows, Limit, db

with lazy_imports():
    from evaluator import grading
    from rephraser import candidates
    from rephraser.questions import contamination as overlaps
    from rephraser.questions import importing, mixing, store
    from rephraser.views import questions as question_views
    from service.questions import columns as question_columns
    from service.runs import store as runs


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

    tagrpo grades each gold answer against itself and holds the question back if that fails. It reports
    repeated, contradicting and near-duplicate questions. A set never changes: other questions need another
    name. Rows are numbered from 0.

    Exit code 3: questions were held back or left out, contradict each other, or may be incomplete.

    Example: tagrpo questions import math_train.jsonl --name math

    Args:
        source: A .jsonl, .json, .csv, .tsv or .parquet file, or a Hub dataset id (org/name).
        name: Name of the set. Default: the file's name.
        column: Column of a PART: question, answer, solution, level, subject or images. Default: the usual
            names. Dots select nested values; images= imports no images. Repeat the option for several parts
            or columns of a question. Without an answer column, the solution's last \\boxed{} is the answer.
        kind: code: questions for Python programs, with tests in the answer column.
        config: Hub: configuration of the dataset. Repeat the option to join several.
        split: Hub: split. Default: train.
        revision: Hub: branch, tag or commit. Default: the newest.
        limit: Read only the first N rows.
        max_characters: Maximum characters of a question or answer.
        strip_control: Remove NUL and other control characters.
        skip_bad_rows: Skip unusable rows and list them.
    """
    if name is not None:
        runs.check_name(name)  # before a new database is made
    columns = question_columns.Columns.parse(column or [])
    with terminal.progress("import") as bar:
        rows = importing.read_source(
            source,
            columns=columns,
            limits=question_columns.RowLimits(max_characters, strip_control),
            kind=grading.AnswerKind(kind),
            limit=limit,
            skip_bad_rows=skip_bad_rows,
            configs=config or (),
            split=split,
            revision=revision,
        )
        with db.open(create=True) as database, grading.Grader() as grader:
            record, warnings = importing.store_import(database, rows, grader, name=name, progress=bar)
    terminal.show(record, hidden=("spec",))
    if warnings:
        raise output.needs_attention("; ".join(warnings))


def mix(
    name: str,
    base: Annotated[str, Option()],
    extra: Annotated[str, Option()],
    chunks: Annotated[int, Option(min=0)],
    seed: int = 0,
    chunk: Annotated[int | None, Option(min=1)] = None,
) -> None:
    """Mix a set with random chunks of another, without overlaps.

    Questions of the extra set that repeat or nearly repeat a question of the mix are skipped. With the same
    seed, a larger mix contains the smaller ones.

    Example: tagrpo questions mix math-x1.5 --base math --extra openr1 --chunks 1 --seed 7

    Args:
        name: Name of the new set.
        base: Base set; the mix has all its usable questions.
        extra: Extra set; the mix has random chunks of it.
        chunks: Number of chunks.
        seed: Random seed of the chunks.
        chunk: Questions per chunk. Default: half of the base.
    """
    with terminal.progress("mix") as progress, db.open() as database:
        record = mixing.mix_sets(
            database, name, base=base, extra=extra, seed=seed, chunk=chunk, chunks=chunks, progress=progress
        )
    terminal.show(record, hidden=("spec",))


def list_(
    name: Annotated[str | None, Argument()] = None,
    limit: Limit = 20,
    after: Annotated[int, Option(min=-1, show_default=False)] = -1,
    level: str | None = None,
    subject: str | None = None,
    held: bool = False,
    search: str | None = None,
    suspects: bool = False,
    run: str | None = None,
) -> None:
    """List the question sets, or the questions of one set.

    --suspects lists questions whose gold answer the solvers contradict: either the gold answer is wrong, or
    all solvers make the same mistake.

    Example: tagrpo questions list math --level 5

    Example: tagrpo questions list --suspects --run math-gpt4

    Args:
        name: Name of a question set. Default: list all sets.
        after: Continue after this row.
        level: Only this level; 5 also matches "Level 5".
        subject: Only this subject.
        held: Only questions that were held back.
        search: Only questions whose text or answer contains this text.
        suspects: Questions for which solvers agree on an answer other than the gold answer.
        run: With --suspects: name or id of a run. Default: all runs.
    """
    filtered = held or level or subject or search or after >= 0
    if suspects and (name is not None or filtered):
        raise BadParameter("--suspects allows only --run and --limit")
    if run is not None and not suspects:
        raise BadParameter("--run requires --suspects")
    if filtered and name is None:
        raise BadParameter("these filters need the name of a question set")
    if suspects:
        _list_suspects(run, limit)
    elif name is None:
        with db.reading() as session:
            sets = [
                {"set": each.name, "kind": each.spec["kind"], "questions": members - held, "held": held}
                | {"source": _source(each.spec), "created_at": each.created_at}
                for each, members, held in store.list_sets(session)
            ]
        empty = "no question sets yet; import one with `tagrpo questions import`"
        terminal.rows("sets", sets, "set kind questions held source created_at", empty=empty)
    else:
        filters: dict[str, Any] = {"level": level, "subject": subject, "search": search, "held": held}
        with db.reading() as session:
            members, total, behind = store.page(session, name, **filters, limit=limit, after=after)
        terminal.rows(
            "questions",
            [member.to_json() for member in members],
            "row id level subject question answer" + " held_back=held" * any(each.held for each in members),
            empty=f"no more questions of {name} match" if total else f"no questions of {name} match",
            set=name,
            total=total,
            after=behind,
        )


def _source(spec: Mapping[str, Any]) -> str:
    return spec.get("source") or f"{spec['base']['set']} + {spec['extra']['set']}"


def _list_suspects(run: str | None, limit: int) -> None:
    with db.reading() as session:
        run_id = run and candidates.find_neighbor_run(session, run).id
        listed = question_views.find_suspects(session, run_id=run_id)
    terminal.rows(
        "suspects",
        listed if terminal.as_json else listed[:limit],
        "question=question_id gold agreed question_agreeing question_drawn neighbor_agreeing neighbor_drawn "
        "neighbors gold_given run",
        f"{plural(len(listed), 'question')} (--limit shows more): either the gold answer is wrong, or the "
        "solvers always err. Check them",
        empty="no suspects: solvers never agree on an answer other than the gold answer",
    )


def show(id: str) -> None:
    """Show one question with its gold answer, level, subject and sets.

    Example: tagrpo questions show q_3fa1

    Args:
        id: Id of a question, or its first characters.
    """
    with db.reading() as session:
        question = store.find_question(session, id)
        places = store.places(session, question.id)
    sets = [{"set": name, "row": position, "held": held} for name, position, held in places]
    terminal.show({**question.to_json(), "sets": sets})


def remove(name: str, yes: bool = False) -> None:
    """Remove a question set, for example one imported with a wrong column.

    Its name can be used again. A set that a run or a mix uses cannot be removed. Published sets are kept.

    Example: tagrpo questions remove math-wrong

    Args:
        name: Name of a question set.
        yes: Remove without confirmation.
    """
    with db.open() as database:
        with database.read() as session:
            stored = store.check_removable(session, name)
            members = len(store.load_members(session, name))
        if not yes:
            details = f" ({plural(members, 'question')}, created {stored.created_at})"
            output.confirm_removal(f"question set {name!r}", details)
        with database.write() as session:
            store.remove_set(session, name)
    terminal.show({"set": name, "questions": members, "spec": stored.spec}, hidden=("spec",))


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
    long passages of the problem. variant: similar wording with other numbers, answers or images, so usually a
    different problem. Rows are numbered from 0. tagrpo prints no texts.

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
    load = rows.loader(benchmark)
    settings = overlaps.OverlapSettings(ngram, threshold, ratio)
    with terminal.progress("contamination") as report, db.open() as database, grading.Grader() as grader:
        loaded = [load(name) for name in benchmark]
        sources = (database, set_name, neighbors, loaded)
        checks, pairs = overlaps.check_contamination(*sources, settings, grader, report)
    terminal.show({"settings": settings.to_json(), "checks": checks, "pairs": pairs})
    if repeated := sum(check["repeated_problems"] for check in checks):
        raise output.needs_attention(f"{plural(repeated, 'benchmark problem')} repeated")
