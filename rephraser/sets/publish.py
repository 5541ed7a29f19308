"""Publishing: from the candidates of runs to an immutable version of a neighbor set."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.signal.cost import needs_neighbors
from evaluator.signal.groups import ORIGINAL, PromptSample, QuestionGroup
from evaluator.signal.sources.eval_runs import load_runs
from rephraser.checks.wording import choose_apart, wording
from rephraser.reviews.status import PENDING, STATUSES, CandidateStatus, current_statuses
from rephraser.run.start import find_neighbor_run
from rephraser.sets.counts import count_proposals
from rephraser.sets.store import write_set
from rephraser.sets.types import Neighbor, PublishedSet, SetEntry
from rephraser.tables import CandidateRow, ProposalRow, StandingRow, VerdictRow
from rephraser.verdict.successes import Successes, read_successes, solver_name
from service.database import Database
from service.errors import InputError
from service.questions import Question
from service.questions.store import QUESTION_COLUMNS, as_question
from service.questions.tables import QuestionRow
from service.runs.store import Run, check_name, package_versions
from service.runs.tables import RunQuestionRow

Preference = Literal["any", "easier", "harder", "level"]
_ORDER: dict[Preference, tuple[str | None, ...]] = {
    "any": (),
    "easier": ("easier", "level", None, "harder"),
    "harder": ("harder", "level", None, "easier"),
    "level": ("level", None, "easier", "harder"),
}
"""Order of difficulties by preference; None is that of candidates without counts."""


@dataclass(frozen=True)
class Adaptive:
    """Neighbors only for questions that yield no gradient alone, by `needs_neighbors`.

    Attributes:
        g: responses of the group of the question alone.
        unmixed: minimum probability of an unmixed group for which a question gets neighbors.
        pilot: eval run whose responses to the questions count; None: the answers drawn for the verdicts.
    """

    g: int = 8
    unmixed: float = 0.5
    pilot: str | None = None

    def __post_init__(self) -> None:
        if self.g < 2 or not 0 < self.unmixed < 1:
            raise InputError(
                "adaptive needs a group of at least 2 responses and a probability between 0 and 1, not "
                f"{self.g} and {self.unmixed}."
            )

    def needs(self, rate: tuple[int, int] | None) -> bool:
        """Say whether a question needs neighbors; `rate` is correct and total answers, None if unknown."""
        return rate is None or needs_neighbors(*rate, self.g, self.unmixed)


@dataclass(frozen=True)
class Selection:
    """The candidates of the runs that become neighbors.

    Attributes:
        n: maximum per question; None includes all that qualify.
        include: statuses to include. If a question has more than n, earlier ones in this tuple come first.
        strategies, models: names to include; empty includes all.
        only_with_neighbors: leave out questions without any neighbor (otherwise they stay and train alone).
        min_distance: leave out candidates closer than this to their question or to a neighbor chosen before.
        prefer: within a status these come first; within a difficulty those that are furthest apart.
        adaptive: neighbors for some questions only; None: for all.
    """

    n: int | None = None
    include: tuple[str, ...] = ("accepted",)
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    only_with_neighbors: bool = False
    min_distance: float = 0.0
    prefer: Preference = "any"
    adaptive: Adaptive | None = None

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise InputError(f"n is {self.n}, but must be at least 1 neighbor per question.")
        unknown = [status for status in self.include if status not in STATUSES]
        if unknown or not self.include:
            raise InputError(
                f"cannot include {', '.join(unknown) or 'nothing'}. Choose from {', '.join(STATUSES)}."
            )
        if not 0 <= self.min_distance <= 1:
            raise InputError(f"a distance must be between 0 and 1, but is {self.min_distance}.")
        if self.prefer not in get_args(Preference):
            raise InputError(
                f"{self.prefer!r} is not a valid preference. Choose one of {', '.join(get_args(Preference))}."
            )

    def takes(self, status: CandidateStatus) -> bool:
        """Say whether a candidate may become a neighbor, before distances and n are applied."""
        if status.status not in self.include:
            return False
        if self.strategies and status.strategy not in self.strategies:
            return False
        return not self.models or status.model in self.models

    def to_json(self) -> dict[str, Any]:
        """Return the form stored in a version's spec."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


@dataclass(frozen=True)
class EligibleCandidate:
    """A candidate that may become a neighbor, with the data needed to choose among its siblings."""

    status: CandidateStatus
    text: str
    successes: Successes | None


def choose(
    question: str, fitting: Sequence[EligibleCandidate], selection: Selection
) -> tuple[list[EligibleCandidate], int]:
    """Return up to n candidates in training order, and how many were too similar.

    By status, then by preferred difficulty, then greedily those furthest from the question and from the
    chosen ones; among equals the one proposed earlier.
    """
    chosen, too_like = choose_apart(
        wording(question),
        [wording(candidate.text) for candidate in fitting],
        [_rank(candidate, selection) for candidate in fitting],
        selection.n,
        selection.min_distance,
    )
    return [fitting[place] for place in chosen], too_like


def _rank(candidate: EligibleCandidate, selection: Selection) -> tuple[int, ...]:
    """Return a candidate's rank by status and preferred difficulty, lowest first."""
    status = selection.include.index(str(candidate.status.status))
    order = _ORDER[selection.prefer]
    if not order:
        return (status,)
    return status, order.index(candidate.successes and candidate.successes.difficulty)


SPEC_FORMAT = 2


@dataclass(frozen=True)
class Draft:
    """A version before it is written.

    Attributes:
        entries: questions with their neighbors.
        spec, counts: its header's values, except those that follow from the members.
        groups: correct and wrong answers to questions and neighbors, of the pilot or of the verdicts; unknown
            ones are left out.
    """

    entries: tuple[SetEntry, ...]
    spec: Mapping[str, Any]
    counts: Mapping[str, Any]
    groups: tuple[QuestionGroup, ...]


def publish(
    db: Database, name: str, *, run: str | Sequence[str], selection: Selection | None = None, **filters: Any
) -> PublishedSet:
    """Publish the neighbors of runs as the next version of the set `name`, in one transaction.

    Questions keep the order of the runs and of their questions. For a candidate that several runs proposed,
    the first run in which it qualifies counts; if the answers of another run reject it, it is not accepted.
    If the newest version of the name has the same content and success counts, no new one is created.

    Args:
        run: name or id of a run, or of several.
        selection: the candidates to include; or its fields, as `filters`.

    Raises:
        InputError: a bad name or selection, a run named twice, or no candidate qualifies; then the message
            counts the runs' candidates.
        NotFoundError: no such run.
    """
    check_name(name)
    with db.write() as session:
        version = draft(session, run, selection or make_selection(**filters))
        return write_set(session, name, version.entries, spec=version.spec, counts=version.counts)


def make_selection(**filters: Any) -> Selection:
    """Return a selection; lists may replace tuples."""
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in filters.items()}
    return Selection(**values)


def draft(session: Session, run: str | Sequence[str], selection: Selection) -> Draft:
    """Return the version that `publish` would write; see there."""
    runs = _find_runs(session, [run] if isinstance(run, str) else run)
    statuses = [current_statuses(session, run.id) for run in runs]
    successes = {run.id: _successes(session, run) for run in runs}
    adaptive = selection.adaptive
    pilot = {} if adaptive is None or adaptive.pilot is None else _pilot(session, adaptive.pilot)
    rates = {
        **_question_rates(statuses, successes, runs),
        **{key: _rate(group) for key, group in pilot.items()},
    }
    candidates, tallies = _candidates(session, runs, statuses, successes, selection)
    every: list[SetEntry] = []
    for question in _questions(session, runs):
        rate = rates.get(question.id)
        fitting = candidates.get(question.id, [])
        if adaptive is not None:
            needed = adaptive.needs(rate)
            tallies["unknown" if rate is None else "in need" if needed else "alone"] += 1
            fitting = fitting if needed else []
        chosen, too_like = choose(question.text, fitting, selection)
        tallies["too like"] += too_like
        every.append(SetEntry(question, tuple(map(_neighbor, chosen))))
    entries = [entry for entry in every if entry.neighbors or not selection.only_with_neighbors]
    if not any(entry.neighbors for entry in entries):
        raise InputError(_nothing_fits(runs, statuses, selection, tallies))
    counts: dict[str, Any] = {
        "questions_left_out": len(every) - len(entries),
        "too_like": tallies["too like"],
        "proposals": count_proposals(session, [run.id for run in runs]),
    }
    if len(runs) > 1:
        counts |= {name: tallies[name] for name in ("duplicates", "contradicted")}
    if adaptive is not None:
        counts["adaptive"] = {name: tallies[name] for name in ("in need", "alone", "unknown")}
    spec = {
        "format": SPEC_FORMAT,
        "runs": [
            {key: getattr(run, key) for key in ("id", "name", "kind", "created_at", "finished_at")}
            | {"spec": run.spec, "versions": run.versions}
            for run in runs
        ],
        "publish": selection.to_json(),
        "packages": package_versions(),
    }
    ids = [entry.question.id for entry in entries]
    groups = [pilot[key] for key in ids if key in pilot] or _verdict_groups(ids, candidates)
    return Draft(tuple(entries), spec, counts, tuple(groups))


def _find_runs(session: Session, references: Sequence[str]) -> list[Run]:
    runs = [find_neighbor_run(session, reference) for reference in references]
    if len({run.id for run in runs}) < len(runs) or not runs:
        raise InputError(f"give each run exactly once, not {', '.join(references) or 'none'}.")
    return runs


def _candidates(
    session: Session,
    runs: Sequence[Run],
    statuses: Sequence[Sequence[CandidateStatus]],
    successes: Mapping[str, Mapping[str, Successes]],
    selection: Selection,
) -> tuple[dict[str, list[EligibleCandidate]], Counter[str]]:
    """Return the eligible candidates by question, in the order of runs, and the left-out counts."""
    seen: set[str] = set()
    fitting_ones: dict[str, list[EligibleCandidate]] = {}
    tallies: Counter[str] = Counter()
    contradicted = {
        status.candidate_id
        for run, of_run in zip(runs, statuses, strict=True)
        for status in of_run
        if status.status == "rejected" and status.candidate_id in successes[run.id]
    }
    for run, of_run in zip(runs, statuses, strict=True):
        texts = _texts(session, run.id)
        for status in of_run:  # by round and ordinal within a question
            if not selection.takes(status):
                continue
            if status.candidate_id in seen:
                tallies["duplicates"] += 1
            elif status.status != "rejected" and status.candidate_id in contradicted:
                tallies["contradicted"] += 1
            else:
                seen.add(status.candidate_id)
                fitting = EligibleCandidate(
                    status, texts[status.candidate_id], successes[run.id].get(status.candidate_id)
                )
                fitting_ones.setdefault(status.question_id, []).append(fitting)
    return fitting_ones, tallies


def _question_rates(
    statuses: Sequence[Sequence[CandidateStatus]],
    successes: Mapping[str, Mapping[str, Successes]],
    runs: Sequence[Run],
) -> dict[str, tuple[int, int]]:
    """Return correct and total answers to questions, of the first run that has some."""
    rates: dict[str, tuple[int, int]] = {}
    for run, of_run in zip(runs, statuses, strict=True):
        for status in of_run:
            counts = successes[run.id].get(status.candidate_id)
            if counts is not None:
                rates.setdefault(status.question_id, (counts.question_right, counts.question_drawn))
    return rates


def _successes(session: Session, run: Run) -> dict[str, Successes]:
    """Return the answer counts of the newest verdict of each candidate of a run."""
    rows = session.execute(
        select(StandingRow.candidate_id, VerdictRow.evidence["counts"])
        .join(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .where(StandingRow.run_id == run.id)
    )
    solvers = [solver_name(solver) for solver in run.spec.get("solvers", ())]
    read = ((identity, read_successes(counts, solvers)) for identity, counts in rows)
    return {identity: successes for identity, successes in read if successes is not None}


def _pilot(session: Session, reference: str) -> dict[str, QuestionGroup]:
    """Return the groups of an eval run whose questions were answered, by question."""
    (pilot,) = load_runs(session, [reference])
    asked = ((group, _of(group)) for group in pilot.groups)
    return {
        asked_group.source_id or group.group_id: group
        for group, asked_group in asked
        if asked_group is not None
    }


def _of(group: QuestionGroup) -> PromptSample | None:
    return next((prompt for prompt in group.prompts if prompt.variant == ORIGINAL and prompt.known), None)


def _rate(group: QuestionGroup) -> tuple[int, int]:
    asked = _of(group)
    assert asked is not None
    return asked.correct, asked.known


def _verdict_groups(
    ids: Sequence[str], candidates: Mapping[str, Sequence[EligibleCandidate]]
) -> list[QuestionGroup]:
    """Return questions and their possible neighbors, with the answers drawn for the verdicts."""
    groups = []
    for question_id in ids:
        counted = [
            fitting.successes for fitting in candidates.get(question_id, ()) if fitting.successes is not None
        ]
        if not counted:
            continue
        first = counted[0]
        prompts = [(first.question_right, first.question_drawn)]
        prompts += [(successes.neighbor_right, successes.neighbor_drawn) for successes in counted]
        samples = [PromptSample(place, right, n - right) for place, (right, n) in enumerate(prompts)]
        groups.append(QuestionGroup(question_id, tuple(samples)))
    return groups


def _questions(session: Session, runs: Sequence[Run]) -> list[Question]:
    questions: dict[str, Question] = {}
    for run in runs:
        rows = session.execute(
            select(*QUESTION_COLUMNS)
            .join(RunQuestionRow, RunQuestionRow.question_id == QuestionRow.id)
            .where(RunQuestionRow.run_id == run.id)
            .order_by(RunQuestionRow.position)
        )
        for row in rows:
            questions.setdefault(row.id, as_question(row))
    return list(questions.values())


def _texts(session: Session, run_id: str) -> dict[str, str]:
    rows = session.execute(
        select(CandidateRow.id, CandidateRow.text)
        .join(ProposalRow, ProposalRow.candidate_id == CandidateRow.id)
        .where(ProposalRow.run_id == run_id)
    )
    return {row.id: row.text for row in rows}


def _neighbor(chosen: EligibleCandidate) -> Neighbor:
    status = chosen.status
    return Neighbor(
        candidate_id=status.candidate_id,
        text=chosen.text,
        proposer=status.proposer,
        strategy=status.strategy,
        strategy_hash=status.strategy_hash,
        model=status.model,
        verdict=str(status.status),
        posterior=None,
        reviewed=status.reviewed,
        successes=chosen.successes,
    )


def _nothing_fits(
    runs: Sequence[Run],
    statuses: Sequence[Sequence[CandidateStatus]],
    selection: Selection,
    tallies: Mapping[str, int],
) -> str:
    counted = Counter(status.status or PENDING for of_run in statuses for status in of_run)
    has = ", ".join(f"{count:,} {status}" for status, count in sorted(counted.items())) or "none at all"
    ways = ["loosen the filters"]
    if counted.get("unverified") and "unverified" not in selection.include:
        ways.append("pass --include unverified (their answers were not compared)")
    if counted.get(PENDING):
        ways.append("finish the run")
    if tallies["too like"]:
        ways.append(f"lower --min-distance ({tallies['too like']:,} candidates were too similar)")
    if tallies["alone"]:
        ways.append(f"remove --adaptive ({tallies['alone']:,} questions probably yield a gradient alone)")
    names = " and ".join(repr(run.name) for run in runs)
    return (
        f"no candidate of run {names} qualifies, so there is nothing to publish. Candidates by verdict: "
        f"{has}; included verdicts: {', '.join(selection.include)}. You can {', or '.join(ways)}."
    )
