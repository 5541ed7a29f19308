"""Neighbor sets in the database: written once, found by name, version, tag or id, counted and verified."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from statistics import fmean
from typing import Any, Literal, NamedTuple

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from rephraser.candidates import PENDING, STATUSES, candidate_id, standing_counts
from rephraser.questions.store import QUESTION_COLUMNS, as_question
from rephraser.sets.types import Neighbor, NeighborSet, PublishedSet, SetEntry, SetHeader, set_hash, set_id
from rephraser.tables import (
    CandidateRow,
    NeighborSetMemberRow,
    NeighborSetQuestionRow,
    NeighborSetRow,
    NeighborSetTagRow,
    ProposalRow,
    QuestionRow,
)
from rephraser.verdict.successes import Successes
from service.database import upsert, utc_now
from service.errors import InputError, NotFoundError, suggest
from service.hashing import content_hash
from service.questions.question import question_id
from service.runs.store import check_name
from service.runs.tables import RunRow

RATE_DEFINITION = (
    "accepted / (accepted + rejected + undecided) over all proposals in the run, including "
    "later rounds and candidates that failed the structural checks, but not unverified ones. The 95% "
    "interval is Clopper-Pearson and assumes independent proposals"
)
_VERSION = re.compile(r"v?(\d+)")
_ID_PREFIX = "set_"
_SHOWN = 5  # problems of one kind in a verification
_HEADER = [field.name for field in fields(SetHeader)][:-1]  # without tags
_NEIGHBOR = [field.name for field in fields(Neighbor)]


def write_set(
    session: Session,
    name: str,
    entries: Sequence[SetEntry],
    *,
    spec: Mapping[str, Any],
    counts: Mapping[str, Any],
) -> PublishedSet:
    """Write the entries as the next version of `name`, unless its newest version has the same content.

    Content includes success counts. Questions and candidates must be in the database. The set's own row is
    written last and seals the members. `counts` is added to the counts of the members.
    """
    check_name(name)
    content, counted = set_hash(entries), count_members(entries)
    versions = list_sets(session, name)
    newest = versions[-1] if versions else None
    same = [old for old in versions if old.content_hash == content]
    if same and same[-1] is newest and newest.counts.get("successes") == counted.get("successes"):
        return PublishedSet(newest, created=False)
    header = SetHeader(
        id="",
        name=name,
        version=newest.version + 1 if newest else 1,
        parent_id=newest.id if newest else None,
        content_hash=content,
        spec=dict(spec),
        counts={**counted, **counts},
        created_at=utc_now(),
        tags=(),
    )
    header = replace(header, id=set_id(header))
    _insert_members(session, header.id, entries)
    session.execute(insert(NeighborSetRow).values({name: getattr(header, name) for name in _HEADER}))
    return PublishedSet(header, created=True, same_as=same[0].ref if same else None)


def find_set(session: Session, reference: str) -> SetHeader:
    """Return the header of `NAME` (its newest version), `NAME@VERSION`, `NAME@TAG` or the start of an id.

    Raises:
        NotFoundError: nothing matches, or the start of an id matches several; the message lists the options.
    """
    name, at, version = reference.partition("@")
    versions = list_sets(session, name)
    if not versions and not at and reference.startswith(_ID_PREFIX):
        by_id = [header for header in list_sets(session) if header.id.startswith(reference)]
        if len(by_id) > 1:
            ids = ", ".join(header.id for header in by_id)
            raise NotFoundError(f"several sets have ids that start with {reference!r}: {ids}.")
        versions = by_id
    if not versions:
        names = session.scalars(select(NeighborSetRow.name).distinct().order_by(NeighborSetRow.name)).all()
        way_out = "" if names else "Create one with `tagrpo sets publish NAME --run RUN`."
        raise NotFoundError(f"there is no neighbor set {name!r}. {suggest(name, names, way_out)}")
    if not at:
        return versions[-1]
    number = _VERSION.fullmatch(version)
    for header in versions:
        if version in header.tags or (number and header.version == int(number[1])):
            return header
    versions_there = ", ".join(
        "@".join((name, str(key))) for header in versions for key in (header.version, *header.tags)
    )
    raise NotFoundError(f"set {name!r} has no version or tag {version!r}. Available: {versions_there}.")


def list_sets(session: Session, name: str | None = None) -> list[SetHeader]:
    """Return the headers of all versions (of one name), by name and version."""
    tags: dict[str, list[str]] = {}
    for set_row, tag_name in session.execute(
        select(NeighborSetTagRow.set_id, NeighborSetTagRow.tag).order_by(NeighborSetTagRow.tag)
    ):
        tags.setdefault(set_row, []).append(tag_name)
    query = select(*(getattr(NeighborSetRow, name) for name in _HEADER))
    if name is not None:
        query = query.where(NeighborSetRow.name == name)
    rows = session.execute(query.order_by(NeighborSetRow.name, NeighborSetRow.version))
    return [SetHeader(**row._mapping, tags=tuple(tags.get(row.id, ()))) for row in rows]


def load_set(session: Session, reference: str) -> NeighborSet:
    """Return a version with all its members; see `find_set` for the reference and its errors."""
    header = find_set(session, reference)
    return NeighborSet(header, tuple(load_entries(session, header.id)))


def load_entries(session: Session, header_id: str, places: range | None = None) -> list[SetEntry]:
    """Return the entries of a version in order, all or those at these consecutive positions."""
    place, member = NeighborSetQuestionRow, NeighborSetMemberRow
    of_set = [place.set_id == header_id]
    rephrased = select(member.question_id, *neighbor_columns(member)).where(member.set_id == header_id)
    if places is not None:
        of_set += [place.position >= places.start, place.position < places.stop]
        rephrased = rephrased.where(member.question_id.in_(select(place.question_id).where(*of_set)))
    asked = select(*QUESTION_COLUMNS).join(place, place.question_id == QuestionRow.id).where(*of_set)
    questions = [as_question(row) for row in session.execute(asked.order_by(place.position))]
    rows = session.execute(
        rephrased.join(CandidateRow, CandidateRow.id == member.candidate_id).order_by(
            member.question_id, member.position
        )
    )
    neighbors: dict[str, list[Neighbor]] = {}
    for asked_id, *columns in rows:
        neighbors.setdefault(asked_id, []).append(read_neighbor(columns))
    return [SetEntry(question, tuple(neighbors.get(question.id, ()))) for question in questions]


def member_ids(session: Session, header_id: str, question_id: str) -> frozenset[str]:
    """Return the ids of a version's candidates for a question."""
    row = NeighborSetMemberRow
    query = select(row.candidate_id).where(row.set_id == header_id, row.question_id == question_id)
    return frozenset(session.scalars(query))


def neighbor_columns(member: Any) -> tuple[Any, ...]:
    """Return the columns for `read_neighbor`, of a row of members joined with its candidate."""
    return tuple(CandidateRow.text if name == "text" else getattr(member, name) for name in _NEIGHBOR)


def read_neighbor(columns: Sequence[Any]) -> Neighbor:
    """Return the neighbor of these `neighbor_columns`."""
    *values, successes = columns
    values.append(successes and Successes(**successes))
    return Neighbor(*values)


def tag(session: Session, reference: str, tag_name: str) -> SetHeader:
    """Point `NAME@TAG`, new or existing, to the version `reference`; return its header."""
    check_name(tag_name)
    if _VERSION.fullmatch(tag_name):
        raise InputError(f"{tag_name!r} looks like a version. Choose a tag that is not a number.")
    header = find_set(session, reference)
    values = {"set_id": header.id, "updated_at": utc_now()}
    session.execute(
        upsert(NeighborSetTagRow)
        .values(name=header.name, tag=tag_name, **values)
        .on_conflict_do_update(index_elements=["name", "tag"], set_=values)
    )
    return find_set(session, header.id)


def untag(session: Session, name: str, tag_name: str) -> None:
    """Remove a tag; the version it points to stays."""
    row = NeighborSetTagRow
    removing = delete(row).where(row.name == name, row.tag == tag_name).returning(row.tag)
    if session.execute(removing).first() is None:
        raise NotFoundError(f"set {name!r} has no tag {tag_name!r}.")


def _insert_members(session: Session, header_id: str, entries: Iterable[SetEntry]) -> None:
    questions: list[dict[str, Any]] = []
    members: list[dict[str, Any]] = []
    for position, entry in enumerate(entries):
        questions.append({"set_id": header_id, "position": position, "question_id": entry.question.id})
        for place, neighbor in enumerate(entry.neighbors, start=1):
            successes = neighbor.successes and vars(neighbor.successes)
            member = {**vars(neighbor), "successes": successes, "set_id": header_id, "position": place}
            del member["text"]
            members.append({**member, "question_id": entry.question.id})
    table: Any  # bare, since the ORM spends more on a statement than SQLite does
    for table, rows in (
        (NeighborSetQuestionRow.__table__, questions),
        (NeighborSetMemberRow.__table__, members),
    ):
        if rows:
            session.execute(insert(table), rows)


class VerifyReport(NamedTuple):
    """Result of a verification: the hash of the present members, and one sentence for each problem."""

    derived_hash: str
    problems: list[str]


def verify(session: Session, reference: str) -> VerifyReport:
    """Recompute a version's hash, id, counts and the ids of its texts, and compare them with the stored ones.

    Neighbors must have been proposed in the version's runs, if these are in the database.
    """
    header = find_set(session, reference)
    entries = load_entries(session, header.id)
    derived = set_hash(entries)
    problems: list[str] = []
    if derived != header.content_hash:
        problems.append(
            f"the hash of the members is {derived}, but the published one is {header.content_hash}: members "
            "have changed"
        )
    if set_id(header) != header.id:
        problems.append(
            f"the id computed from name, version, parent, content, spec and counts is {set_id(header)}, not "
            f"{header.id}: one of them has changed"
        )
    counted = count_members(entries)
    problems += [
        f"the members have {key} = {value}, but the set records {header.counts.get(key)}"
        for key, value in ({"successes": None} | counted).items()
        if header.counts.get(key) != value
    ]
    wrong = [*_wrong_ids(entries), *_find_unproposed(session, header, entries)]
    more = len(wrong) - _SHOWN
    problems += wrong[:_SHOWN] + ([f"and {more} more such problems"] if more > 0 else [])
    stored = session.scalar(
        select(func.count()).select_from(NeighborSetMemberRow).where(NeighborSetMemberRow.set_id == header.id)
    )
    if stored != counted["neighbors"]:
        problems.append(f"{stored} neighbors are stored, but {counted['neighbors']} belong to its questions")
    if header.parent_id is not None and session.get(NeighborSetRow, header.parent_id) is None:
        problems.append(f"its parent {header.parent_id} is missing")
    return VerifyReport(derived, problems)


def _find_unproposed(session: Session, header: SetHeader, entries: list[SetEntry]) -> list[str]:
    """Report neighbors that none of the set's runs proposed, if this database has these runs."""
    runs = [run["id"] for run in header.runs]
    held = session.scalar(select(func.count()).select_from(RunRow).where(RunRow.id.in_(runs)))
    if "import" in header.spec or not runs or held != len(runs):
        return []
    proposed = set(session.scalars(select(ProposalRow.candidate_id).where(ProposalRow.run_id.in_(runs))))
    return [
        f"neighbor {neighbor.candidate_id} does not come from any of the set's runs"
        for entry in entries
        for neighbor in entry.neighbors
        if neighbor.candidate_id not in proposed
    ]


def _wrong_ids(entries: list[SetEntry]) -> Iterator[str]:
    for entry in entries:
        question = entry.question
        if question_id(question.text, question.answer, question.kind, question.images) != question.id:
            yield f"the text, answer or images of question {question.id} do not match its id"
        for neighbor in entry.neighbors:
            if candidate_id(question.id, neighbor.text) != neighbor.candidate_id:
                yield f"the text of neighbor {neighbor.candidate_id} does not match its id"


def count_members(entries: Iterable[SetEntry]) -> dict[str, Any]:
    """Return the counts that follow from the members alone.

    `successes` is the summary and hash of their success counts; it is missing if there are none.
    """
    groups = [entry.neighbors for entry in entries]
    neighbors = [neighbor for group in groups for neighbor in group]
    sizes = Counter(map(len, groups))
    verdicts = Counter(neighbor.verdict for neighbor in neighbors)
    counts: dict[str, Any] = {
        "questions": len(groups),
        "neighbors": len(neighbors),
        "questions_by_neighbors": {str(size): sizes[size] for size in range(max(sizes, default=0) + 1)},
        "neighbors_by_verdict": {status: verdicts[status] for status in STATUSES},
        "neighbors_by_strategy": dict(sorted(Counter(each.strategy for each in neighbors).items())),
        "reviewed": sum(neighbor.reviewed for neighbor in neighbors),
    }
    counted = [(each.candidate_id, each.successes) for each in neighbors if each.successes is not None]
    if counted:
        kinds = Counter(each.difficulty for _, each in counted)
        counts["successes"] = {
            "sha256": content_hash(
                "successes", sorted([name, *vars(each).values()] for name, each in counted)
            ),
            "neighbors": len(counted),
            "solvers": sorted({each.solver for _, each in counted}),
            "difficulty": {name: kinds[name] for name in ("easier", "level", "harder")},
            "question_rate": round(
                fmean(each.question_right / each.question_drawn for _, each in counted), 4
            ),
            "neighbor_rate": round(
                fmean(each.neighbor_right / each.neighbor_drawn for _, each in counted), 4
            ),
        }
    return counts


def count_proposals(session: Session, run_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return the proposals of runs counted by status, one record per proposer, strategy and model."""
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for run_id in run_ids:
        for _, *made_by, status, candidates in standing_counts(session, run_id):
            groups.setdefault(tuple(made_by), Counter())[status] += candidates
    names = ("proposer", "strategy", "strategy_hash", "model")
    return [
        {**dict(zip(names, made_by, strict=True)), **{each: counted[each] for each in (*STATUSES, PENDING)}}
        for made_by, counted in sorted(groups.items())
    ]


def accept_rates(
    proposals: Sequence[Mapping[str, Any]], by: Literal["strategy", "model"] = "strategy"
) -> list[dict[str, Any]]:
    """Return the acceptance rate of all proposals (records of `count_proposals`), then of each group.

    Groups are strategies or models, if there are several. `unverified` proposals have no compared answers or
    are not judged yet; they are not in `judged`. `rate` is None if nothing was judged by answers.
    """
    if not proposals:
        return []
    names = sorted({str(record[by]) for record in proposals})
    groups = {name: [record for record in proposals if str(record[by]) == name] for name in names}
    return [_rate("all", proposals), *(_rate(*group) for group in groups.items() if len(groups) > 1)]


def _rate(strategy: str, proposals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counted = {status: sum(int(each[status]) for each in proposals) for status in (*STATUSES, PENDING)}
    accepted = counted["accepted"]
    judged = accepted + counted["rejected"] + counted["undecided"]
    unverified = counted["unverified"] + counted[PENDING]
    counts = {"strategy": strategy, "accepted": accepted, "judged": judged, "unverified": unverified}
    # Without a solver only structural checks and reviews decide; a share of those few would mislead.
    measured = judged > 0 and (accepted > 0 or unverified == 0)
    low = high = None
    if measured:
        from evaluator.passk.intervals import exact_interval  # loads numpy

        low, high = exact_interval(accepted, judged)
    return {**counts, "rate": accepted / judged if measured else None, "low": low, "high": high}
