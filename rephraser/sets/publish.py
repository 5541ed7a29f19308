"""Publishing: from the candidates of runs to an immutable version of a neighbor set."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from evaluator.signal.cost import compare_choices, needs_neighbors
from evaluator.signal.groups import ORIGINAL, PromptSample, QuestionGroup, count_groups
from evaluator.signal.rates import fit_rates
from evaluator.signal.sources import load_runs
from rephraser.candidates import PENDING, STATUSES, find_neighbor_run, status_query
from rephraser.checks.text import choose_apart
from rephraser.questions.store import load_questions
from rephraser.sets.store import count_members, count_proposals, write_set
from rephraser.sets.types import Neighbor, PublishedSet, SetEntry
from rephraser.tables import VerdictRow
from rephraser.verdict.successes import read_successes, solver_name
from service.database import Database
from service.errors import InputError
from service.runs.store import Run, check_name, package_versions, run_question_ids

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
    """Neighbors only for questions whose group of `g` responses is unmixed with probability `unmixed`.

    `pilot` is the eval run whose responses to the questions count, instead of the answers drawn for verdicts.
    """

    g: int = 8
    unmixed: float = 0.5
    pilot: str | None = None


@dataclass(frozen=True)
class Selection:
    """The candidates of the runs that become neighbors; None and empty do not restrict."""

    n: int | None = None  # maximum per question
    include: tuple[str, ...] = ("accepted",)  # statuses; earlier ones come first
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    only_with_neighbors: bool = False  # otherwise questions without a neighbor stay and train alone
    min_distance: float = 0.0  # to the question and to the neighbors chosen before
    prefer: Preference = "any"  # within a status; within a difficulty those that are furthest apart
    adaptive: Adaptive | None = None

    def __post_init__(self) -> None:
        unknown = [status for status in self.include if status not in STATUSES]
        if unknown or not self.include:
            raise InputError(
                f"cannot include {', '.join(unknown) or 'nothing'}. Choose from {', '.join(STATUSES)}."
            )

    def takes(self, candidate: Neighbor) -> bool:
        """Say whether a candidate may become a neighbor, before distances and n are applied."""
        return (
            candidate.verdict in self.include
            and (not self.strategies or candidate.strategy in self.strategies)
            and (not self.models or candidate.model in self.models)
        )

    def rank(self, neighbor: Neighbor) -> tuple[int, ...]:
        """Return a candidate's rank by status and preferred difficulty, lowest first."""
        status, order = self.include.index(neighbor.verdict), _ORDER[self.prefer]
        if not order:
            return (status,)
        return status, order.index(neighbor.successes and neighbor.successes.difficulty)


SPEC_FORMAT = 2


@dataclass(frozen=True)
class Draft:
    """A version before it is written: its entries, and its header's values that do not follow from them."""

    entries: tuple[SetEntry, ...]
    spec: Mapping[str, Any]
    counts: Mapping[str, Any]
    groups: tuple[QuestionGroup, ...]  # answers to questions and neighbors, of the pilot or of the verdicts

    def to_json(self, g: int) -> dict[str, Any]:
        """Return the counts, and what other choices of neighbors yield in groups of `g` responses."""
        content: dict[str, Any] = {"counts": {**count_members(self.entries), **self.counts}}
        most = max(len(entry.neighbors) for entry in self.entries)
        try:
            if not self.groups:
                raise InputError("no answers were compared, so success rates are unknown")
            model = fit_rates(count_groups(self.groups))
            choices = compare_choices(self.groups, model, g, most if model.shift else 0)
        except InputError as error:
            return {**content, "choices": [], "no_choices": str(error)}
        return {**content, "choices": choices, "no_choices": None}


def publish(
    db: Database, name: str, *, run: str | Sequence[str], selection: Selection | None = None, **filters: Any
) -> PublishedSet:
    """Publish the neighbors of one or several runs as the next version of the set `name`.

    Questions keep the order of the runs and of their questions. For a candidate that several runs proposed,
    the first run in which it qualifies counts; if the answers of another run reject it, it is not accepted.
    If the newest version of the name has the same content and success counts, no new one is created.
    `filters` are fields of a `Selection`, if none is given.
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
    for question_id, each in proposed:
        if (counted := each.successes) is not None:
            rates.setdefault(question_id, (counted.question_right, counted.question_drawn))
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
    ids = list(dict.fromkeys(id for each in runs for id in run_question_ids(session, each.id)))
    questions = load_questions(session, ids)
    for question in (questions[id] for id in ids):
        rate = rates.get(question.id)
        fitting = candidates.get(question.id, [])
        if adaptive is not None:
            needed = rate is None or needs_neighbors(*rate, adaptive.g, adaptive.unmixed)
            tallies["unknown" if rate is None else "in need" if needed else "alone"] += 1
            fitting = fitting if needed else []
        chosen, too_like = choose_apart(
            question.text,
            [candidate.text for candidate in fitting],
            [selection.rank(candidate) for candidate in fitting],
            selection.n,
            selection.min_distance,
        )
        tallies["too like"] += too_like
        every.append(SetEntry(question, tuple(fitting[place] for place in chosen)))
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
        "publish": {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(selection).items()},
        "packages": package_versions(),
    }
    ids = [entry.question.id for entry in entries]
    groups = [pilot[key] for key in ids if key in pilot] or _verdict_groups(ids, candidates)
    return Draft(tuple(entries), spec, counts, tuple(groups))


def _read_candidates(session: Session, run: Run) -> list[tuple[str, Neighbor]]:
    """Return the candidates of a run with their questions, by question and ordinal.

    They have the newest counts of answers; those that were not judged yet have the verdict "pending".
    """
    solvers = [solver_name(solver) for solver in run.spec.get("solvers", ())]
    rows = session.execute(status_query(run.id).add_columns(VerdictRow.evidence["counts"].label("counts")))
    same = ("candidate_id", "text", "proposer", "strategy", "strategy_hash", "model", "reviewed")
    return [
        (
            row.question_id,
            Neighbor(
                **{name: getattr(row, name) for name in same},
                verdict=row.status or PENDING,
                posterior=None,
                successes=read_successes(row.counts, solvers),
            ),
        )
        for row in rows
    ]


def _select(
    proposed: Sequence[tuple[str, Neighbor]], selection: Selection
) -> tuple[dict[str, list[Neighbor]], Counter[str]]:
    """Return the eligible candidates by question, in the order of runs, and the left-out counts."""
    seen: set[str] = set()
    fitting: dict[str, list[Neighbor]] = {}
    tallies: Counter[str] = Counter()
    contradicted = {
        each.candidate_id for _, each in proposed if each.verdict == "rejected" and each.successes is not None
    }
    for question_id, each in proposed:
        if not selection.takes(each):
            continue
        if each.candidate_id in seen:
            tallies["duplicates"] += 1
        elif each.verdict != "rejected" and each.candidate_id in contradicted:
            tallies["contradicted"] += 1
        else:
            seen.add(each.candidate_id)
            fitting.setdefault(question_id, []).append(each)
    return fitting, tallies


def _verdict_groups(ids: Sequence[str], candidates: Mapping[str, Sequence[Neighbor]]) -> list[QuestionGroup]:
    """Return questions and their possible neighbors, with the answers drawn for the verdicts."""
    groups = []
    for question_id in ids:
        counted = [each.successes for each in candidates.get(question_id, ()) if each.successes]
        if counted:
            prompts = [(counted[0].question_right, counted[0].question_drawn)]
            prompts += [(each.neighbor_right, each.neighbor_drawn) for each in counted]
            samples = [PromptSample(place, right, n - right) for place, (right, n) in enumerate(prompts)]
            groups.append(QuestionGroup(question_id, tuple(samples)))
    return groups


def _nothing_fits(
    runs: Sequence[Run],
    proposed: Sequence[tuple[str, Neighbor]],
    selection: Selection,
    tallies: Mapping[str, int],
) -> str:
    counted = Counter(each.verdict for _, each in proposed)
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
