"""`tagrpo eval import`: responses that another tool drew, as an evaluation."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer import Argument, Option

from service.errors import InputError
from ui.cli import exits, output
from ui.cli.eval.settings import (
    AnswersTaken,
    BenchmarkRows,
    OwnGrader,
    check_grader,
)
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db

if TYPE_CHECKING:
    from collections import Counter

    from evaluator.benchmarks.types import LoadedBenchmark
    from evaluator.evals.problems import PlacedProblem
    from evaluator.exchange.matching import Matcher, Survey

UNMATCHED_LISTED = 5


@dataclass(frozen=True)
class Columns:
    """How the file is read."""

    panel: ClassVar[str] = "Input file"

    form: Annotated[
        Literal["rows", "inspect", "lighteval", "lm-eval"] | None,
        Option("--format", help="Tool that wrote the files. Default: detected automatically."),
    ] = None
    column: Annotated[
        tuple[str, ...],
        Option(
            "--column", help="Column of a part (docs/other-tools.md lists the parts), as in response=text."
        ),
    ] = ()
    scorer: Annotated[
        str | None,
        Option(help="Scorer, metric or column with the other tool's grades, to store next to tagrpo's."),
    ] = None
    opened_thoughts: Annotated[
        bool,
        Option(
            help="The prompts opened a thought: treat responses that do not close it as cut off inside it."
        ),
    ] = False

    def named(self) -> dict[str, str]:
        """Return the columns by part."""
        pairs = [pair.partition("=") for pair in self.column]
        for part, equals, name in pairs:
            if not (part and equals):
                raise typer.BadParameter(
                    f"--column {part}{equals}{name}: give PART=NAME, as in response=text"
                )
        return {part: name for part, _, name in pairs}


@dataclass(frozen=True)
class Questions(BenchmarkRows):
    """What the responses answer."""

    panel: ClassVar[str] = "Problems"

    benchmark: Annotated[
        str | None,
        Option(
            help="Benchmark, or a file of your own. Default: the questions and answers in the input file."
        ),
    ] = None
    by: Annotated[
        Literal["text", "inside", "position"],
        Option(help="Match problems by equal text, text inside the prompt, or ids as row numbers."),
    ] = "text"
    kind: Annotated[
        Literal["latex", "integer", "choice", "tolerance", "code"],
        Option(help="Kind of the answers, for problems from an input file that does not state it."),
    ] = "latex"


def import_(
    files: Annotated[list[Path], Argument(help="Files written by one tool, in order.")],
    *,
    model: Annotated[
        str | None, Option(help="Model that gave the responses; inspect_ai logs contain it.")
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the run, stored as NAME.BENCHMARK. Default: the model.")
    ] = None,
    answers: AnswersTaken = "all",
    own_grader: OwnGrader = None,
    questions: Questions,
    columns: Columns,
    db: Db,
    terminal: Terminal,
) -> None:
    """Import responses that another tool drew as an evaluation, and grade them.

    Reads JSON Lines, CSV and parquet, logs of inspect_ai, details of lighteval and samples of
    lm-evaluation-harness. A file is imported completely or not at all. Importing a file twice adds nothing;
    after a kill, run the same command again. The other tool's grades are stored next to ours.

    Exit code 3: some responses match no problem of the benchmark (they are listed), or some requests of the
    other tool got no response.

    Example: tagrpo eval import logs/2026-11-25_math.eval --benchmark math500
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
    from ui.cli.eval.summary import print_numbers

    check_grader(own_grader, answers)
    named = columns.named()
    if questions.benchmark is not None:  # which has the images itself
        named = {"images": "", **named}
    file = open_responses(files, columns.form, named, columns.scorer)
    file = with_thoughts_opened(file) if columns.opened_thoughts else file
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
        storing = output.stage(bar, "storing")
        stored = import_responses(database, run_name, spec, file, matcher, read, placed, storing)
        grading = output.stage(bar, "grading")
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

    def print_import() -> None:
        before = f", {stored.there:,} already stored" if stored.there else ""
        output.say(f"{plural(stored.new, 'response')} imported ({file.form}){before}")
        print_numbers(numbers)
        if agreement is not None:
            output.say()
            output.show(agreement_document(agreement))
            output.say(f"`tagrpo eval compare {run_name} --tool-grades` lists the differences")

    terminal.emit(record, print_import)
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
