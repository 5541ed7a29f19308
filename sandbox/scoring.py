"""How a run of neighbors judged candidates whose truth is known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.passk.exact_interval import exact_interval
from rephraser.reviews.status import current_statuses
from rephraser.tables import VerdictRow
from service.errors import InputError
from service.runs.store import Run

STRUCTURE, ANSWERS, REVIEW, HELD, PASSED, PENDING = OUTCOMES = (
    "rejected by structure",
    "rejected by answers",
    "rejected by a reviewer",
    "undecided",
    "passed",
    "pending",
)
"""What became of a candidate. `passed`: accepted, or, in a run without a solver, unverified; `undecided` is
held back from publishing; `pending` has no final verdict yet."""

_CAUGHT = (STRUCTURE, ANSWERS, REVIEW)


@dataclass(frozen=True)
class Truth:
    """What is known about a candidate; `broken` is the kind of break, None for a good one."""

    candidate_id: str
    broken: str | None
    phrasing: str


@dataclass(frozen=True)
class Share:
    """A share with its exact 95% interval; share, low and high are None where there is nothing to count."""

    count: int
    total: int
    share: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.share is None:
            return "0 of 0"
        return f"{self.count:,} of {self.total:,} ({self.share:.1%}, 95% {self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class Group:
    """The candidates of one kind, by what became of them.

    Attributes:
        rejected: caught where they are broken, lost where they are good.
        kept_out: rejected or undecided: not published.
    """

    name: str
    outcomes: dict[str, int]
    rejected: Share
    kept_out: Share


@dataclass(frozen=True)
class Score:
    """How a run judged.

    Attributes:
        run: its name.
        broken, good: all candidates of either side that the run proposed.
        kinds: the broken ones by kind of break.
        phrasings: the good ones by phrasing.
        unproposed: candidates of the truth that the run never proposed, as it had enough neighbors.
        unknown: candidates of the run of which the truth says nothing; they are counted nowhere else.
    """

    run: str
    broken: Group
    good: Group
    kinds: tuple[Group, ...]
    phrasings: tuple[Group, ...]
    unproposed: int
    unknown: int

    def as_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(asdict(self), indent=2)

    def as_text(self) -> str:
        """Return the same for people: the shares, then a line for each kind of break and each phrasing."""
        lines = [
            f"run {self.run}: broken candidates rejected: {self.broken.rejected};",
            f"broken candidates not publishable (rejected or undecided): {self.broken.kept_out};",
            f"good candidates rejected: {self.good.rejected};",
            f"good candidates not publishable: {self.good.kept_out}.",
        ]
        for title, groups in (
            ("broken by", (*self.kinds, self.broken)),
            ("good, phrasing", (*self.phrasings, self.good)),
        ):
            lines += ["", f"{title:28} rejected; and all outcomes"]
            for group in groups:
                outcomes = ", ".join(f"{count:,} {name}" for name, count in group.outcomes.items() if count)
                lines += [f"{group.name:28} {group.rejected}; {outcomes}"] if outcomes else []
        if self.unproposed:
            lines.append(f"{self.unproposed:,} candidates of the truth file were not proposed in this run.")
        if self.unknown:
            lines.append(f"{self.unknown:,} candidates of the run are not in the truth file.")
        return "\n".join(lines)


def read_truth(path: Path) -> dict[str, Truth]:
    """Return the truth by candidate id, as `python -m sandbox candidates` wrote it.

    Raises:
        InputError: the file cannot be read, or a row is no truth; the message names file and row.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from error
    truths = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            truth = Truth(row["candidate_id"], row["break"], row["phrasing"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}:{number}: not a row of a truth file ({error}). Write one with `python -m "
                "sandbox candidates`."
            ) from error
        truths[truth.candidate_id] = truth
    return truths


def score_run(session: Session, run: Run, truth: Mapping[str, Truth]) -> Score:
    """Compare the run's verdicts with the truth.

    Raises:
        InputError: the run has no candidate that the truth knows.
    """
    outcomes = _outcomes(session, run.id)
    in_truth = {identity: outcome for identity, outcome in outcomes.items() if identity in truth}
    if not in_truth:
        raise InputError(
            f"run {run.name!r} has no candidate from this truth file. Propose the candidates that belong to "
            "it with proposer=file."
        )
    broken = [identity for identity in in_truth if truth[identity].broken is not None]
    good = [identity for identity in in_truth if truth[identity].broken is None]
    kinds = list(dict.fromkeys(each.broken for each in truth.values() if each.broken is not None))
    phrasings = list(dict.fromkeys(each.phrasing for each in truth.values()))
    return Score(
        run=run.name,
        broken=_group("broken", broken, in_truth),
        good=_group("good", good, in_truth),
        kinds=tuple(
            _group(kind, [i for i in broken if truth[i].broken == kind], in_truth) for kind in sorted(kinds)
        ),
        phrasings=tuple(
            _group(name, [i for i in good if truth[i].phrasing == name], in_truth)
            for name in sorted(phrasings)
        ),
        unproposed=len(truth) - len(in_truth),
        unknown=len(outcomes) - len(in_truth),
    )


def _outcomes(session: Session, run_id: str) -> dict[str, str]:
    """Return what became of each candidate of the run."""
    newest = select(func.max(VerdictRow.id)).where(VerdictRow.run_id == run_id)
    rows = session.execute(
        select(VerdictRow.candidate_id, VerdictRow.evidence).where(
            VerdictRow.id.in_(newest.group_by(VerdictRow.candidate_id))
        )
    )
    evidence: dict[str, dict[str, Any]] = dict(rows.all())
    return {
        status.candidate_id: _outcome(
            status.status, status.reviewed, status.final, evidence.get(status.candidate_id, {})
        )
        for status in current_statuses(session, run_id)
    }


def _outcome(status: str | None, reviewed: bool, final: bool, evidence: Mapping[str, Any]) -> str:
    if status is None or not final:
        return PENDING
    if status != "rejected":
        return HELD if status == "undecided" else PASSED
    if reviewed:
        return REVIEW
    fatal = any(finding["severity"] == "fatal" for finding in evidence.get("findings", ()))
    return STRUCTURE if fatal else ANSWERS


def _group(name: str, members: Sequence[str], outcomes: Mapping[str, str]) -> Group:
    of_members = [outcomes[identity] for identity in members]
    counts = {outcome: of_members.count(outcome) for outcome in OUTCOMES}
    rejected = sum(counts[outcome] for outcome in _CAUGHT)
    judged = len(of_members) - counts[PENDING]
    return Group(name, counts, _share(rejected, judged), _share(rejected + counts[HELD], judged))


def _share(count: int, total: int) -> Share:
    if total == 0:
        return Share(count, total, None, None, None)
    return Share(count, total, count / total, *exact_interval(count, total))
