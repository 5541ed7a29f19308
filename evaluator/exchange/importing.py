"""Import another tool's responses as an evaluation: match, store, grade and compare them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.loading import LoadedBenchmark, require_golds
from evaluator.evals.counts import Block
from evaluator.evals.grading import grade_run
from evaluator.evals.problems import RunProblem, placed_hash, run_problems
from evaluator.evals.results import read_numbers
from evaluator.evals.running import NewSample, Note, Progress, insert_samples
from evaluator.evals.runs import (
    IMPORTED,
    STOP_REASONS,
    EvalSpec,
    model_slug,
    open_eval_run,
    run_version,
)
from evaluator.evals.tables import RunProblemRow, SampleCountsRow
from evaluator.exchange.agreement import POINTS, only_points, read_agreement
from evaluator.exchange.files import with_thoughts_opened
from evaluator.exchange.matching import By, FromFile, InBenchmark, Matcher, Survey, survey
from evaluator.exchange.responses import ResponseFile
from evaluator.grading import AnswerKind, Grader
from evaluator.grading.types import Answers
from evaluator.grading.versions import grader_id, other_tool
from evaluator.grading.workers.own import own_version
from service.asks.store import add_tasks
from service.asks.tables import FAILED_TASK, OPEN, TaskRow
from service.database import Database
from service.errors import InputError
from service.models.settings import PromptSpec, SamplingSettings
from service.questions.images import RowImages, store_images
from service.questions.store import default_set_name
from service.runs.store import Run, check_name, finish_run, package_versions
from service.telling import TellProgress

RESPONSES_PER_COMMIT = 1_000


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
    label, size = matcher.label, len(read.problems)
    source: Mapping[str, Any] = {"file": file.name, "sha256": file.sha256}
    if benchmark is not None:
        source = benchmark.source
        every = len(benchmark.problems)
        if list(read.problems) == list(range(size)):  # as with `eval run --limit`
            size = every
        else:
            label = f"{label}-{size}of{every}"
    run_name = check_name(f"{name or model_slug(model)}.{label}")
    with (
        open_database() as database,
        Grader() as rules,
        Grader(own=grader) if grader else nullcontext(rules) as grading,
        progress(run_name) as report,
    ):
        problems = tuple(place.problem for place in read.problems.values())
        require_golds(LoadedBenchmark(label, problems), rules, note, allow=True)
        run, new, before = import_responses(
            database,
            run_name,
            file,
            matcher,
            read,
            partial(report, "storing"),
            problems=label,
            size=size,
            source=source,
            model=model,
            answers=answers,
            grader=own_version(grader) if grader else "",
        )
        graded = grade_run(database, run.id, grading, partial(report, "grading"), version=run_version(run))
        numbers = read_numbers(database, run)
        with database.read() as session:
            agreement = read_agreement(session, run.id)
    if agreement and only_points(agreement):
        note(POINTS)
    record = {
        **numbers,
        "format": file.form,
        "imported": new,
        "there_before": before,
        "graded": graded.total(),
        "unmatched": _left_out(read.unmatched, benchmark),
        "unclear": _left_out(read.unclear, benchmark),
        "without_response": read.lost.total(),
        "agreement": agreement,
    }
    found_in = "" if benchmark is None else benchmark.name
    attention: dict[str, Counter[Any]] = {
        f"responses that match no problem of {found_in}": read.unmatched,
        f"responses that match several problems of {found_in}, which only ids distinguish": read.unclear,
        "requests to which the other tool got no response (pass@k is given as a range)": read.lost,
    }
    return record, [f"{what}: {count.total():,}" for what, count in attention.items() if count]


def _matcher_of_file(posed: str, folder: Path, kind: str) -> FromFile:
    name = default_set_name(posed.rpartition("/")[2].encode("ascii", "ignore").decode())[:60] or "responses"
    if name in BENCHMARKS or name.startswith("gpqa"):  # these problems are not the benchmark
        name += "-file"
    return FromFile(name, AnswerKind(kind), RowImages(folder, "--column images=NAME", "--column images="))


def _left_out(counts: Counter[str], benchmark: LoadedBenchmark | None) -> dict[str, Any]:
    secret = benchmark is not None and benchmark.gated
    listed = [] if secret else [{"question": text, "responses": n} for text, n in counts.most_common()]
    return {"responses": counts.total(), "questions": len(counts), "listed": listed}


def import_responses(
    db: Database,
    name: str,
    file: ResponseFile,
    matcher: Matcher,
    read: Survey,
    report: TellProgress,
    **spec: Any,
) -> tuple[Run, int, int]:
    """Store the responses of a file as the run `name`; return it, how many are new, and how many were there.

    A killed import is gone on with by the same call: responses of a problem are numbered in the file's order,
    and those with a number are there. Requests that brought no response become samples that are missing for
    good, which every pass@k takes as unknown.

    Args:
        spec: settings of `EvalSpec`. The content of the file is one of them. Prompt and sampling were the
            other tool's: what it tells is in `engine`, the neutral values in their place mean nothing.
    """
    left_out = read.unmatched.total() + read.unclear.total()
    engine: dict[str, Any] = {"sampler": IMPORTED, "format": file.form, "sha256": file.sha256}
    engine |= {"scorer": file.scorer} if read.scored else {}
    engine |= {name: value for name, value in file.settings.items() if value is not None}
    engine |= {"unmatched": left_out} if left_out else {}
    placed = list(read.problems.values())
    settings = EvalSpec(
        problems_hash=placed_hash(placed),
        engine=engine,
        prompt=PromptSpec(template="{question}"),
        sampling=SamplingSettings(seed=None),
        **spec,
    )
    with db.write() as session:
        store_images(session, matcher.images.read(id for place in placed for id in place.problem.images))
        about = {"file": file.name, "format": file.form} | ({} if read.ended else {STOP_REASONS: "not told"})
        run, _ = open_eval_run(session, name, settings, placed, {**package_versions(), **about})
        problems = dict(zip(read.problems, run_problems(session, run.id), strict=True))
        theirs = grader_id(session, other_tool(file.scorer)) if read.scored else None
        of_run = select(RunProblemRow.id).where(RunProblemRow.run_id == run.id)
        before = sum(_stored(session, of_run).values())
    total, new = read.samples.total(), 0
    report(before, total)
    if before < total:
        rows = _place(file, matcher, problems)
        while part := list(islice(rows, RESPONSES_PER_COMMIT)):
            with db.write() as session:
                new += _store(session, part, theirs)
            report(min(before + new, total), total)
    with db.write() as session:
        if read.lost:  # failed blocks, noted once however often this is called
            there = _stored(session, of_run)
            lost = {problems[number].id: count for number, count in read.lost.items()}
            add_tasks(session, run.id, [Block(id, there[id], lost[id]).item for id in lost])
            session.execute(
                update(TaskRow)
                .where(TaskRow.run_id == run.id, TaskRow.state == OPEN)
                .values(state=FAILED_TASK, error="no response in the other tool's file")
            )
        finish_run(session, run.id, finished=True)
    return run, new, before


def _place(file: ResponseFile, matcher: Matcher, problems: Mapping[int, RunProblem]) -> Iterator[NewSample]:
    """Yield the responses of a file as samples of their problems, with the other tool's grades."""
    seen: Counter[int] = Counter()
    for number, response in matcher.numbers(file.read()):
        if number in problems and response.text is not None:
            how = response.seed, response.text, response.stop_reason
            tokens = response.prompt_tokens, response.completion_tokens
            yield NewSample(problems[number].id, seen[number], None, *how, *tokens, response.score)
            seen[number] += 1


def _stored(session: Session, ids: Collection[int] | Select[Any]) -> dict[int, int]:
    """Return the number of samples of problems by their ids."""
    counted = select(SampleCountsRow.run_problem_id, SampleCountsRow.samples)
    return dict(session.execute(counted.where(SampleCountsRow.run_problem_id.in_(ids))).all())


def _store(session: Session, part: Sequence[NewSample], theirs: int | None) -> int:
    """Write the samples that are not there yet, with the other tool's grades; the write lock is held."""
    stored = _stored(session, {sample.run_problem_id for sample in part})
    missing = [sample for sample in part if sample.ordinal >= stored[sample.run_problem_id]]
    if missing:
        insert_samples(session, missing, theirs)
    return len(missing)
