"""`tagrpo eval import`: responses that another tool drew, as an evaluation."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from service.errors import InputError
from ui.cli import exits, output
from ui.cli.eval.settings import (
    AnswersTaken,
    BenchmarkRows,
    OwnGrader,
    check_grader,
)
from ui.cli.output import plural, terminal
from ui.cli.settings import db

if TYPE_CHECKING:
    from collections import Counter

    from evaluator.benchmarks.types import LoadedBenchmark
    from evaluator.evals.problems import PlacedProblem
    from evaluator.exchange.matching import Matcher, Survey

UNMATCHED_LISTED = 5


@dataclass(frozen=True)
class Questions(BenchmarkRows):
    """What the responses answer.

    Args:
        benchmark: Benchmark, or a file of your own. Default: the questions and answers in the input file.
        by: Match problems by equal text, text inside the prompt, or ids as row numbers.
        kind: Kind of the answers, for problems from an input file that does not state it.
    """

    benchmark: str | None = None
    by: Literal["text", "inside", "position"] = "text"
    kind: Literal["latex", "integer", "choice", "tolerance", "code"] = "latex"


def import_(
    files: list[Path],
    *,
    model: str | None = None,
    name: str | None = None,
    answers: AnswersTaken = "all",
    own_grader: OwnGrader = None,
    questions: Questions,
    form: Annotated[Literal["rows", "inspect", "lighteval", "lm-eval"] | None, Option("--format")] = None,
    column: Annotated[list[str] | None, Option("--column")] = None,
    opened_thoughts: bool = False,
) -> None:
    """Import responses that another tool sampled as an evaluation, and grade them.

    Reads JSON Lines, CSV and parquet, logs of inspect_ai, details of lighteval and samples of
    lm-evaluation-harness. A file is imported completely or not at all. Importing a file twice adds nothing;
    after a kill, run the same command again. The other tool's grades are stored too.

    Exit code 3: some responses match no problem of the benchmark (they are listed), or some requests of the
    other tool got no response.

    Example: tagrpo eval import logs/2026-11-25_math.eval --benchmark math500

    Args:
        files: Files written by one tool, in order.
        model: Model that produced the responses; inspect_ai logs contain it.
        name: Name of the run, stored as NAME.BENCHMARK. Default: the model.
        form: Tool that wrote the files. Default: detected automatically.
        column: Column of a part, as in response=text or score=NAME; docs/other-tools.md lists the parts.
        opened_thoughts: The prompts end with <think>: treat responses without </think> as cut off while
            thinking.
    """
    from evaluator.benchmarks.golds import check_golds
    from evaluator.benchmarks.types import LoadedBenchmark
    from evaluator.evals.evaluating import note_golds
    from evaluator.evals.grading import grade_run
    from evaluator.evals.runs import model_slug, run_version
    from evaluator.exchange.agreement import agreement_document, read_agreement
    from evaluator.exchange.files import open_responses, with_thoughts_opened
    from evaluator.exchange.importing import import_responses, import_spec
    from evaluator.exchange.matching import survey
    from evaluator.grading import Grader
    from evaluator.grading.versions import GradeCache
    from evaluator.grading.workers.own import own_version
    from evaluator.reports.standing import read_numbers
    from service.runs.store import check_name

    check_grader(own_grader, answers)
    named: dict[str, str] = (
        {} if questions.benchmark is None else {"images": ""}
    )  # a benchmark has the images itself
    for part, equals, column_name in (pair.partition("=") for pair in column or ()):
        if not (part and equals):
            raise typer.BadParameter(f"--column {part}{equals}: give PART=NAME, as in response=text")
        named[part] = column_name
    file = open_responses(files, form, named)
    file = with_thoughts_opened(file) if opened_thoughts else file
    drawn_by = model or file.model
    if drawn_by is None:
        raise InputError(f"{file.name} does not state its model. Give it with --model.")
    matcher, benchmark = _matcher(questions, file.poses or files[0].stem, files[0].parent)
    with terminal.progress("reading") as bar:
        bar.update(0, None, file.name)
        read = survey(file.read(), matcher)
    if read.closed and read.tagless:
        output.note(
            f"{plural(read.closed, 'response')} with a thought that is closed (</think>) but not opened, "
            f"{read.tagless:,} with neither tag. If the prompts opened the thought, the latter were cut off "
            "inside it: grade them so with --opened-thoughts"
        )
    problems, size, placed = _part(benchmark, matcher, read)
    spec = import_spec(
        file,
        read,
        placed,
        problems=problems,
        size=size,
        source={"file": file.name, "sha256": file.sha256} if benchmark is None else benchmark.source,
        model=drawn_by,
        answers=answers,
        grader=own_version(own_grader) if own_grader else "",
    )
    run_name = check_name(f"{name or model_slug(drawn_by)}.{problems}")
    with (
        db.open(create=True) as database,
        Grader(cache=GradeCache(database)) as rules,
        Grader(own=own_grader) if own_grader else nullcontext(rules) as grader,
        terminal.progress(run_name) as bar,
    ):
        posed = LoadedBenchmark(problems, problems, tuple(place.problem for place in placed), {}, None)
        note_golds(posed, len(check_golds(posed, rules)), output.note)
        storing = bar.stage("storing")
        stored = import_responses(database, run_name, spec, file, matcher, read, placed, storing)
        grading = bar.stage("grading")
        graded = grade_run(database, stored.run.id, grader, grading, version=run_version(stored.run))
        numbers = read_numbers(database, stored.run)
        with database.read() as session:
            agreement = read_agreement(session, stored.run.id)
    record = {
        **numbers.record,
        "format": file.form,
        "imported": stored.new,
        "there_before": stored.there,
        "graded": graded.samples,
        "unmatched": _unmatched(read.unmatched, benchmark),
        "unclear": _unmatched(read.unclear, benchmark),
        "without_response": read.lost.total(),
        "agreement": agreement and agreement.to_json(),
    }
    differences = f"`tagrpo eval compare {run_name} --tool-grades` lists the differences"
    compared = ("", agreement_document(agreement), differences) if agreement else ()
    terminal.show(record, *compared, hidden=("agreement",))
    left_out = [] if benchmark is None else _left_out(read, benchmark)
    if read.lost:
        left_out.append(
            f"{plural(read.lost.total(), 'request')} of the other tool got no response: pass@k is given as "
            "a range from all wrong to all right"
        )
    if left_out:
        raise exits.needs_attention("; ".join(left_out) + ".")


def _matcher(questions: Questions, posed: str, folder: Path) -> "tuple[Matcher, LoadedBenchmark | None]":
    from evaluator.benchmarks.catalogue import BENCHMARKS
    from evaluator.exchange.matching import FromFile, InBenchmark
    from evaluator.grading import AnswerKind
    from service.questions.images import RowImages
    from service.questions.store import default_set_name

    if questions.benchmark is not None:
        loaded = questions.loader([questions.benchmark])(questions.benchmark)
        return InBenchmark(loaded.name, loaded.problems, questions.by, loaded.images), loaded
    if questions.source:
        raise typer.BadParameter("--from requires --benchmark")
    images = RowImages(folder, "--column images=NAME", "--column images=")
    plain = posed.rpartition("/")[2].encode("ascii", "ignore").decode()
    name = default_set_name(plain)[:60] or "responses"
    if name in BENCHMARKS or name.startswith("gpqa"):  # which these problems are not
        name += "-file"
    return FromFile(name, AnswerKind(questions.kind), images), None


def _part(
    benchmark: "LoadedBenchmark | None", matcher: "Matcher", read: "Survey"
) -> "tuple[str, int, Sequence[PlacedProblem]]":
    """Return name, size and problems of what the file answers, which may be part of a benchmark."""
    every = matcher.placed()
    numbers = read.numbers
    placed = [every[number] for number in numbers]
    if benchmark is None:
        return matcher.label, len(placed), placed
    if numbers == list(range(len(numbers))):  # as `eval run --limit`
        return benchmark.name, len(every), placed
    return f"{benchmark.name}-{len(numbers)}of{len(every)}", len(placed), placed


def _unmatched(counts: "Counter[str]", benchmark: "LoadedBenchmark | None") -> dict[str, Any]:
    secret = benchmark is not None and benchmark.gated
    listed = [] if secret else [{"question": text, "responses": n} for text, n in counts.most_common()]
    return {"responses": counts.total(), "questions": len(counts), "listed": listed}


def _left_out(read: "Survey", benchmark: "LoadedBenchmark") -> list[str]:
    """Say which responses match no problem, or several."""
    unclear = f"that match several problems of {benchmark.name}, which only ids distinguish"
    sentences = []
    for which, counts in ((f"not in {benchmark.name}", read.unmatched), (unclear, read.unclear)):
        if not counts:
            continue
        parts = [f"{text!r} ({count:,})" for text, count in counts.most_common(UNMATCHED_LISTED)]
        more = len(counts) - UNMATCHED_LISTED
        parts += [f"and {plural(more, 'question')} more (--json lists all)"] if more > 0 else []
        listed = "" if benchmark.gated else f": {'; '.join(parts)}"
        responses, questions = plural(counts.total(), "response"), plural(len(counts), "question")
        sentences.append(f"left out: {responses} to {questions} {which}{listed}")
    return sentences
