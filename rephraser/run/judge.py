"""Verdicts on candidates by the answers to them, which the grader groups; and again, by another rule."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.grading import GRADER_VERSION, Clustering, ClusterJob, GradeCase, Grader, find_answer
from rephraser.candidates import add_verdicts, read_candidates
from rephraser.checks.premises import Premises
from rephraser.checks.structure import CHECKS_VERSION
from rephraser.questions.store import load_questions
from rephraser.run.spec import RunSpec
from rephraser.tables import VerdictRow
from rephraser.verdict import AnswerCounts, OverlapRule, Verdict, judge, rule_spec
from rephraser.verdict.judge import cluster_programs, rule_for_programs
from service.answer_kinds import AnswerKind
from service.asks.request import Choice
from service.database import Database, in_parts
from service.errors import InputError
from service.questions.question import Question
from service.runs.store import Run

SHOWN_CLASS_LENGTH = 200
TRUNCATED = ""
"""Stands for the answer of a response that was cut off before it gave one."""

Answers = list[list[str | None]]
"""Extracted answers of each solver, in order, without those whose request failed for good.

None: the response has no answer; `TRUNCATED`: it was cut off before one.
"""


@dataclass(frozen=True)
class Case:
    """The answers and findings that one look judges."""

    question: Question
    findings: Sequence[Mapping[str, str]]  # of the structural checks
    premises: Premises | None
    last: bool  # no more answers will be drawn
    original: Answers
    drawn: Answers


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


def cannot_read(answers: Answers, rule: OverlapRule) -> bool:
    """Return whether too few of a question's own answers can be read for any verdict."""
    unread = sum(not answer for answer in chain(*answers))
    return unread > rule.max_unparsed_share * rule.original_samples


def judge_cases(spec: RunSpec, grader: Grader, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return the verdict on each case as in the table: its answers grouped, compared and judged."""
    sides = [([*chain(*case.original)], [*chain(*case.drawn)]) for case in cases]
    golds, rule = [case.question.answer for case in cases], spec.rule
    if cases[0].question.kind is AnswerKind.CODE:  # then all questions of the run ask for programs
        rule = rule_for_programs(rule)
        clusterings = []
        for gold, (original, drawn) in zip(golds, sides, strict=True):
            programs = [GradeCase(text or "", gold, AnswerKind.CODE) for text in (*original, *drawn)]
            clusterings.append(cluster_programs(grader.grade_many(programs), len(original)))
    else:
        texts = [tuple(answer or None for side in each for answer in side) for each in sides]
        clusterings = grader.cluster_many(list(map(ClusterJob, texts, golds)))
    verdicts = []
    for case, answers, clustering in zip(cases, sides, clusterings, strict=True):
        counts = count_classes(*answers, clustering)
        evidence = _evidence(spec, case, clustering, counts)
        verdicts.append(judge_counts(counts, evidence, rule, last=case.last))
    return verdicts


def _evidence(spec: RunSpec, case: Case, clustering: Clustering, counts: AnswerCounts) -> dict[str, Any]:
    """Return what is stored with a verdict, apart from the numbers of its rule."""
    premises = case.premises
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
        "findings": [*case.findings, *(premises.findings if premises else ())],
        "solvers": [solver.id for solver in spec.solvers],
        "versions": {"grader": GRADER_VERSION, "checks": CHECKS_VERSION},
    }
    if spec.premises is not None and premises is not None:
        asked = {"id": spec.premises.id, "model": spec.premises.model, "outcome": premises.outcome}
        evidence["premises"] = {**asked, **vars(premises)}
    return evidence


def judge_counts(
    counts: AnswerCounts, evidence: Mapping[str, Any], rule: OverlapRule, *, last: bool = True
) -> dict[str, Any]:
    """Return the verdict by a rule, with what led to it; only the `last` may stay undecided."""
    dropped = evidence.get("premises", {}).get("dropped")
    judgement = judge(counts, rule, premise_dropped=bool(dropped))
    numbers = {name: getattr(judgement, name) for name in ("overlap", "new_top", "original_top")}
    return {
        "status": judgement.verdict.value,
        "reason": judgement.reason,
        "final": last or judgement.verdict is not Verdict.UNDECIDED,
        "evidence": {**evidence, "rule": rule_spec(rule), **numbers},
    }


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


_COUNTS = TypeAdapter(AnswerCounts)


def judge_again(db: Database, run: Run, rule: OverlapRule, *, dry_run: bool = False) -> dict[str, Any]:
    """Judge a run's counts of answers by `rule`, look by look, as far as looks were taken.

    Verdicts are added, none is replaced; published sets keep theirs. What the run decides later it decides by
    its own rule. Return one JSON object: candidates that were `judged`; those `waiting` for the run's own
    decision, `without_answers` and with `too_few` for the rule's first look, which stay as they are;
    candidates by status `before` and `after`; the `changes`; and the number of verdicts `stored`.
    """
    spec = RunSpec.from_json(run.spec)
    if not spec.solvers:
        raise InputError(
            f"run {run.name!r} has no solver, so no answers are stored. Start a run with --solver."
        )
    own = spec.rule
    if rule.original_samples != own.original_samples or not {*rule.looks} <= {*own.looks}:
        raise InputError(
            f"run {run.name!r} counted its answers with question_samples={own.original_samples} and "
            f"looks={list(own.looks)}. Choose among these looks, or start a run with other numbers."
        )
    with db.read() as session:
        candidates, looks = read_candidates(session, run.id), _read_looks(session, run.id)
        questions = load_questions(session, [each.question_id for each in candidates[:1]])
    if any(question.kind is AnswerKind.CODE for question in questions.values()):
        rule = rule_for_programs(rule)
    final = [each for each in candidates if each.verdict_final]
    compared = [each for each in final if "counts" in each.evidence]
    before = {each.candidate_id: each.verdict for each in candidates if each.verdict is not None}
    after: dict[str, str] = {}
    changes, fresh = list[dict[str, Any]](), list[dict[str, Any]]()
    for each in compared:
        verdict = None
        for samples, evidence in zip(own.looks, looks[each.candidate_id], strict=False):
            if samples in rule.looks and (verdict is None or verdict["status"] == Verdict.UNDECIDED):
                counts = _COUNTS.validate_python(evidence["counts"])
                verdict = judge_counts(counts, evidence, rule)
        if verdict is None:
            continue
        after[each.candidate_id] = status = verdict["status"]
        if status != each.verdict:
            change = {"candidate_id": each.candidate_id, "question_id": each.question_id}
            change |= {"before": each.verdict, "after": status, "reason": verdict["reason"]}
            changes.append(change | {"reviewed": each.reviewed})  # which overrides both
        if status != each.verdict or each.evidence.get("rule") != verdict["evidence"]["rule"]:
            fresh.append({"run_id": run.id, "candidate_id": each.candidate_id, **verdict})
    for part in in_parts([] if dry_run else fresh):
        with db.write() as session:
            add_verdicts(session, part)
    return {
        "judged": len(after),
        "waiting": len(candidates) - len(final),
        "without_answers": len(final) - len(compared),
        "too_few": len(compared) - len(after),
        "before": dict(sorted(Counter(before.values()).items())),
        "after": dict(sorted(Counter((before | after).values()).items())),
        "changes": changes,
        "stored": 0 if dry_run else len(fresh),
    }


def _read_looks(session: Session, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the evidence of each look at a run's candidates, in order; judging again repeats a look."""
    looks = defaultdict[str, list[dict[str, Any]]](list)
    verdicts = select(VerdictRow.candidate_id, VerdictRow.evidence).where(VerdictRow.run_id == run_id)
    for candidate_id, evidence in session.execute(verdicts.order_by(VerdictRow.id)):
        taken = looks[candidate_id]
        if "counts" in evidence and evidence["counts"] not in [each["counts"] for each in taken]:
            taken.append(evidence)
    return looks
