"""Verdicts on candidates by the answers to them, which the grader groups."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any

from evaluator.grading import GRADER_VERSION, Clustering, ClusterJob, GradeCase, Grader, find_answer
from rephraser.checks.premises import Premises
from rephraser.checks.structure import CHECKS_VERSION
from rephraser.run.spec import RunSpec
from rephraser.verdict import AnswerCounts, OverlapRule, Verdict, judge, rule_spec
from rephraser.verdict.judge import cluster_programs, rule_for_programs
from service.answer_kinds import AnswerKind
from service.asks.request import Choice
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
    """What one look at a candidate of a question has to judge by."""

    question: Question
    findings: Sequence[Mapping[str, str]]  # of the structural checks
    premises: Premises | None
    look: int  # how many looks were taken before
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
        clusterings = [
            _cluster_programs(grader, gold, *each) for gold, each in zip(golds, sides, strict=True)
        ]
    else:
        texts = [tuple(answer or None for side in each for answer in side) for each in sides]
        clusterings = grader.cluster_many(list(map(ClusterJob, texts, golds)))
    verdicts = []
    for case, answers, clustering in zip(cases, sides, clusterings, strict=True):
        counts = count_classes(*answers, clustering)
        last = cannot_read(case.original, rule) or case.look + 1 >= len(rule.looks)
        verdicts.append(judge_counts(counts, _evidence(spec, case, clustering, counts), rule, last=last))
    return verdicts


def _cluster_programs(
    grader: Grader, gold: str, original: Sequence[str | None], drawn: Sequence[str | None]
) -> Clustering:
    """Return the classes of programs, by the tests of their question."""
    texts = [*original, *drawn]
    grades = iter(grader.grade_many([GradeCase(text, gold, AnswerKind.CODE) for text in texts if text]))
    return cluster_programs([next(grades) if text else None for text in texts], len(original))


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
