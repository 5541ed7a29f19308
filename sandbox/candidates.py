"""Candidates for the questions of the sandbox: other phrasings, and among them deliberately broken ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rephraser.candidates import candidate_id
from sandbox.phrasings import PHRASINGS, Phrasing
from sandbox.problems import CHARGES, COUNTS, PRICES, Kind, WordProblem, answer
from sandbox.questions import Asked
from service.errors import InputError
from service.questions.question import question_id

MOST = len(PHRASINGS) - 1


class Break(StrEnum):
    """What is wrong with a candidate, as rephrasings by models go wrong.

    The first of each pair shows in the numbers of the text; the second keeps them and changes what is asked
    only. The last two state the answer.
    """

    NUMBER_CHANGED = "number changed"
    NUMBERS_EXCHANGED = "numbers exchanged"  # price and charge change places
    CHARGE_DROPPED = "condition dropped: charge"
    EACH_DROPPED = "condition dropped: each"  # the price becomes that of all things together
    PRICE_ASKED = "reversed: price asked"  # the total is given
    DIFFERENCE_ASKED = "reversed: difference asked"
    ANSWER_TOLD = "answer leaked: told"
    ANSWER_GIVEN = "answer leaked: given"


_KINDS = {
    Break.CHARGE_DROPPED: Kind.NO_CHARGE,
    Break.EACH_DROPPED: Kind.NOT_EACH,
    Break.PRICE_ASKED: Kind.PRICE,
    Break.DIFFERENCE_ASKED: Kind.DIFFERENCE,
}


@dataclass(frozen=True)
class Candidate:
    """A candidate and the truth about it."""

    question: Asked
    text: str
    phrasing: str
    answer: str  # of what the candidate asks
    broken: Break | None  # how; None for a good one

    def row(self) -> dict[str, Any]:
        """Return what `rephrase run proposer=file` reads."""
        return {"original_question": self.question.text, "candidate": self.text}

    def truth(self) -> dict[str, Any]:
        """Return the truth, under the id that the candidate will have in a database."""
        asked = question_id(self.question.text, self.question.answer)
        return {
            "candidate_id": candidate_id(asked, self.text),
            "question_id": asked,
            "candidate": self.text,
            "phrasing": self.phrasing,
            "answer": self.answer,
            "good": self.broken is None,
            "break": None if self.broken is None else self.broken.value,
        }


def draw_candidates(
    questions: Sequence[Asked], per_question: int, broken_share: float, seed: int
) -> list[Candidate]:
    """Return `per_question` candidates of each question, each in another phrasing.

    Of all of them round(share * number) are broken, at random places; the kinds of break occur equally
    often, up to one.
    """
    if not 1 <= per_question <= MOST:
        raise InputError(f"--per-question {per_question}: give 1 to {MOST}, the number of other phrasings.")
    if not 0 <= broken_share <= 1:
        raise InputError(f"--broken {broken_share}: give a share between 0 and 1.")
    draw = random.Random(f"candidates {seed}")
    places = len(questions) * per_question
    number = round(places * broken_share)
    breaks: list[Break | None] = [list(Break)[i % len(Break)] for i in range(number)]
    breaks += [None] * (places - number)
    draw.shuffle(breaks)
    plan = iter(breaks)
    candidates = []
    for question in questions:
        others = [phrasing for phrasing in PHRASINGS if phrasing is not question.phrasing]
        for phrasing in draw.sample(others, per_question):
            candidates.append(make_candidate(question, phrasing, next(plan), draw))
    return candidates


def make_candidate(
    question: Asked, phrasing: Phrasing, broken: Break | None, draw: random.Random
) -> Candidate:
    """Return the question in this phrasing, broken as asked.

    Where price and charge are equal, exchanging them changes nothing, and a number is changed instead.
    """
    problem = question.problem
    right = str(problem.total)
    if broken is Break.NUMBERS_EXCHANGED and problem.price == problem.charge:
        broken = Break.NUMBER_CHANGED
    if broken is Break.NUMBER_CHANGED:
        problem = _other_number(problem, draw)
    elif broken is Break.NUMBERS_EXCHANGED:
        problem = replace(problem, price=problem.charge, charge=problem.price)
    kind = Kind.TOTAL if broken is None else _KINDS.get(broken, Kind.TOTAL)
    text = phrasing.text(problem, kind)
    if broken is Break.ANSWER_TOLD:
        text = f"{text} The answer is {right}."
    elif broken is Break.ANSWER_GIVEN:
        text = f"{text} (It is {right} dollars.)"
    return Candidate(question, text, phrasing.name, str(answer(problem, kind)), broken)


def _other_number(problem: WordProblem, draw: random.Random) -> WordProblem:
    """Change one of the numbers to another one of its range."""
    name, numbers = (("count", COUNTS), ("price", PRICES), ("charge", CHARGES))[draw.randrange(3)]
    others: list[Any] = [number for number in numbers if number != getattr(problem, name)]
    return replace(problem, **{name: draw.choice(others)})
