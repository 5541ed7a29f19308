"""From answers to verdicts: clustered by the grader, compared and judged by the rule of the run."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, takewhile
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.grading import GRADER_VERSION, AnswerKind, Clustering, ClusterJob, GradeCase, Grader
from rephraser.checks import CHECKS_VERSION
from rephraser.checks.premises import Premises
from rephraser.reviews.status import CandidateStatus
from rephraser.run.check import (
    PREMISE_CHANGED,
    PREMISE_DROPPED,
    looks_taken,
    premise_evidence,
    premise_findings,
    structure_of,
    verdict_row,
)
from rephraser.run.plan import awaiting_answers, unreadable_questions
from rephraser.run.read import read_premises
from rephraser.run.spec import ANSWER, RunSpec
from rephraser.tables import VerdictRow
from rephraser.verdict import AnswerCounts, Structure, Verdict, judge, rule_for, rule_spec
from rephraser.verdict.overlap import OverlapRule
from rephraser.verdict.programs import cluster_programs, rule_for_programs
from service.database import Database, in_parts
from service.questions.tables import QuestionRow
from service.runs.tables import FINAL, AnswerRow, CellRow
from service.telling import TellProgress

CANDIDATES_PER_BATCH = 100
SHOWN_CLASS_LENGTH = 200
_Drawn = dict[tuple[str, str], list["str | _Lost | None"]]
"""Answers by solver and subject, in order, without a gap at the front."""

_OF_PREMISES = (PREMISE_DROPPED, PREMISE_CHANGED)  # found anew at each look, from what the model answered


class _Lost:
    """Stands for an answer that will not come, since its request failed for good."""


_LOST = _Lost()


@dataclass(frozen=True)
class Case:
    """A candidate whose answers for the next look are all there, but for those whose request failed for good.

    Answers are None where none was found in the response. `closed`: too few of the question's own answers can
    be read, so that none is asked for any more, and those to the candidate may lack.
    """

    candidate_id: str
    look: int  # how many looks were taken before
    gold: str
    original: tuple[str | None, ...]
    candidate: tuple[str | None, ...]
    by_solver: dict[str, dict[str, int]]
    findings: list[dict[str, str]]  # of the structural checks, and of the premises
    premises: Premises | None = None
    kind: AnswerKind = AnswerKind.LATEX
    closed: bool = False

    @property
    def structure(self) -> Structure:
        """What the findings mean for the verdict."""
        return structure_of(finding["name"] for finding in self.findings)


def judge_answers(db: Database, run_id: str, spec: RunSpec, grader: Grader, *, report: TellProgress) -> int:
    """Judge every candidate whose answers for its next look are all drawn; return how many verdicts fell."""
    if not spec.solvers:
        return 0
    with db.read() as session:
        waiting = awaiting_answers(session, run_id)
        taken = looks_taken(session, run_id)
    done = looked_at = 0
    for batch in in_parts(waiting, CANDIDATES_PER_BATCH):
        with db.read() as session:
            cases = ready_cases(session, run_id, spec, batch, taken)
        rows = judge_cases(run_id, spec, cases, grader)
        done += _store_look(db, run_id, cases, rows)
        looked_at += len(batch)
        report(looked_at, len(waiting))
    return done


def judge_cases(run_id: str, spec: RunSpec, cases: Sequence[Case], grader: Grader) -> list[dict[str, Any]]:
    """Return a row of the verdict table for each case: its answers grouped, compared and judged."""
    programs = [case for case in cases if case.kind is AnswerKind.CODE]
    others = [case for case in cases if case.kind is not AnswerKind.CODE]
    jobs = [ClusterJob(answers=(*case.original, *case.candidate), gold=case.gold) for case in others]
    placed = [*zip(others, grader.cluster_many(jobs), strict=True), *_cluster_programs(programs, grader)]
    rows = {case.candidate_id: _answer_verdict(run_id, spec, case, clustering) for case, clustering in placed}
    return [rows[case.candidate_id] for case in cases]


def _cluster_programs(cases: Sequence[Case], grader: Grader) -> Iterator[tuple[Case, Clustering]]:
    """Yield each case with its programs in classes, by the tests of its question."""
    drawn = [(case, text) for case in cases for text in (*case.original, *case.candidate)]
    graded = iter(
        grader.grade_many(
            [GradeCase(text, case.gold, AnswerKind.CODE) for case, text in drawn if text is not None]
        )
    )
    for case in cases:
        texts = (*case.original, *case.candidate)
        grades = [None if text is None else next(graded) for text in texts]
        yield case, cluster_programs(grades, len(case.original))


def ready_cases(
    session: Session, run_id: str, spec: RunSpec, batch: Sequence[CandidateStatus], taken: Mapping[str, int]
) -> list[Case]:
    """Return the cases of those candidates for whose next look (`taken` says which) all is there."""
    subjects = {status.candidate_id for status in batch} | {status.question_id for status in batch}
    answers = _answers(session, spec, subjects)
    findings = _findings(session, run_id, [status.candidate_id for status in batch])
    premises = read_premises(session, spec, [status.candidate_id for status in batch])
    golds = _golds(session, batch)
    unreadable = unreadable_questions(session, spec, golds)
    cases = []
    for status in batch:
        look, answered = taken[status.candidate_id], premises.get(status.candidate_id)
        closed = status.question_id in unreadable
        if spec.premises is not None and answered is None and not closed:
            continue
        noticed = [
            finding for finding in findings[status.candidate_id] if finding["name"] not in _OF_PREMISES
        ]
        noticed += [] if answered is None else premise_findings(answered)
        looks = rule_for(spec.rule, structure_of(finding["name"] for finding in noticed)).looks
        own = spec.rule.original_samples
        original = _first(answers, spec, status.question_id, own, whole=not closed)
        candidate = None if look >= len(looks) else _first(answers, spec, status.candidate_id, looks[look])
        if closed and candidate is None:
            candidate = [[] for _ in spec.solvers]
        if original is None or candidate is None:
            continue
        by_solver = {
            solver.model: {"original": len(mine), "candidate": len(theirs)}
            for solver, mine, theirs in zip(spec.solvers, original, candidate, strict=True)
        }
        cases.append(
            Case(
                candidate_id=status.candidate_id,
                look=look,
                gold=golds[status.question_id][0],
                kind=golds[status.question_id][1],
                original=tuple(answer for part in original for answer in part),
                candidate=tuple(answer for part in candidate for answer in part),
                by_solver=by_solver,
                findings=noticed,
                premises=answered,
                closed=closed,
            )
        )
    return cases


def _findings(session: Session, run_id: str, candidate_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Return the structural findings that each candidate's earlier verdicts carry."""
    query = select(VerdictRow.candidate_id, VerdictRow.evidence).where(
        VerdictRow.run_id == run_id, VerdictRow.candidate_id.in_(candidate_ids)
    )
    return {identity: evidence["findings"] for identity, evidence in session.execute(query)}


def _first(
    answers: _Drawn, spec: RunSpec, subject_id: str, samples: int, *, whole: bool = True
) -> list[list[str | None]] | None:
    """Return each solver's share of the first `samples` answers, those that came; None while some may.

    Args:
        whole: wait for those that may come.
    """
    parts = []
    for solver, share in zip(spec.solvers, spec.shares(samples), strict=True):
        drawn = answers.get((solver.id, subject_id), [])
        if whole and len(drawn) < share:
            return None
        parts.append([answer for answer in drawn[:share] if not isinstance(answer, _Lost)])
    return parts


def _answers(session: Session, spec: RunSpec, subjects: set[str]) -> _Drawn:
    """Return the answers of each solver to each subject."""
    solver_ids = [solver.id for solver in spec.solvers]
    lost = session.execute(
        select(CellRow.scope, CellRow.subject_id, CellRow.payload).where(
            CellRow.scope.in_(solver_ids),
            CellRow.kind == ANSWER,
            CellRow.subject_id.in_(subjects),
            CellRow.state == FINAL,
        )
    ).all()
    rows = session.execute(
        select(AnswerRow.solver_id, AnswerRow.subject_id, AnswerRow.ordinal, AnswerRow.extracted).where(
            AnswerRow.solver_id.in_(solver_ids),
            AnswerRow.subject_id.in_(subjects),
        )
    ).all()
    by_ordinal: dict[tuple[str, str], dict[int, str | _Lost | None]] = defaultdict(dict)
    for solver_id, subject_id, payload in lost:
        places = range(payload["start"], payload["start"] + payload["count"])
        by_ordinal[solver_id, subject_id].update(dict.fromkeys(places, _LOST))
    for solver_id, subject_id, ordinal, extracted in rows:
        by_ordinal[solver_id, subject_id][ordinal] = extracted
    return {
        key: [drawn[ordinal] for ordinal in takewhile(drawn.__contains__, count())]
        for key, drawn in by_ordinal.items()
    }


def _answer_verdict(run_id: str, spec: RunSpec, case: Case, clustering: Clustering) -> dict[str, Any]:
    counts = _counts(case, clustering)
    structure = case.structure
    programs = case.kind is AnswerKind.CODE
    rule = rule_for_programs(spec.rule) if programs and isinstance(spec.rule, OverlapRule) else spec.rule
    judgement = judge(counts, rule, structure)
    last = case.closed or case.look + 1 >= len(rule_for(rule, structure).looks)
    evidence = {
        "counts": {
            "classes": [text[:SHOWN_CLASS_LENGTH] for text in clustering.classes],
            **{key: list(v) if isinstance(v, tuple) else v for key, v in asdict(counts).items()},
            "unknown_pairs": clustering.unknown,
        },
        "by_solver": case.by_solver,
        "findings": case.findings,
        "rule": rule_spec(rule),
        "asks_for_more": sorted(structure.groups),
        "overlap": judgement.overlap,
        "new_top": judgement.new_top,
        "original_top": judgement.original_top,
        "log_bayes_factor": judgement.log_bayes_factor,
        "solvers": [solver.id for solver in spec.solvers],
        "versions": {"grader": GRADER_VERSION, "checks": CHECKS_VERSION},
    }
    if spec.premises is not None and case.premises is not None:
        evidence["premises"] = premise_evidence(spec.premises, case.premises)
    return verdict_row(
        run_id,
        case.candidate_id,
        judgement.verdict,
        judgement.reason,
        final=last or judgement.verdict is not Verdict.UNDECIDED,
        posterior=None if programs else judgement.posterior,
        evidence=evidence,
    )


def _counts(case: Case, clustering: Clustering) -> AnswerCounts:
    """Count the answers by class, in the order of `clustering.classes`.

    Unsettled answers are of no class: a comparison that stayed unknown is neither sameness nor difference.
    """
    split = len(case.original)
    unsettled = set(clustering.unsettled)
    placed: tuple[list[int | None], list[int | None]] = ([], [])
    for place, cluster in enumerate(clustering.assignment):
        if place not in unsettled:
            placed[place >= split].append(cluster)
    original, candidate = placed
    before = sum(place < split for place in unsettled)
    classes = range(len(clustering.classes))
    return AnswerCounts(
        original=tuple(original.count(index) for index in classes),
        candidate=tuple(candidate.count(index) for index in classes),
        gold=clustering.gold,
        original_unparsed=original.count(None),
        candidate_unparsed=candidate.count(None),
        original_unsettled=before,
        candidate_unsettled=len(unsettled) - before,
    )


def _store_look(db: Database, run_id: str, cases: Sequence[Case], rows: Sequence[dict[str, Any]]) -> int:
    if not rows:
        return 0
    with db.write() as session:
        taken = looks_taken(session, run_id, [case.candidate_id for case in cases])
        fresh = [row for case, row in zip(cases, rows, strict=True) if taken[case.candidate_id] == case.look]
        if fresh:
            session.execute(insert(VerdictRow), fresh)
    return len(fresh)


def _golds(session: Session, batch: Sequence[CandidateStatus]) -> dict[str, tuple[str, AnswerKind]]:
    """Return the gold of each question, and its kind."""
    ids = {status.question_id for status in batch}
    query = select(QuestionRow.id, QuestionRow.answer, QuestionRow.kind).where(QuestionRow.id.in_(ids))
    return {identity: (answer, kind) for identity, answer, kind in session.execute(query)}
