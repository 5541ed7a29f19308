"""Verdicts on candidates: by structural checks and premises, then by answers that the grader clusters."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Row

from evaluator.grading import GRADER_VERSION, Clustering, ClusterJob, GradeCase, Grader, find_answer
from rephraser.checks.premises import Premises
from rephraser.checks.structure import CHECKS_VERSION, check_candidate
from rephraser.run.spec import RunSpec
from rephraser.run.store import CheckedRow
from rephraser.tables import candidate_row
from rephraser.verdict import AnswerCounts, OverlapRule, Verdict, judge, rule_spec
from rephraser.verdict.judge import cluster_programs, rule_for_programs
from service.answer_kinds import AnswerKind
from service.asks.request import Choice
from service.database import utc_now
from service.program_gold import read_gold
from service.questions.question import Question

SHOWN_CLASS_LENGTH = 200
TRUNCATED = ""
"""Stands for the answer of a response that was cut off before it gave one."""

Answers = list[list[str | None]]
"""Extracted answers of each solver, in order, without those whose request failed for good.

None: the response has no answer; `TRUNCATED`: it was cut off before one.
"""


@dataclass(frozen=True)
class Case:
    """A candidate of `candidates_query` with all answers of one look."""

    question: Question
    candidate: Row[Any]
    premises: Premises | None
    look: int  # how many looks were taken before
    original: Answers
    drawn: Answers

    @property
    def answers(self) -> tuple[list[str | None], list[str | None]]:
        """All answers to the question, and to the candidate."""
        return flat(self.original), flat(self.drawn)


def flat(answers: Answers) -> list[str | None]:
    """Return the answers of all solvers."""
    return [answer for drawn in answers for answer in drawn]


def check_structure(
    run_id: str,
    spec: RunSpec,
    question: Question,
    text: str,
    siblings: Sequence[str],
    proposal: dict[str, Any],
) -> CheckedRow:
    """Check a candidate against its question and its passing siblings; return its rows and first verdict.

    A fatal finding rejects. Other candidates are unverified: with a solver, until their answers are compared;
    without one for good. Without a solver, a candidate with any finding is undecided.
    """
    program = question.kind is AnswerKind.CODE
    findings = check_candidate(
        question.text,
        text,
        answer=question.answer,
        names=read_gold(question.answer).names if program else None,
        siblings=siblings,
        token_limit=spec.token_limit,
        min_distance=spec.min_distance,
    )
    fatal = [finding for finding in findings if finding.severity == "fatal"]
    details = "; ".join(finding.detail for finding in fatal or findings)
    if fatal:
        status, reason = Verdict.REJECTED, details
    elif spec.solvers:
        status, reason = Verdict.UNVERIFIED, "passed the structural checks; waiting for answers"
    elif findings:
        status, reason = Verdict.UNDECIDED, f"no solver compared answers, and {details}"
    else:
        status = Verdict.UNVERIFIED
        reason = "passed the structural checks; answers were not compared, as the run has no solver"
    named = ("name", "severity", "detail")
    evidence = {
        "findings": [{name: getattr(finding, name) for name in named} for finding in findings],
        "versions": {"checks": CHECKS_VERSION},
    }
    row = candidate_row(question.id, question.text, text)
    verdict = _verdict_row(run_id, row["id"], status, reason, bool(fatal) or not spec.solvers, evidence)
    of_run = {"run_id": run_id, "question_id": question.id, "candidate_id": row["id"]}
    return CheckedRow(row, {**of_run, **proposal}, verdict)


def _verdict_row(
    run_id: str, candidate_id: str, status: Verdict, reason: str, final: bool, evidence: dict[str, Any]
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "candidate_id": candidate_id,
        "status": status.value,
        "reason": reason,
        "final": final,
        "evidence": evidence,
        "created_at": utc_now(),
    }


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


def cannot_read(answers: Answers, spec: RunSpec) -> bool:
    """Return whether too few of a question's own answers can be read for any verdict."""
    most = spec.rule.max_unparsed_share * spec.rule.original_samples
    return sum(not answer for answer in flat(answers)) > most


def judge_cases(run_id: str, spec: RunSpec, grader: Grader, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return a row of the verdict table for each case: its answers grouped, compared and judged."""
    if cases[0].question.kind is AnswerKind.CODE:  # then all questions of the run ask for programs
        clusterings = [_cluster_programs(case, grader) for case in cases]
    else:
        jobs = [
            ClusterJob(tuple(each or None for side in case.answers for each in side), case.question.answer)
            for case in cases
        ]
        clusterings = grader.cluster_many(jobs)
    return [_judge_answers(run_id, spec, *each) for each in zip(cases, clusterings, strict=True)]


def _cluster_programs(case: Case, grader: Grader) -> Clustering:
    """Return the classes of programs, by the tests of their question."""
    texts = [text for side in case.answers for text in side]
    programs = [GradeCase(text, case.question.answer, AnswerKind.CODE) for text in texts if text]
    grades = iter(grader.grade_many(programs))
    return cluster_programs([next(grades) if text else None for text in texts], len(case.answers[0]))


def _judge_answers(run_id: str, spec: RunSpec, case: Case, clustering: Clustering) -> dict[str, Any]:
    candidate, premises = case.candidate, case.premises
    findings = [each for each in candidate.evidence["findings"] if not each["name"].startswith("premise_")]
    counts = count_classes(*case.answers, clustering)
    rule = rule_for_programs(spec.rule) if case.question.kind is AnswerKind.CODE else spec.rule
    evidence: dict[str, Any] = {
        "counts": {
            "classes": [text[:SHOWN_CLASS_LENGTH] for text in clustering.classes],
            **{key: list(v) if isinstance(v, tuple) else v for key, v in asdict(counts).items()},
            "unknown_pairs": clustering.unknown,
        },
        "by_solver": {
            solver.model: {"original": len(original), "candidate": len(drawn)}
            for solver, original, drawn in zip(spec.solvers, case.original, case.drawn, strict=True)
        },
        "findings": findings + (premises.findings if premises else []),
        "solvers": [solver.id for solver in spec.solvers],
        "versions": {"grader": GRADER_VERSION, "checks": CHECKS_VERSION},
    }
    if spec.premises is not None and premises is not None:
        asked = {"id": spec.premises.id, "model": spec.premises.model, "outcome": premises.outcome}
        evidence["premises"] = {**asked, **vars(premises)}
    last = cannot_read(case.original, spec) or case.look + 1 >= len(rule.looks)
    return judge_counts(run_id, candidate.candidate_id, counts, evidence, rule, last=last)


def judge_counts(
    run_id: str,
    candidate_id: str,
    counts: AnswerCounts,
    evidence: Mapping[str, Any],
    rule: OverlapRule,
    *,
    last: bool = True,
) -> dict[str, Any]:
    """Return the row of a verdict by a rule, with what led to it; only the `last` may stay undecided."""
    dropped = evidence.get("premises", {}).get("dropped")
    judgement = judge(counts, rule, premise_dropped=bool(dropped))
    numbers = {name: getattr(judgement, name) for name in ("overlap", "new_top", "original_top")}
    evidence = {**evidence, "rule": rule_spec(rule), **numbers}
    final = last or judgement.verdict is not Verdict.UNDECIDED
    return _verdict_row(run_id, candidate_id, judgement.verdict, judgement.reason, final, evidence)


def count_classes(
    original: Sequence[str | None], candidate: Sequence[str | None], clustering: Clustering
) -> AnswerCounts:
    """Count the answers by class, in the order of `clustering.classes`.

    Unsettled answers are of no class: a comparison that stayed unknown is neither sameness nor difference.
    """
    places = iter(range(len(clustering.assignment)))
    sides: dict[str, Any] = {}
    for side, answers in (("original", original), ("candidate", candidate)):
        own = list(islice(places, len(answers)))
        settled = [clustering.assignment[place] for place in own if place not in clustering.unsettled]
        sides |= {
            side: tuple(settled.count(index) for index in range(len(clustering.classes))),
            f"{side}_unparsed": settled.count(None),
            f"{side}_unsettled": len(own) - len(settled),
            f"{side}_truncated": answers.count(TRUNCATED),
        }
    return AnswerCounts(gold=clustering.gold, **sides)


REASON_LENGTH = 240  # characters
HINTS = 3

# Not which answers: the next rewrite would give them away, or be bent to them.
BY_ANSWERS = {
    "rejected": "its answers differ from those of the problem, so something in it changes the problem",
    "undecided": "its answers do not clearly match those of the problem, so it may not mean the same",
}
_BY_REVIEW = "a reader found that it is not the same problem"  # the reader's words may hold the answer
# The details of these would tell the answer once more, or number candidates that the proposer does not see.
_WITHOUT_DETAIL = {
    "answer_leaked": "it states the answer",
    "same_as_sibling": "it repeats another rewrite",
    "too_like_sibling": "its words are nearly those of another rewrite",
}


def failure_reason(candidate: Row[Any]) -> str | None:
    """Return in one line why a candidate (of `read_candidates`) failed; None for one that did not."""
    if candidate.status not in BY_ANSWERS:
        return None
    fatal: list[str] = []
    hints: list[str] = []
    for finding in (candidate.evidence or {}).get("findings", ()):
        detail = _WITHOUT_DETAIL.get(finding["name"], finding["detail"])
        (fatal if finding["severity"] == "fatal" else hints).append(detail)
    reason = _BY_REVIEW if candidate.reviewed else "; ".join(fatal) or BY_ANSWERS[candidate.status]
    if hints:
        reason += f". Check: {'; '.join(hints[:HINTS])}"
    return textwrap.shorten(reason, REASON_LENGTH, placeholder=" ...")
