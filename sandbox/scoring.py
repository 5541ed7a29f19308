"""How a run of neighbors judged candidates whose truth is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from evaluator.passk.intervals import exact_interval
from rephraser.candidates import read_candidates
from service.errors import InputError
from service.questions.files import read_objects
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
class Share:
    """A share with its exact 95% interval; None if there is nothing to count."""

    count: int
    total: int
    share: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.share is None:
            return "0 of 0"
        return f"{self.count:,} of {self.total:,} ({self.share:.1%}, 95% {self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class CandidateGroup:
    """The candidates of one kind, by what became of them."""

    name: str
    outcomes: dict[str, int]
    rejected: Share
    kept_out: Share  # rejected or undecided: not published


@dataclass(frozen=True)
class GateScore:
    """How a run judged the candidates that it proposed."""

    run: str
    broken: CandidateGroup
    good: CandidateGroup
    kinds: tuple[CandidateGroup, ...]  # the broken ones by kind of break
    unproposed: int  # candidates of the truth that the run never proposed, as it had enough neighbors
    unknown: int  # candidates of the run that the truth does not contain; they are counted nowhere else

    def as_text(self) -> str:
        """Return the shares, then a line for each kind of break."""
        lines = [
            f"run {self.run}: broken candidates rejected: {self.broken.rejected};",
            f"broken candidates not publishable (rejected or undecided): {self.broken.kept_out};",
            f"good candidates rejected: {self.good.rejected};",
            f"good candidates not publishable: {self.good.kept_out}.",
            *("", f"{'candidates':28} rejected; and all outcomes"),
        ]
        for group in (*self.kinds, self.broken, self.good):
            outcomes = ", ".join(f"{count:,} {name}" for name, count in group.outcomes.items() if count)
            lines += [f"{group.name:28} {group.rejected}; {outcomes}"] if outcomes else []
        if self.unproposed:
            lines.append(f"{self.unproposed:,} candidates of the truth file were not proposed in this run.")
        if self.unknown:
            lines.append(f"{self.unknown:,} candidates of the run are not in the truth file.")
        return "\n".join(lines)


def read_truth(path: Path) -> dict[str, str | None]:
    """Return how each candidate of a truth file is broken, None for a good one."""
    truths = {}
    for number, row in read_objects(path):
        try:
            truths[str(row["candidate_id"])] = row["break"]
        except KeyError as error:
            raise InputError(
                f"{path}:{number}: not a row of a truth file ({error}). Write one with `python -m "
                "sandbox candidates`."
            ) from error
    return truths


def score_run(session: Session, run: Run, truth: Mapping[str, str | None]) -> GateScore:
    """Compare the run's verdicts with the truth."""
    outcomes = {
        each.candidate_id: _outcome(each.status, each.reviewed, each.final, each.evidence or {})
        for each in read_candidates(session, run.id)
    }
    known = {identity: outcome for identity, outcome in outcomes.items() if identity in truth}
    if not known:
        raise InputError(
            f"run {run.name!r} has no candidate from this truth file. Propose the candidates that belong to "
            "it with proposer=file."
        )
    broken = {identity: kind for identity in known if (kind := truth[identity]) is not None}

    def group(name: str, members: Sequence[str]) -> CandidateGroup:
        return _group(name, [known[identity] for identity in members])

    return GateScore(
        run=run.name,
        broken=group("broken", list(broken)),
        good=group("good", [identity for identity in known if identity not in broken]),
        kinds=tuple(
            group(kind, [identity for identity, its in broken.items() if its == kind])
            for kind in sorted({kind for kind in truth.values() if kind is not None})
        ),
        unproposed=len(truth) - len(known),
        unknown=len(outcomes) - len(known),
    )


def _outcome(status: str | None, reviewed: bool, final: bool, evidence: Mapping[str, Any]) -> str:
    if status is None or not final:
        return PENDING
    if status != "rejected":
        return HELD if status == "undecided" else PASSED
    if reviewed:
        return REVIEW
    fatal = any(finding["severity"] == "fatal" for finding in evidence.get("findings", ()))
    return STRUCTURE if fatal else ANSWERS


def _group(name: str, outcomes: Sequence[str]) -> CandidateGroup:
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    rejected = sum(counts[outcome] for outcome in _CAUGHT)
    total = len(outcomes) - counts[PENDING]
    shares = (
        Share(count, total, count / total, *exact_interval(count, total)) if total else Share(count, total)
        for count in (rejected, rejected + counts[HELD])
    )
    return CandidateGroup(name, counts, *shares)
