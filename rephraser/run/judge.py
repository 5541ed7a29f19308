"""Verdicts on candidates: by structural checks and premises, then by answers that the grader clusters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluator.grading import (
    GRADER_VERSION,
    AnswerKind,
    Clustering,
    ClusterJob,
    GradeCase,
    Grader,
    find_answer,
)
from rephraser.checks import check_candidate
from rephraser.checks.finding import CHECKS_VERSION, CheckOptions, Severity
from rephraser.checks.premises import Premises
from rephraser.checks.programs import check_program
from rephraser.run.spec import RunSpec
from rephraser.run.store import Subject
from rephraser.verdict import AnswerCounts, Verdict, judge, rule_spec
from rephraser.verdict.judge import cluster_programs, rule_for_programs
from service.asks.request import Choice
from service.database import utc_now
from service.program_gold import read_gold


def premise_findings(premises: Premises) -> list[dict[str, str]]:
    """Return what was changed or dropped, in the form of findings of the structural checks."""
    pairs = (("premise_dropped", premises.dropped), ("premise_changed", premises.changed))
    return [
        {"name": name, "severity": Severity.EVIDENCE.value, "detail": "; ".join(differing)}
        for name, differing in pairs
        if differing
    ]


def verdict_row(
    run_id: str,
    candidate_id: str,
    status: Verdict,
    reason: str,
    *,
    final: bool,
    evidence: dict[str, Any],
) -> dict[str, Any]:
    """Return a row of the verdict table."""
    return {
        "run_id": run_id,
        "candidate_id": candidate_id,
        "status": status.value,
        "reason": reason,
        "final": final,
        "evidence": evidence,
        "created_at": utc_now(),
    }


def check_structure(
    run_id: str,
    spec: RunSpec,
    question: Subject,
    candidate_id: str,
    text: str,
    siblings: Sequence[str],
    *,
    count_tokens: Callable[[str], int] | None,
) -> dict[str, Any]:
    """Check a candidate against its question and its siblings; return the row of its first verdict.

    A fatal finding rejects. Other candidates are unverified: with a solver, until their answers are compared;
    without one for good. Without a solver, a candidate with any finding is undecided.

    Args:
        siblings: Earlier candidates that passed these checks.
    """
    options = CheckOptions(
        token_limit=spec.token_limit, count_tokens=count_tokens, min_distance=spec.min_distance
    )
    if question.kind is AnswerKind.CODE:
        names = read_gold(question.answer).names
        findings = check_program(question.text, text, names=names, siblings=siblings, options=options)
    else:
        findings = check_candidate(
            question.text, text, answer=question.answer, siblings=siblings, options=options
        )
    fatal = [finding for finding in findings if finding.severity is Severity.FATAL]
    if fatal:
        status, final, reason = Verdict.REJECTED, True, "; ".join(finding.detail for finding in fatal)
    elif spec.solvers:
        status, final, reason = Verdict.UNVERIFIED, False, "passed the structural checks; waiting for answers"
    elif findings:
        status, final = Verdict.UNDECIDED, True
        reason = "no solver compared answers, and " + "; ".join(finding.detail for finding in findings)
    else:
        status, final = Verdict.UNVERIFIED, True
        reason = "passed the structural checks; answers were not compared, as the run has no solver"
    evidence = {
        "findings": [
            {"name": finding.name, "severity": finding.severity.value, "detail": finding.detail}
            for finding in findings
        ],
        "versions": {"checks": CHECKS_VERSION},
    }
    return verdict_row(run_id, candidate_id, status, reason, final=final, evidence=evidence)


SHOWN_CLASS_LENGTH = 200
TRUNCATED = ""
"""Stands for the answer of a response that was cut off before it gave one."""


@dataclass(frozen=True)
class Case:
    """A candidate with all answers of one look.

    Answers are None if none was found in the response, `TRUNCATED` if it was cut off before one. `closed`:
    too few of the question's own answers can be read, so no more are asked for, and answers to the candidate
    may be missing.
    """

    candidate_id: str
    look: int  # how many looks were taken before
    gold: str
    original: tuple[str | None, ...]
    candidate: tuple[str | None, ...]
    by_solver: Mapping[str, Mapping[str, int]]
    findings: Sequence[Mapping[str, str]]  # of the structural checks, and of the premises
    premises: Premises | None = None
    kind: AnswerKind = AnswerKind.LATEX
    closed: bool = False


def extract_answer(choice: Choice, kind: AnswerKind) -> str | None:
    """Return the answer of a response; for a program all of it, as the grader finds the program.

    In a response that was cut off only a box counts: its last sentence is any line of its working, and that
    of a solver in a loop is the same for every question.
    """
    cut_off = choice.finish_reason == "length"
    if kind is AnswerKind.CODE:
        return TRUNCATED if cut_off else choice.text.strip() or None
    answer = find_answer(choice.text, boxed_only=cut_off)
    return answer.text if answer is not None else TRUNCATED if cut_off else None


def too_many_unread(answers: Sequence[str | None], spec: RunSpec) -> bool:
    """Return whether too few of a question's own answers can be read for any verdict."""
    most = spec.rule.max_unparsed_share * spec.rule.original_samples
    return sum(not answer for answer in answers) > most


def judge_cases(run_id: str, spec: RunSpec, cases: Sequence[Case], grader: Grader) -> list[dict[str, Any]]:
    """Return a row of the verdict table for each case: its answers grouped, compared and judged."""
    programs = [case for case in cases if case.kind is AnswerKind.CODE]
    others = [case for case in cases if case.kind is not AnswerKind.CODE]
    jobs = [
        ClusterJob(tuple(each or None for each in (*case.original, *case.candidate)), case.gold)
        for case in others
    ]
    placed = [*zip(others, grader.cluster_many(jobs), strict=True), *_cluster_programs(programs, grader)]
    rows = {case.candidate_id: _answer_verdict(run_id, spec, case, clustering) for case, clustering in placed}
    return [rows[case.candidate_id] for case in cases]


def _cluster_programs(cases: Sequence[Case], grader: Grader) -> Iterator[tuple[Case, Clustering]]:
    """Yield each case with its programs in classes, by the tests of its question."""
    drawn = [(case, text) for case in cases for text in (*case.original, *case.candidate)]
    graded = iter(
        grader.grade_many([GradeCase(text, case.gold, AnswerKind.CODE) for case, text in drawn if text])
    )
    for case in cases:
        texts = (*case.original, *case.candidate)
        grades = [next(graded) if text else None for text in texts]
        yield case, cluster_programs(grades, len(case.original))


def _answer_verdict(run_id: str, spec: RunSpec, case: Case, clustering: Clustering) -> dict[str, Any]:
    counts = _counts(case, clustering)
    rule = rule_for_programs(spec.rule) if case.kind is AnswerKind.CODE else spec.rule
    dropped = case.premises is not None and bool(case.premises.dropped)
    judgement = judge(counts, rule, premise_dropped=dropped)
    last = case.closed or case.look + 1 >= len(rule.looks)
    evidence = {
        "counts": {
            "classes": [text[:SHOWN_CLASS_LENGTH] for text in clustering.classes],
            **{key: list(v) if isinstance(v, tuple) else v for key, v in asdict(counts).items()},
            "unknown_pairs": clustering.unknown,
        },
        "by_solver": case.by_solver,
        "findings": case.findings,
        "rule": rule_spec(rule),
        "overlap": judgement.overlap,
        "new_top": judgement.new_top,
        "original_top": judgement.original_top,
        "solvers": [solver.id for solver in spec.solvers],
        "versions": {"grader": GRADER_VERSION, "checks": CHECKS_VERSION},
    }
    if spec.premises is not None and case.premises is not None:
        asked = {"id": spec.premises.id, "model": spec.premises.model, "outcome": case.premises.outcome}
        evidence["premises"] = {**asked, **vars(case.premises)}
    return verdict_row(
        run_id,
        case.candidate_id,
        judgement.verdict,
        judgement.reason,
        final=last or judgement.verdict is not Verdict.UNDECIDED,
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
        original_truncated=case.original.count(TRUNCATED),
        candidate_truncated=case.candidate.count(TRUNCATED),
    )
