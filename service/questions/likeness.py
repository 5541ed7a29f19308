"""Sorts the look-alikes of an import: repeated, contradicting, nearly the same, same template."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.questions.duplicates import NearIndex, comparable
from service.questions.store import Member

EqualAnswers = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Pair:
    """A row that resembles an earlier one (rows from 0), and the ratio (0 to 100) of their texts."""

    row: int
    earlier: int
    ratio: float


@dataclass(frozen=True)
class Likeness:
    """Pairs of rows, each row with its most similar earlier one.

    conflicts: the same text (but for blanks and case) with another answer. near_duplicates: the same digits
    in the same order, and the same answer. look_alikes: similar wording, but other numbers or another
    answer, such as "find the sum" and "find the product": two problems, as a rule.
    """

    conflicts: tuple[Pair, ...]
    near_duplicates: tuple[Pair, ...]
    look_alikes: tuple[Pair, ...]


def compare_members(members: Sequence[Member], equal: EqualAnswers, report: Report | None = None) -> Likeness:
    """Compare each member with the earlier ones. `equal` says for pairs of answers whether they agree."""
    index = NearIndex()
    pairs: list[Pair] = []
    same_digits: list[Pair] = []
    by_position = {member.position: member.question for member in members}
    for count, member in enumerate(members, 1):
        match = index.add(member.position, member.question.text)
        if match is not None:
            pair = Pair(member.position, match.key, round(match.ratio, 1))
            (same_digits if match.same_digits else pairs).append(pair)
        if report is not None and (count % 200 == 0 or count == len(members)):
            report(count, len(members))
    answers = [(by_position[pair.row].answer, by_position[pair.earlier].answer) for pair in same_digits]
    conflicts: list[Pair] = []
    near: list[Pair] = []
    for pair, agrees in zip(same_digits, equal(answers), strict=True):
        texts = [comparable(by_position[row].text) for row in (pair.row, pair.earlier)]
        if agrees:
            near.append(pair)
        elif texts[0] == texts[1]:
            conflicts.append(pair)
        else:
            pairs.append(pair)
    return Likeness(tuple(conflicts), tuple(near), tuple(sorted(pairs, key=lambda pair: pair.row)))


def spelled_alike(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether answers agree as spelled, but for blanks and case; needs no grader."""
    return [comparable(first) == comparable(second) for first, second in pairs]
