"""Import another tool's responses as an evaluation: match, store, grade and compare them."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.golds import check_golds
from evaluator.benchmarks.types import LoadedBenchmark
from evaluator.evals.evaluating import Note, Progress, note_golds
from evaluator.evals.grading import grade_run
from evaluator.evals.results import read_numbers
from evaluator.evals.runs import model_slug, run_version
from evaluator.exchange.agreement import read_agreement
from evaluator.exchange.files import with_thoughts_opened
from evaluator.exchange.importing import import_responses, import_spec
from evaluator.exchange.matching import By, FromFile, InBenchmark, Matcher, Survey, survey
from evaluator.exchange.response_file import ResponseFile
from evaluator.grading import AnswerKind, Grader
from evaluator.grading.types import Answers
from evaluator.grading.workers.own import own_version
from service.database import Database
from service.errors import InputError
from service.questions.images import RowImages
from service.questions.store import default_set_name
from service.runs.store import check_name


def import_evaluation(
    file: ResponseFile,
    path: Path,
    open_database: Callable[[], Database],
    *,
    model: str | None,
    name: str | None,
    benchmark: LoadedBenchmark | None,
    by: By,
    kind: str,
    answers: Answers,
    grader: str | None,
    opened_thoughts: bool,
    progress: Progress,
    note: Note,
) -> tuple[dict[str, Any], list[str]]:
    """Store and grade the responses of a file; return the run's numbers and what needs attention.

    Without a benchmark, the problems are the questions and answers of the file. The database is opened after
    the file was read, so that a wrong file leaves no new one.
    """
    if grader is not None and answers == "boxed":
        raise InputError("a custom grader extracts answers itself. Remove --answers boxed.")
    model = model or file.model
    if model is None:
        raise InputError(f"{file.name} does not state its model. Give it with --model.")
    file = with_thoughts_opened(file) if opened_thoughts else file
    matcher: Matcher = (
        _matcher_of_file(file.poses or path.stem, path.parent, kind)
        if benchmark is None
        else InBenchmark(benchmark.name, benchmark.problems, by, benchmark.images)
    )
    with progress("reading"):
        read = survey(file.read(), matcher)
    if read.closed and read.tagless:
        note(
            f"{read.closed:,} responses with a thought that is closed (</think>) but not opened, "
            f"{read.tagless:,} with neither tag. If the prompts opened the thought, the latter were cut off "
            "inside it: grade them so with --opened-thoughts"
        )
    every = matcher.placed()
    placed = [every[number] for number in read.numbers]
    label, size = matcher.label, len(placed)
    if benchmark is not None and read.numbers == list(range(len(placed))):  # as with `eval run --limit`
        size = len(every)
    elif benchmark is not None:
        label = f"{label}-{size}of{len(every)}"
    spec = import_spec(
        file,
        read,
        placed,
        problems=label,
        size=size,
        source={"file": file.name, "sha256": file.sha256} if benchmark is None else benchmark.source,
        model=model,
        answers=answers,
        grader=own_version(grader) if grader else "",
    )
    run_name = check_name(f"{name or model_slug(model)}.{label}")
    with (
        open_database() as database,
        Grader() as rules,
        Grader(own=grader) if grader else nullcontext(rules) as grading,
        progress(run_name) as report,
    ):
        posed = LoadedBenchmark(label, label, tuple(place.problem for place in placed), {}, None)
        note_golds(posed, len(check_golds(posed, rules)), note)
        stored = import_responses(
            database, run_name, spec, file, matcher, read, placed, partial(report, "storing")
        )
        graded = grade_run(
            database,
            stored.run.id,
            grading,
            partial(report, "grading"),
            version=run_version(stored.run),
        )
        numbers = read_numbers(database, stored.run)
        with database.read() as session:
            agreement = read_agreement(session, stored.run.id)
    if agreement and {theirs for theirs, _ in agreement.counts} == {"unknown"}:
        note(
            "none of the other tool's scores is a correct or wrong grade; if they are points, import without "
            "them: `--column score=`"
        )
    record = {
        **numbers,
        "format": file.form,
        "imported": stored.new,
        "there_before": stored.there,
        "graded": graded.total(),
        "unmatched": _unmatched(read.unmatched, benchmark),
        "unclear": _unmatched(read.unclear, benchmark),
        "without_response": read.lost.total(),
        "agreement": agreement and agreement.to_json(),
    }
    return record, _attention(read, benchmark)


def _matcher_of_file(posed: str, folder: Path, kind: str) -> FromFile:
    name = default_set_name(posed.rpartition("/")[2].encode("ascii", "ignore").decode())[:60] or "responses"
    if name in BENCHMARKS or name.startswith("gpqa"):  # these problems are not the benchmark
        name += "-file"
    return FromFile(name, AnswerKind(kind), RowImages(folder, "--column images=NAME", "--column images="))


def _unmatched(counts: Counter[str], benchmark: LoadedBenchmark | None) -> dict[str, Any]:
    secret = benchmark is not None and benchmark.gated
    listed = [] if secret else [{"question": text, "responses": n} for text, n in counts.most_common()]
    return {"responses": counts.total(), "questions": len(counts), "listed": listed}


def _attention(read: Survey, benchmark: LoadedBenchmark | None) -> list[str]:
    name = "" if benchmark is None else benchmark.name
    counts: dict[str, Counter[Any]] = {
        f"responses that match no problem of {name}": read.unmatched,
        f"responses that match several problems of {name}, which only ids distinguish": read.unclear,
        "requests to which the other tool got no response (pass@k is given as a range)": read.lost,
    }
    return [f"{what}: {count.total():,}" for what, count in counts.items() if count]
