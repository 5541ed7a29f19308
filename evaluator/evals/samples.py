"""Samples of an eval run as they are stored: paged, with their texts and the grades by the grader and people.

The grader's grades are those of one version, by its id; see `evaluator.evals.overview.shown_grader`. A
person's grade overrides it; a sample that the grader has not graded does not count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, insert, or_, select, tuple_, update
from sqlalchemy.orm import Session, aliased

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.counts import newest_grades
from evaluator.evals.overview import shown_grader
from evaluator.evals.problems import read_problems
from evaluator.evals.tables import (
    GradeCountsRow,
    GradeRow,
    GradeSourcesRow,
    HumanGradeRow,
    HumanGradeWithdrawalRow,
    ProblemRow,
    RunProblemRow,
    SampleCountsRow,
    SampleRow,
    SampleTextRow,
)
from evaluator.grading import GRADER_VERSION, Grade, Grader, GradeValue
from evaluator.grading.versions import find_grader, grader_id
from service.asks.tables import DONE, AskBodyRow, AskRow, TaskRow
from service.database import Database, add_counts, in_parts, utc_now
from service.errors import InputError, NotFoundError
from service.runs.store import Run
from service.telling import TellProgress

UNGRADED, HUMAN = "ungraded", "human"
"""What to ask `browse_samples` for, beside the grades' values: samples that neither this version of the
grader nor a person graded, and those that a person did."""


@dataclass(frozen=True)
class SampleHeader:
    """A sample without its text, with its grade."""

    id: int
    run_problem_id: int
    position: int  # of the problem in the run
    ordinal: int
    seed: int | None
    stop_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    value: str | None  # correct, wrong or unknown; None without a grade, as the next three
    reason: str | None
    extracted: str | None
    source: str | None  # where the answer was found, one of `SOURCES`
    human: str | None = None  # what a person says, correct or wrong

    @property
    def counted(self) -> str | None:
        """The grade that counts: a person's, else the grader's."""
        return self.human or self.value


def _headers(condition: ColumnElement[bool], grader_id: int | None) -> Select[Any]:
    """Return the query for headers of samples in order, with the grades of one version of the grader."""
    graded = and_(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == grader_id)
    by_human = and_(HumanGradeRow.sample_id == SampleRow.id, HumanGradeRow.id.in_(newest_grades()))
    columns: tuple[Any, ...] = (
        *(SampleRow.id, SampleRow.run_problem_id, RunProblemRow.position, SampleRow.ordinal, SampleRow.seed),
        *(SampleRow.stop_reason, SampleRow.prompt_tokens, SampleRow.completion_tokens),
        *(GradeRow.value, GradeRow.reason, GradeRow.extracted, GradeRow.source, HumanGradeRow.value),
    )
    return (
        select(*columns)
        .select_from(SampleRow)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .outerjoin(GradeRow, graded)
        .outerjoin(HumanGradeRow, by_human)
        .where(condition)
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )


def read_headers(
    session: Session, condition: ColumnElement[bool], grader_id: int | None
) -> list[SampleHeader]:
    """Return samples in order, with the grades of one version of the grader."""
    return [SampleHeader(*row) for row in session.execute(_headers(condition, grader_id))]


@dataclass(frozen=True)
class SampleFilters:
    """Which samples of a run are meant; None and False do not restrict."""

    value: str | None = None  # the grade that counts: correct, wrong, unknown; or `UNGRADED` or `HUMAN`
    # where the answer was found, one of `SOURCES`; "" for those in which none was found
    source: str | None = None
    truncated: bool = False  # those cut at the limit of tokens only
    tokens: int | None = None  # the fewest completion tokens
    position: int | None = None  # of the problem in the run, from 0
    text: str | None = None  # what the response holds, whatever the case of its letters


PART = 500
TEXTS_READ = 20_000
"""Texts that a page of a search reads at most."""

Place = tuple[int, int]
"""Of a sample in its run: the problem's position and the sample's ordinal."""


def browse_samples(
    session: Session, run_id: str, filters: SampleFilters, *, after: Place | None = None, limit: int = 25
) -> tuple[list[SampleHeader], Place | None]:
    """Return up to `limit` samples of a run after a place, and the place to go on from, None at the end.

    If a text is sought, at most `TEXTS_READ` texts are read: the page may then be short, even empty, and
    still have such a place.
    """
    if filters.value not in (None, UNGRADED, HUMAN, *GradeValue):
        raise InputError(
            f"{filters.value!r} is not a grade. Choose from {', '.join(GradeValue)}, {UNGRADED} or {HUMAN}."
        )
    query = _headers(RunProblemRow.run_id == run_id, shown_grader(session, run_id))
    counted = func.coalesce(HumanGradeRow.value, GradeRow.value)
    if filters.value == HUMAN:
        query = query.where(HumanGradeRow.value.is_not(None))
    elif filters.value is not None:
        query = query.where(counted == (None if filters.value == UNGRADED else filters.value))
    if filters.source is not None:
        query = query.where(func.coalesce(GradeRow.source, "") == filters.source)
    if filters.truncated:
        query = query.where(SampleRow.stop_reason == "length")
    if filters.tokens is not None:
        query = query.where(SampleRow.completion_tokens >= filters.tokens)
    if filters.position is not None:
        query = query.where(RunProblemRow.position == filters.position)

    chosen: list[SampleHeader] = []
    size = PART if filters.text else limit + 1
    for _ in range(TEXTS_READ // size if filters.text else 1):
        part = query.limit(size)
        if after is not None:
            position, ordinal = after
            part = part.where(
                RunProblemRow.position >= position,
                or_(RunProblemRow.position > position, SampleRow.ordinal > ordinal),
            )
        headers = [SampleHeader(*row) for row in session.execute(part)]
        texts = read_texts(session, [header.id for header in headers]) if filters.text else {}
        sought = (filters.text or "").casefold()
        chosen += [header for header in headers if sought in texts.get(header.id, "").casefold()]
        if len(chosen) > limit:
            return chosen[:limit], (chosen[limit - 1].position, chosen[limit - 1].ordinal)
        if len(headers) < size:
            return chosen, None
        after = headers[-1].position, headers[-1].ordinal
    return chosen, after


def read_texts(session: Session, sample_ids: Sequence[int]) -> dict[int, str]:
    """Return the texts of samples by id; `NotFoundError` if one is not stored."""
    texts: dict[int, str] = {}
    for part in in_parts(sample_ids):
        rows = session.execute(
            select(SampleTextRow.sample_id, SampleTextRow.text).where(SampleTextRow.sample_id.in_(part))
        )
        texts.update((id, text) for id, text in rows)
    missing = next((id for id in sample_ids if id not in texts), None)
    if missing is not None:
        raise NotFoundError(f"sample {missing} is not in the database.")
    return texts


HumanValue = Literal["correct", "wrong"]
MAX_COMMENT = 2_000


def add_human_grade(
    session: Session, sample_id: int, value: HumanValue, *, reviewer: str, comment: str = ""
) -> bool:
    """Append a person's grade of a sample; return whether it was new: what counts already is left alone."""
    if not reviewer.strip():
        raise InputError("a grade needs a reviewer name. Pass --reviewer NAME.")
    if len(comment) > MAX_COMMENT:
        raise InputError(f"the comment has {len(comment):,} characters; the maximum is {MAX_COMMENT:,}.")
    of_sample = (
        select(RunProblemRow.id, RunProblemRow.run_id).join(SampleRow).where(SampleRow.id == sample_id)
    )
    place = session.execute(of_sample).one_or_none()
    if place is None:
        raise NotFoundError(f"sample {sample_id} is not in the database.")
    standing = session.scalar(
        select(HumanGradeRow).where(
            HumanGradeRow.sample_id == sample_id, HumanGradeRow.id.in_(newest_grades())
        )
    )
    row = {"reviewer": reviewer.strip(), "value": value, "comment": comment.strip()}
    if standing is not None and all(getattr(standing, name) == text for name, text in row.items()):
        return False
    counted = standing or session.get(GradeRow, (sample_id, shown_grader(session, place.run_id) or -1))
    before = counted and counted.value
    places = {"sample_id": sample_id, "run_problem_id": place.id, "before": before, "created_at": utc_now()}
    session.execute(insert(HumanGradeRow), [{**row, **places}])
    return True


def withdraw_human_grade(session: Session, sample_id: int, *, reviewer: str) -> str | None:
    """Take a person's newest grade of a sample back; return its value, None if there is none.

    It stays in the database, and what was said before counts again.
    """
    row = session.scalar(
        select(HumanGradeRow)
        .where(
            HumanGradeRow.sample_id == sample_id,
            HumanGradeRow.reviewer == reviewer.strip(),
            HumanGradeRow.id.not_in(select(HumanGradeWithdrawalRow.human_grade_id)),
        )
        .order_by(HumanGradeRow.id.desc())
        .limit(1)
    )
    if row is None:
        return None
    session.execute(insert(HumanGradeWithdrawalRow), [{"human_grade_id": row.id, "created_at": utc_now()}])
    return row.value


def list_human_grades(session: Session, run_id: str, sample_id: int | None = None) -> list[dict[str, Any]]:
    """Return the grades by people of a run's samples, or of one sample, oldest first, withdrawn ones too.

    `before` is the grade that counted until then, `grader` what the grader says now.
    """
    query = (
        select(
            HumanGradeRow.id,
            RunProblemRow.position,
            RunProblemRow.problem_id,
            SampleRow.ordinal,
            HumanGradeRow.reviewer,
            HumanGradeRow.before,
            HumanGradeRow.value,
            HumanGradeRow.comment,
            HumanGradeRow.created_at,
            HumanGradeWithdrawalRow.created_at.label("withdrawn_at"),
            GradeRow.value.label("grader"),
        )
        .join(RunProblemRow, RunProblemRow.id == HumanGradeRow.run_problem_id)
        .join(SampleRow, SampleRow.id == HumanGradeRow.sample_id)
        .outerjoin(HumanGradeWithdrawalRow, HumanGradeWithdrawalRow.human_grade_id == HumanGradeRow.id)
        .outerjoin(
            GradeRow,
            (GradeRow.sample_id == HumanGradeRow.sample_id)
            & (GradeRow.grader_id == shown_grader(session, run_id)),
        )
        .where(RunProblemRow.run_id == run_id)
        .order_by(HumanGradeRow.id)
    )
    if sample_id is not None:
        query = query.where(HumanGradeRow.sample_id == sample_id)
    return [row._asdict() for row in session.execute(query)]


SAMPLES_PER_COMMIT = 500
LONGEST_EXTRACTED = 1_000


def grade_run(
    db: Database, run_id: str, grader: Grader, report: TellProgress, *, version: str = GRADER_VERSION
) -> Counter[str]:
    """Grade all samples of a run that have no grade of this version; return the new grades by value.

    Each part is committed at once. Another process may grade the same run: the first grade of a sample stays.
    """
    with db.write() as session:
        grader_row = grader_id(session, version)
    graded = exists().where(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == grader_row)
    query = (
        select(SampleRow.id, SampleRow.run_problem_id)
        .join(RunProblemRow)
        .where(RunProblemRow.run_id == run_id, ~graded)
        .order_by(RunProblemRow.position, SampleRow.ordinal)  # golds that repeat are parsed once
    )
    with db.read() as session:
        waiting = session.execute(query).all()
    values: Counter[str] = Counter()
    if waiting:
        report(0, len(waiting))
    for part in in_parts(waiting, SAMPLES_PER_COMMIT):
        with db.read() as session:
            texts = read_texts(session, [id for id, _ in part])
            of_part = read_problems(session, RunProblemRow.id.in_({place for _, place in part}))
        problems = {problem.id: problem for problem in of_part}
        grades = grader.grade_many([problems[place].case(texts[id], version) for id, place in part])
        rows = [
            grade_row(id, place, grader_row, grade) for (id, place), grade in zip(part, grades, strict=True)
        ]
        with db.write() as session:
            insert_grades(session, rows)
        values.update(grade.value for grade in grades)
        report(values.total(), len(waiting))
    return values


@dataclass
class NewSample:
    """A response with its place in a run."""

    run_problem_id: int
    ordinal: int
    ask_id: int | None  # None if it was imported
    seed: int | None
    text: str
    stop_reason: str  # stop, length (cut at the maximum tokens), content_filter, or the server's own word
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    grade: Grade | None = None


def store_blocks(
    run_id: str, grader_row: int, session: Session, blocks: Sequence[tuple[str, Sequence[NewSample]]]
) -> list[bool]:
    """Write blocks, each with the item of its task, and finish their tasks.

    Returns which are new: another process may have stored a block of a process that was silent for too long.
    """
    items = TaskRow.item.in_([item for item, _ in blocks])
    finishing = update(TaskRow).where(TaskRow.run_id == run_id, items, TaskRow.state != DONE)
    finishing = finishing.values(state=DONE, worker=None, error=None)
    new = set(session.scalars(finishing.returning(TaskRow.item)))
    # Earlier versions could be killed between the two; a block is stored as a whole.
    place = tuple_(SampleRow.run_problem_id, SampleRow.ordinal)
    firsts = {(block[0].run_problem_id, block[0].ordinal): item for item, block in blocks}
    stored = session.execute(select(*place.clauses).where(place.in_([*firsts])))
    new -= {firsts[row.run_problem_id, row.ordinal] for row in stored}
    samples = [sample for item, block in blocks if item in new for sample in block]
    if samples:
        insert_samples(session, samples, grader_row)
        # Texts are stored once: as samples.
        asks = {sample.ask_id for sample in samples if sample.ask_id is not None}
        session.execute(delete(AskBodyRow).where(AskBodyRow.ask_id.in_(asks)))
        session.execute(update(AskRow).where(AskRow.id.in_(asks)).values(key=None))
    return [item in new for item, _ in blocks]


def insert_samples(session: Session, samples: Sequence[NewSample], grader_row: int | None = None) -> None:
    """Write at least one sample in a write transaction, and grades by this version where there are any."""
    # The write lock is held, so nobody takes these ids in between; asking for them back row by row is slow.
    next_id = (session.scalar(select(func.max(SampleRow.id))) or 0) + 1
    headers, texts, grades, counts = [], [], [], []
    for id, sample in enumerate(samples, next_id):
        header = {**vars(sample), "id": id}
        texts.append({"sample_id": id, "text": header.pop("text")})
        if (grade := header.pop("grade")) is not None and grader_row is not None:
            grades.append(grade_row(id, sample.run_problem_id, grader_row, grade))
        headers.append(header)
        counts.append(
            {
                "run_problem_id": sample.run_problem_id,
                "samples": 1,
                "truncated": int(sample.stop_reason == "length"),
                "refused": int(sample.stop_reason in ("content_filter", "refusal")),
                "with_tokens": int(sample.completion_tokens is not None),
                "tokens": sample.completion_tokens or 0,
            }
        )
    table: Any  # bare, since the ORM spends more on a statement than SQLite does
    for table, rows in ((SampleRow.__table__, headers), (SampleTextRow.__table__, texts)):
        session.connection().execute(insert(table), rows)
    add_counts(session, SampleCountsRow, counts)
    insert_grades(session, grades)


def insert_grades(session: Session, rows: Sequence[dict[str, Any]]) -> list[None]:
    """Write rows of the table of grades and count them; a sample keeps the grade that it has."""
    stored = set[tuple[int, int]]()
    for part in in_parts([row["sample_id"] for row in rows]):
        keys = select(GradeRow.sample_id, GradeRow.grader_id).where(GradeRow.sample_id.in_(part))
        stored |= {(sample_id, grader_id) for sample_id, grader_id in session.execute(keys)}
    new = [row for row in rows if (row["sample_id"], row["grader_id"]) not in stored]
    if new:
        table: Any = GradeRow.__table__
        session.connection().execute(insert(table), new)
        by_value, by_source = [], []
        for row in new:
            place = {name: row[name] for name in ("run_problem_id", "grader_id")}
            by_value.append(place | {value: int(row["value"] == value) for value in GradeValue})
            source = {"source": row["source"] or "", "grades": 1, "correct": int(row["value"] == "correct")}
            by_source.append(place | source)
        add_counts(session, GradeCountsRow, by_value)
        add_counts(session, GradeSourcesRow, by_source)
    return [None] * len(rows)


def grade_row(sample_id: int, run_problem_id: int, grader_row: int, grade: Grade) -> dict[str, Any]:
    """Return a row of the table of grades."""
    return {
        "sample_id": sample_id,
        "grader_id": grader_row,
        "run_problem_id": run_problem_id,
        "value": grade.value.value,
        "reason": grade.reason,
        "extracted": shorten_answer(grade.extracted),
        "source": grade.source or None,
    }


def shorten_answer(answer: str | None) -> str | None:
    """Return an extracted answer as it is stored: long ones by their beginning and length."""
    if answer is None or len(answer) <= LONGEST_EXTRACTED:
        return answer
    return f"{answer[:LONGEST_EXTRACTED]}... ({len(answer):,} characters)"


def grade_changes(
    session: Session, run: Run, old: str, new: str, sides: tuple[str, str] = ("old", "new")
) -> list[dict[str, Any]]:
    """Return the samples of a run whose grades by two versions differ, by problem and ordinal.

    Each has both reasons, extracted answers and their sources, by names that begin with `sides`; for a gated
    benchmark no gold and no answers.
    """
    before, after = aliased(GradeRow), aliased(GradeRow)
    parts = {"": "value", "_reason": "reason", "_extracted": "extracted", "_source": "source"}
    columns = [
        getattr(grade, column).label(f"{side}{suffix}")
        for side, grade in zip(sides, (before, after), strict=True)
        for suffix, column in parts.items()
    ]
    rows = session.execute(
        select(
            RunProblemRow.position,
            RunProblemRow.problem_id,
            ProblemRow.answer.label("gold"),
            SampleRow.ordinal,
            *columns,
        )
        .join(after, after.sample_id == before.sample_id)
        .join(SampleRow, SampleRow.id == before.sample_id)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .join(ProblemRow, ProblemRow.id == RunProblemRow.problem_id)
        .where(
            RunProblemRow.run_id == run.id,
            before.grader_id == find_grader(session, old),
            after.grader_id == find_grader(session, new),
            before.value != after.value,
        )
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )
    hidden = ("gold", *(f"{side}_extracted" for side in sides)) if is_secret(run.spec["problems"]) else ()
    return [{**row, **dict.fromkeys(hidden)} for row in rows.mappings()]
