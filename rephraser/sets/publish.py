"""Publishing: from the candidates of runs to an immutable version of a neighbor set."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.signal.cost import compare_choices, needs_neighbors
from evaluator.signal.groups import ORIGINAL, PromptSample, QuestionGroup, count_groups
from evaluator.signal.rate_model import fit_rates
from evaluator.signal.records import choice_record
from evaluator.signal.sources.eval_runs import load_runs
from rephraser.checks.wording import choose_apart, wording
from rephraser.reviews.status import PENDING, STATUSES, CandidateStatus, status_query
from rephraser.run.start import find_neighbor_run
from rephraser.sets.counts import count_members, count_proposals, count_successes
from rephraser.sets.store import write_set
from rephraser.sets.types import Neighbor, PublishedSet, SetEntry
from rephraser.tables import CandidateRow, StandingRow, VerdictRow
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
    """A candidate of a run, with the data needed to choose among its siblings."""

    status: CandidateStatus
    text: str
    successes: Successes | None


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

    def to_json(self, g: int) -> dict[str, Any]:
        """Return the counts, and what other choices of neighbors yield in groups of `g` responses."""
        counts = {**count_members(self.entries), **count_successes(self.entries), **self.counts}
        most = max(len(entry.neighbors) for entry in self.entries)
        if not self.groups:
            reason = "no answers were compared, so success rates are unknown"
            return {"counts": counts, "choices": [], "no_choices": reason}
        try:
            model = fit_rates(count_groups(self.groups))
            choices = compare_choices(self.groups, model, g, most if model.shift else 0)
        except InputError as error:
            return {"counts": counts, "choices": [], "no_choices": str(error)}
        return {"counts": counts, "choices": list(map(choice_record, choices)), "no_choices": None}


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
        version = draft(session, run, selection or Selection(**filters))
        return write_set(session, name, version.entries, spec=version.spec, counts=version.counts)


def draft(session: Session, run: str | Sequence[str], selection: Selection) -> Draft:
    """Return the version that `publish` would write; see there."""
    references = [run] if isinstance(run, str) else run
    runs = [find_neighbor_run(session, reference) for reference in references]
    if len({each.id for each in runs}) < len(runs) or not runs:
        raise InputError(f"give each run exactly once, not {', '.join(references) or 'none'}.")
    proposed = [candidate for each in runs for candidate in _read_candidates(session, each)]
    rates: dict[str, tuple[int, int]] = {}  # correct and all answers, of the first run
    for each in proposed:
        if (counted := each.successes) is not None:
            rates.setdefault(each.status.question_id, (counted.question_right, counted.question_drawn))
    adaptive = selection.adaptive
    pilot: dict[str, QuestionGroup] = {}
    if adaptive is not None and adaptive.pilot is not None:
        [answered] = load_runs(session, [adaptive.pilot])
        for group in answered.groups:
            for asked in group.prompts:
                if asked.variant == ORIGINAL and asked.known:
                    key = asked.source_id or group.group_id
                    pilot[key], rates[key] = group, (asked.correct, asked.known)
    candidates, tallies = _select(proposed, selection)
    every: list[SetEntry] = []
    for question in _questions(session, runs):
        rate = rates.get(question.id)
        fitting = candidates.get(question.id, [])
        if adaptive is not None:
            needed = adaptive.needs(rate)
            tallies["unknown" if rate is None else "in need" if needed else "alone"] += 1
            fitting = fitting if needed else []
        chosen, too_like = choose_apart(
            wording(question.text),
            [wording(candidate.text) for candidate in fitting],
            [_rank(candidate, selection) for candidate in fitting],
            selection.n,
            selection.min_distance,
        )
        tallies["too like"] += too_like
        every.append(SetEntry(question, tuple(_neighbor(fitting[place]) for place in chosen)))
    entries = [entry for entry in every if entry.neighbors or not selection.only_with_neighbors]
    if not any(entry.neighbors for entry in entries):
        raise InputError(_nothing_fits(runs, proposed, selection, tallies))
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


def _read_candidates(session: Session, run: Run) -> list[EligibleCandidate]:
    """Return the candidates of a run, by question and ordinal, with the newest counts of answers."""
    solvers = [solver_name(solver) for solver in run.spec.get("solvers", ())]
    rows = session.execute(
        status_query(run.id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
        .add_columns(CandidateRow.text, VerdictRow.evidence["counts"])
    )
    return [
        EligibleCandidate(CandidateStatus(*status), text, read_successes(counts, solvers))
        for *status, text, counts in rows
    ]


def _select(
    proposed: Sequence[EligibleCandidate], selection: Selection
) -> tuple[dict[str, list[EligibleCandidate]], Counter[str]]:
    """Return the eligible candidates by question, in the order of runs, and the left-out counts."""
    seen: set[str] = set()
    fitting: dict[str, list[EligibleCandidate]] = {}
    tallies: Counter[str] = Counter()
    contradicted = {
        each.status.candidate_id
        for each in proposed
        if each.status.status == "rejected" and each.successes is not None
    }
    for each in proposed:
        status = each.status
        if not selection.takes(status):
            continue
        if status.candidate_id in seen:
            tallies["duplicates"] += 1
        elif status.status != "rejected" and status.candidate_id in contradicted:
            tallies["contradicted"] += 1
        else:
            seen.add(status.candidate_id)
            fitting.setdefault(status.question_id, []).append(each)
    return fitting, tallies


def _verdict_groups(
    ids: Sequence[str], candidates: Mapping[str, Sequence[EligibleCandidate]]
) -> list[QuestionGroup]:
    """Return questions and their possible neighbors, with the answers drawn for the verdicts."""
    groups = []
    for question_id in ids:
        counted = [each.successes for each in candidates.get(question_id, ()) if each.successes is not None]
        if counted:
            prompts = [(counted[0].question_right, counted[0].question_drawn)]
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
    proposed: Sequence[EligibleCandidate],
    selection: Selection,
    tallies: Mapping[str, int],
) -> str:
    counted = Counter(each.status.status or PENDING for each in proposed)
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
