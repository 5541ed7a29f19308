"""Import another tool's responses as an evaluation: match, store, grade and compare them.

Responses answer problems of a benchmark, found by id or text, or those that the file poses.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.loading import LoadedBenchmark, require_golds
from evaluator.config import SamplingSettings
from evaluator.evals.counts import Block
from evaluator.evals.problems import (
    PlacedProblem,
    Problem,
    RunProblem,
    make_problem,
    number_copies,
    placed_hash,
    run_problems,
)
from evaluator.evals.results import read_numbers
from evaluator.evals.running import Note, Progress
from evaluator.evals.runs import IMPORTED, STOP_REASONS, EvalSpec, model_slug, open_eval_run, run_version
from evaluator.evals.samples import NewSample, grade_run, insert_samples
from evaluator.evals.tables import RunProblemRow, SampleCountsRow
from evaluator.exchange.agreement import POINTS, only_points, read_agreement
from evaluator.exchange.files import NO_STOP_REASON, OutsideResponse, ResponseFile, with_thoughts_opened
from evaluator.grading import AnswerKind, Grader
from evaluator.grading.compare import read_tolerance
from evaluator.grading.types import Answers
from evaluator.grading.versions import grader_id, other_tool
from evaluator.grading.workers.own import own_version
from service.asks.store import add_tasks
from service.asks.tables import FAILED_TASK, OPEN, TaskRow
from service.database import Database
from service.errors import InputError
from service.models.settings import PromptSpec
from service.questions.columns import RowProblem, bare_answer
from service.questions.images import PLACEHOLDER, ImageProblem, RowImages, order_numbered, store_images
from service.runs.store import Run, check_name, default_name, finish_run, package_versions
from service.telling import TellProgress

By: TypeAlias = Literal["text", "inside", "position"]
"""How to find a question in a benchmark: by the same text, except for whitespace and places of images; by the
problem's text inside it (a prompt with instructions); or by its id as a row number from 0. The benchmark's
own problem ids always match."""

UNMATCHED, UNCLEAR = -1, -2
"""What a matcher gives instead of a problem's number: there is none, or several that differ."""


class InBenchmark:
    """Finds the problems of a benchmark.

    Of a problem that it holds several times, the copies take responses in turn. Where the golds or images of
    such copies differ, only ids tell them apart.
    """

    def __init__(
        self, label: str, problems: Sequence[Problem], by: By, images: RowImages | None = None
    ) -> None:
        self.label, self._by = label, by
        self.images = RowImages() if images is None else images
        self.placed = [PlacedProblem(problem) for problem in problems]
        self._places = {problem.id: place for place, problem in enumerate(problems)}
        self._pictured = any(problem.images for problem in problems)
        self._texts: dict[str, list[int]] = defaultdict(list)
        for place, problem in enumerate(problems):
            if text := self._plain(problem.text):  # a picture alone has no words to be found by
                self._texts[text].append(place)
        self._unclear = {
            text
            for text, places in self._texts.items()
            if len({replace(problems[place], text="", copy=0) for place in places}) > 1
        }
        self._inside: dict[str, str] = {}

    def numbers(self, responses: Iterable[OutsideResponse]) -> Iterator[tuple[int, OutsideResponse]]:
        """Yield each response of a file with the number of its problem, `UNMATCHED` or `UNCLEAR`."""
        turns: Counter[str] = Counter()
        for response in responses:
            id = response.id or ""
            if id in self._places:
                yield self._places[id], response
            elif self._by == "position":
                known = id.isdecimal() and len(id) < 10 and int(id) < len(self.placed)
                yield int(id) if known else UNMATCHED, response
            elif (text := self._text(response.question)) in self._unclear:
                yield UNCLEAR, response
            elif places := self._texts.get(text):
                yield places[turns[text] % len(places)], response
                turns[text] += 1
            else:
                yield UNMATCHED, response

    def _text(self, question: str | None) -> str:
        """Return which problem's text a question is, "" for none."""
        text = self._plain(question or "")
        if text in self._texts:
            return text
        if self._by != "inside":
            return ""
        if text not in self._inside:
            longest_first = sorted((each for each in self._texts if each in text), key=len, reverse=True)
            unlike = [each for each in longest_first if each not in longest_first[0]]
            self._inside[text] = longest_first[0] if longest_first and not unlike else ""
        return self._inside[text]

    def _plain(self, text: str) -> str:
        return " ".join((text.replace(PLACEHOLDER, " ") if self._pictured else text).split())


@dataclass
class FromFile:
    """Makes the problems of the questions, answers and images that the file has; the same are one problem.

    `kind` is theirs where the file does not say.
    """

    label: str
    kind: AnswerKind = AnswerKind.LATEX
    images: RowImages = field(default_factory=RowImages)
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    _placed: list[PlacedProblem] = field(default_factory=list)
    _members: set[tuple[str | None, int]] = field(default_factory=set)  # of groups, by variant

    @property
    def placed(self) -> list[PlacedProblem]:
        if any(place.group_id is not None for place in self._placed):
            return self._placed
        return [PlacedProblem(problem) for problem in number_copies(place.problem for place in self._placed)]

    def numbers(self, responses: Iterable[OutsideResponse]) -> Iterator[tuple[int, OutsideResponse]]:
        """Yield each response of a file with the number of its problem."""
        for response in responses:
            try:
                yield self._number(response), response
            except RowProblem as error:
                raise InputError(f"{response.place}: {error}.") from error

    def _number(self, response: OutsideResponse) -> int:
        if response.question is None or not response.question.strip():
            raise RowProblem("it has no question. Pass --benchmark to look up its id in a benchmark")
        if response.answer is None or not response.answer.strip():
            raise RowProblem(
                "it has no gold answer. Pass its column with --column answer=NAME, or the benchmark with "
                "--benchmark"
            )
        kind = response.kind or (AnswerKind.TOLERANCE if response.tolerance else self.kind)
        try:
            text, images = order_numbered(response.question, self.images.take(response.images))
        except ImageProblem as error:
            way = "with --benchmark, tagrpo uses the benchmark's images"
            raise RowProblem(f"its images cell {error}. {way}") from error
        place = response.copy_number, response.group, response.variant
        raw = text, response.answer, kind, response.tolerance, images, *place
        if raw not in self._numbers:
            try:
                read_tolerance(response.tolerance)
                gold = response.answer if kind is AnswerKind.CODE else bare_answer(response.answer)
                problem = make_problem(text, gold, kind, response.tolerance, images)
            except InputError as error:
                raise RowProblem(f"the question cannot be used: {error}") from error
            number = self._numbers.setdefault((problem.id, *place), len(self._placed))
            self._numbers[raw] = number
            if number == len(self._placed):
                member = response.group, response.variant
                if response.group is not None and member in self._members:
                    raise RowProblem(
                        f"its group {response.group!r} already contains another problem as variant "
                        f"{response.variant}. A group must contain a question and each neighbor exactly once"
                    )
                self._members.add(member)
                self._placed.append(PlacedProblem(problem, *member, response.source_id, response.strategy))
        return self._numbers[raw]


Matcher: TypeAlias = InBenchmark | FromFile


@dataclass
class Survey:
    """What a file holds, by the numbers of a matcher."""

    samples: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)  # requests without a response
    unmatched: Counter[str] = field(default_factory=Counter)  # by the beginning of their question
    # responses to one of several problems that differ in gold or images alone
    unclear: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    closed: int = 0  # responses that close a thought which they do not open
    tagless: int = 0  # responses without such tags
    ended: int = 0  # responses that tell why they ended
    problems: dict[int, PlacedProblem] = field(default_factory=dict)  # those of samples and lost, in order


def survey(responses: Iterable[OutsideResponse], matcher: Matcher) -> Survey:
    """Read all responses once; nothing is stored."""
    result = Survey()
    for number, response in matcher.numbers(responses):
        if number < 0:
            label = f"id {response.id}" if response.question is None else response.question
            label = " ".join(label.split())[:80]
            (result.unclear if number == UNCLEAR else result.unmatched)[label] += 1
        elif response.text is None:
            result.lost[number] += 1
        else:
            result.samples[number] += 1
            result.scored += response.score is not None
            result.ended += response.stop_reason != NO_STOP_REASON
            if "<think>" not in response.text:
                closes = "</think>" in response.text
                result.closed += closes
                result.tagless += not closes
    if not result.samples:
        why = "no row contains a response"
        if result.unmatched:
            left_out = result.unmatched.total() + result.unclear.total()
            why = (
                f"none of its {left_out:,} responses matches a problem of the benchmark. First unmatched "
                f"question: {next(iter(result.unmatched))!r}. If the prompts contain more than the problem, "
                "use --by inside"
            )
        elif result.unclear:
            why = (
                "every question occurs several times in the benchmark with different answers or images, "
                f"so only ids can match responses. First such question: {next(iter(result.unclear))!r}"
            )
        raise InputError(f"nothing can be imported: {why}.")
    placed = matcher.placed
    result.problems = {number: placed[number] for number in sorted({*result.samples, *result.lost})}
    return result


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
    name = default_name(posed.rpartition("/")[2].encode("ascii", "ignore").decode())[:60] or "responses"
    if name in BENCHMARKS or name.startswith("gpqa"):  # these problems are not the benchmark
        name += "-file"
    return FromFile(name, AnswerKind(kind), RowImages(folder))


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

    Run the same import again to resume a killed one: responses of a problem are numbered in the file's order,
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
        if new:  # it ends later than before
            finish_run(session, run.id, finished=False)
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
