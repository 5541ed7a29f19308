"""Simulated answers to questions and candidates, good and broken, for `benchmarks/studies/verdict.py`.

Everything here is an assumption and is stated as such:

- A question is a success rate and a mix of wrong answers: half of the questions concentrate on one wrong
  answer, half scatter over many (the benchmark prints how that compares with real responses).
- A good candidate keeps the question's answers. Its success rate is shifted by a logit of standard deviation
  .5 to 1, or drawn anew ("independent"); its wrong answers are reweighted and up to half of them are new.
- A broken candidate asks something else, in one of six ways (`KINDS`).
- Answers come from a small world: an answer to another problem equals one of the question's by accident with
  probability `COINCIDENCE`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rephraser.verdict import AnswerCounts, OverlapRule, Verdict, count_answers, judge

Label = int | None  # None: no answer could be parsed
GOLD = 0
RATES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""Success rates that a question or an independent neighbor may have."""
CONCENTRATED, SCATTERED = 0.5, 12.0  # Dirichlet-process concentrations of a question's wrong answers
COINCIDENCE = 0.02
UNPARSED = 0.02
SHIFT_SD = (0.5, 1.0)
LARGEST_NEW_SHARE = 0.5  # of a good candidate's wrong answers
SLIP = 0.1  # largest share of answers to a changed problem that answer the original after all
FRESH, UNANSWERABLE_LABEL = 1000, 5000  # labels from here on belong to another problem's answers
ORIGINAL_SAMPLES, CANDIDATE_SAMPLES = 32, 24  # the default rule looks at 12 and 16, some variants at 24
PLAIN = OverlapRule(accept_overlap=10, accept_over_new=1, accept_gold_from=None, reject_new=3)
"""The rule with the fewest conditions: it accepts O >= 10 and O > M, and rejects from M >= 3."""


@dataclass(frozen=True)
class Mix:
    """Labels and their probabilities."""

    labels: NDArray[np.int64]
    shares: NDArray[np.float64]

    def draw(self, rng: Generator, size: int) -> list[int]:
        edges = np.cumsum(self.shares)
        places = np.searchsorted(edges, rng.random(size) * edges[-1], side="right")
        drawn: list[int] = self.labels[np.minimum(places, len(self.labels) - 1)].tolist()
        return drawn

    def top(self) -> int:
        return int(self.labels[np.argmax(self.shares)])


@dataclass(frozen=True)
class Solver:
    """How a solver answers a text: the gold at `success`, else `wrong`; or, in part, another text."""

    success: float
    right: int
    wrong: Mix
    unparsed: float = UNPARSED
    other: "Solver | None" = None  # whose answers it gives in a share of `other_share`
    other_share: float = 0.0

    def answers(self, rng: Generator, size: int) -> list[Label]:
        wrong = self.wrong.draw(rng, size)
        draws = rng.random((3, size))
        answers: list[Label] = [
            self.right if hit else miss for hit, miss in zip(draws[0] < self.success, wrong, strict=True)
        ]
        if self.other is not None:
            others = self.other.answers(rng, size)
            answers = [
                theirs if mixed else own
                for mixed, theirs, own in zip(draws[1] < self.other_share, others, answers, strict=True)
            ]
        return [
            None if lost else answer for lost, answer in zip(draws[2] < self.unparsed, answers, strict=True)
        ]


@dataclass(frozen=True)
class Case:
    """Answers drawn for a question and a candidate, with the success rates behind them."""

    original: list[Label]
    candidate: list[Label]
    question_rate: float
    candidate_rate: float

    def counts(self, original_samples: int, candidate_samples: int) -> AnswerCounts:
        return count_answers(self.original[:original_samples], self.candidate[:candidate_samples], GOLD)


def decide(case: Case, rule: OverlapRule) -> tuple[Verdict, int]:
    """Look at a case as the pipeline does; return the verdict and the number of candidate answers drawn."""
    for drawn in rule.looks:
        verdict = judge(case.counts(rule.original_samples, drawn), rule).verdict
        if verdict is not Verdict.UNDECIDED:
            break
    return verdict, drawn


def wrong_mix(rng: Generator, first_label: int, concentration: float) -> Mix:
    """Draw a mix of wrong answers from a Dirichlet process by breaking a stick until 1e-4 is left."""
    pieces = max(8, int(concentration * 10))
    breaks = rng.beta(1, concentration, pieces)
    left = np.concatenate([[1.0], np.cumprod(1 - breaks)[:-1]])
    return Mix(np.arange(first_label, first_label + pieces, dtype=np.int64), breaks * left + 1e-12)


def draw_rate(rng: Generator) -> float:
    return float(rng.choice(RATES))


def draw_question(rng: Generator, rate: float) -> Solver:
    concentration = CONCENTRATED if rng.random() < 0.5 else SCATTERED
    return Solver(rate, GOLD, wrong_mix(rng, 1, concentration))


def shifted(rng: Generator, rate: float) -> float:
    """Shift a rate by a normal logit whose standard deviation is itself drawn from `SHIFT_SD`."""
    logit = np.log(rate / (1 - rate)) + rng.normal(0, rng.uniform(*SHIFT_SD))
    return float(1 / (1 + np.exp(-logit)))


def another_mix(rng: Generator, question: Solver) -> Mix:
    """Wrong answers to another problem; each is one of the question's by accident with `COINCIDENCE`."""
    mix = wrong_mix(rng, FRESH, CONCENTRATED if rng.random() < 0.5 else SCATTERED)
    labels = mix.labels.copy()
    for place in np.flatnonzero(rng.random(len(labels)) < COINCIDENCE):
        labels[place] = question.answers(rng, 1)[0] or GOLD
    return Mix(labels, mix.shares)


def another_answer(rng: Generator, question: Solver) -> int:
    """The right answer of another problem: never the gold, a wrong answer to the question by accident."""
    return question.wrong.draw(rng, 1)[0] if rng.random() < COINCIDENCE else FRESH - 1


def good_candidate(rng: Generator, question: Solver, rate: float) -> Solver:
    old = question.wrong.shares * np.exp(rng.normal(0, 1, len(question.wrong.shares)))
    new = another_mix(rng, question)
    share = rng.uniform(0, LARGEST_NEW_SHARE)
    wrong_new = np.where(new.labels == GOLD, FRESH, new.labels)
    mix = Mix(
        np.concatenate([question.wrong.labels, wrong_new]),
        np.concatenate([(1 - share) * old / old.sum(), share * new.shares / new.shares.sum()]),
    )
    return Solver(rate, GOLD, mix)


def changed(rng: Generator, question: Solver) -> Solver:
    """Another number or condition, another answer; the solver slips into the original now and then."""
    return Solver(
        shifted(rng, question.success),
        another_answer(rng, question),
        another_mix(rng, question),
        other=question,
        other_share=rng.uniform(0, SLIP),
    )


def leaked(rng: Generator, question: Solver) -> Solver:
    """A changed problem that still shows the original, which the solver answers in 10 to 50% of the cases."""
    return replace(changed(rng, question), other_share=rng.uniform(0.1, 0.5))


def unanswerable(rng: Generator, question: Solver) -> Solver:
    """A premise is missing: "cannot be determined", inventions, and the original's answers from memory."""
    return Solver(
        rng.uniform(0, 0.6),
        UNANSWERABLE_LABEL,
        another_mix(rng, question),
        unparsed=0.15,
        other=question,
        other_share=rng.uniform(0, 0.3),
    )


def frequent_wrong(rng: Generator, question: Solver) -> Solver:
    """A changed problem whose right answer is the most frequent wrong answer to the original."""
    return replace(changed(rng, question), right=question.wrong.top())


def swapped(rng: Generator, question: Solver) -> Solver:
    """A rephrasing of some other question."""
    return Solver(draw_rate(rng), another_answer(rng, question), another_mix(rng, question))


def same_answer(rng: Generator, question: Solver) -> Solver:
    """A changed problem that happens to have the original's answer: harmless to the reward."""
    return replace(changed(rng, question), right=GOLD)


def from_memory(rng: Generator, question: Solver, share: float) -> Solver:
    """Stress: an unanswerable candidate to which the solver gives, in this share, the original's answers."""
    return replace(unanswerable(rng, question), other_share=share)


def collapsed(rng: Generator, question: Solver, rate: float) -> Solver:
    """Stress: a good candidate that is much harder, with a new trap that takes 70% of its wrong answers."""
    old = question.wrong
    mix = Mix(np.append(old.labels, FRESH), np.append(0.3 * old.shares / old.shares.sum(), 0.7))
    return Solver(rate, GOLD, mix)


Kind = Callable[[Generator, Solver], Solver]
KINDS: dict[str, Kind] = {
    "changed answer": changed,
    "leaked original": leaked,
    "unanswerable": unanswerable,
    "gold is a frequent wrong answer": frequent_wrong,
    "swapped": swapped,
    "same answer by chance": same_answer,
}
# How often each kind is assumed among broken candidates. "Same answer by chance" gets COINCIDENCE, which is
# more than two random MATH problems share their answer (0.6%) and less than look-alike pairs do (4.8%).
WEIGHTS = {
    "changed answer": 0.34,
    "leaked original": 0.15,
    "unanswerable": 0.2,
    "gold is a frequent wrong answer": 0.1,
    "swapped": 0.19,
    "same answer by chance": COINCIDENCE,
}


HONEST, CHANGED, SAME_ANSWER, UNANSWERABLE = "honest", "changed", "same answer by chance", "unanswerable"
TRUTHS = (HONEST, CHANGED, SAME_ANSWER, UNANSWERABLE)
# Share of answers that answer the original instead: drawn evenly between these bounds for each candidate.
MEMORY = {CHANGED: (0.1, 0.5), SAME_ANSWER: (0.1, 0.5), HONEST: (0.1, 0.5), UNANSWERABLE: (0.4, 1.0)}
USUAL_MISTAKE = 0.13  # of the changed ones have the original's most frequent wrong answer for their right one


def candidate_of(
    rng: Generator, question: Solver, truth: str, rates: Sequence[float], memorising: bool
) -> Solver:
    """Return how a solver answers a candidate of this truth; a memorising one answers the original in part.

    The success rate of half of the honest ones is drawn from `rates` anew.
    """
    if truth == HONEST:
        anew = rng.random() < 0.5
        rate = float(rng.choice(rates)) if anew else shifted(rng, question.success)
        made = good_candidate(rng, question, rate)
    elif truth == UNANSWERABLE:
        made = unanswerable(rng, question)
    elif truth == SAME_ANSWER:
        made = same_answer(rng, question)
    elif rng.random() < USUAL_MISTAKE:
        made = frequent_wrong(rng, question)
    else:
        made = changed(rng, question)
    return replace(made, other=question, other_share=rng.uniform(*MEMORY[truth])) if memorising else made


def draw_case(rng: Generator, question: Solver, candidate: Solver) -> Case:
    return Case(
        question.answers(rng, ORIGINAL_SAMPLES),
        candidate.answers(rng, CANDIDATE_SAMPLES),
        question.success,
        candidate.success,
    )


def good_case(rng: Generator, independent: bool) -> Case:
    """A question at a random rate and a good candidate, its rate shifted or drawn independently."""
    question = draw_question(rng, draw_rate(rng))
    rate = draw_rate(rng) if independent else shifted(rng, question.success)
    return draw_case(rng, question, good_candidate(rng, question, rate))


def broken_case(rng: Generator, kind: Kind) -> Case:
    question = draw_question(rng, draw_rate(rng))
    return draw_case(rng, question, kind(rng, question))
