"""What responses answer: problems of a benchmark, found by id or text, or those that the file poses."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from evaluator.evals.problems import PlacedProblem, Problem, make_problem, number_copies
from evaluator.exchange.responses import NO_STOP_REASON, OutsideResponse
from evaluator.grading import AnswerKind
from service.errors import InputError
from service.questions.columns import RowProblem, bare_answer
from service.questions.images import PLACEHOLDER, ImageProblem, RowImages, order_numbered

By: TypeAlias = Literal["text", "inside", "position"]
"""How a question is found in a benchmark: its text is the same but for whitespace and places of images, the
problem's text stands inside it (a prompt with instructions around), or its id counts the benchmark's rows
from 0. The benchmark's own problem ids are always taken."""


class InBenchmark:
    """Finds the problems of a benchmark: a number for each response while a file is read, None for none.

    Of a problem that it holds several times, the copies take responses in turn. Where the golds or images of
    such copies differ, only ids tell them apart.
    """

    def __init__(
        self, label: str, problems: Sequence[Problem], by: By, images: RowImages | None = None
    ) -> None:
        self.label, self._problems, self._by = label, problems, by
        self.images = RowImages() if images is None else images
        self._places = {problem.id: place for place, problem in enumerate(problems)}
        self._pictured = any(problem.images for problem in problems)
        self._texts: dict[str, list[int]] = defaultdict(list)
        for place, problem in enumerate(problems):
            if text := self._plain(problem.text):  # a picture alone has no words to be found by
                self._texts[text].append(place)
        self._unclear = {
            text
            for text, places in self._texts.items()
            if len({replace(problems[place], text="", copy=0) for place in places}) > 1
        }
        self._inside: dict[str, str] = {}
        self._turns: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin a reading of the file."""
        self._turns.clear()

    def number(self, response: OutsideResponse) -> int | None:
        if response.id in self._places:
            return self._places[response.id]
        if self._by == "position":
            known = response.id is not None and response.id.isdecimal() and len(response.id) < 10
            place = int(response.id) if known and response.id else -1
            return place if 0 <= place < len(self._problems) else None
        text = self._text(response.question)
        if text not in self._texts or text in self._unclear:
            return None
        places, turn = self._texts[text], self._turns[text]
        self._turns[text] += 1
        return places[turn % len(places)]

    def is_unclear(self, response: OutsideResponse) -> bool:
        """Return whether a response has no number since several problems that differ might be its own."""
        return self._by != "position" and self._text(response.question) in self._unclear

    def _text(self, question: str | None) -> str:
        """Return which problem's text a question is, "" for none."""
        text = self._plain(question or "")
        if text in self._texts:
            return text
        if self._by != "inside":
            return ""
        if text not in self._inside:
            longest_first = sorted((each for each in self._texts if each in text), key=len, reverse=True)
            unlike = [each for each in longest_first if each not in longest_first[0]]
            self._inside[text] = longest_first[0] if longest_first and not unlike else ""
        return self._inside[text]

    def _plain(self, text: str) -> str:
        return " ".join((text.replace(PLACEHOLDER, " ") if self._pictured else text).split())

    def placed(self) -> list[PlacedProblem]:
        """Return the problems by number."""
        return [PlacedProblem(problem) for problem in self._problems]


@dataclass
class FromFile:
    """Makes the problems of the questions, answers and images that the file has; the same are one problem.

    `kind` is theirs where the file does not say.
    """

    label: str
    kind: AnswerKind = AnswerKind.LATEX
    images: RowImages = field(default_factory=RowImages)
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    _placed: list[PlacedProblem] = field(default_factory=list)
    _members: set[tuple[str | None, int]] = field(default_factory=set)  # of groups, by variant

    def begin(self) -> None: ...

    def is_unclear(self, response: OutsideResponse) -> bool:
        return False

    def number(self, response: OutsideResponse) -> int | None:
        if response.question is None or not response.question.strip():
            raise RowProblem("it has no question. Pass --benchmark to look up its id in a benchmark")
        if response.answer is None or not response.answer.strip():
            raise RowProblem(
                "it has no gold answer. Pass its column with --column answer=NAME, or the benchmark with "
                "--benchmark"
            )
        kind = response.kind or (AnswerKind.TOLERANCE if response.tolerance else self.kind)
        place = response.copy_number, response.group, response.variant
        text, images = self._placed_images(response.question, response.images)
        raw = text, response.answer, kind, response.tolerance, images, *place
        number = self._numbers.get(raw)
        if number is None:
            try:
                gold = response.answer if kind is AnswerKind.CODE else bare_answer(response.answer)
                problem = make_problem(text, gold, kind, response.tolerance, images)
            except InputError as error:
                raise RowProblem(f"the question cannot be used: {error}") from error
            number = self._numbers.setdefault((problem.id, *place), len(self._placed))
            self._numbers[raw] = number
            if number == len(self._placed):
                if response.group is not None and (response.group, response.variant) in self._members:
                    raise RowProblem(
                        f"its group {response.group!r} already contains another problem as variant "
                        f"{response.variant}. A group must contain a question and each neighbor exactly once"
                    )
                self._members.add((response.group, response.variant))
                whence = response.source_id, response.strategy
                self._placed.append(PlacedProblem(problem, response.group, response.variant, *whence))
        return number

    def _placed_images(self, text: str, cell: object) -> tuple[str, tuple[str, ...]]:
        try:
            return order_numbered(text, self.images.take(cell))
        except ImageProblem as problem:
            way = "with --benchmark, tagrpo uses the benchmark's images"
            raise RowProblem(f"its images cell {problem}. {way}") from problem

    def placed(self) -> list[PlacedProblem]:
        if any(place.group_id is not None for place in self._placed):
            return list(self._placed)
        return [PlacedProblem(problem) for problem in number_copies(place.problem for place in self._placed)]


Matcher: TypeAlias = InBenchmark | FromFile


@dataclass
class Survey:
    """What a file holds, by the numbers of a matcher."""

    samples: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)  # requests without a response
    # responses without a problem, by the beginning of their question or their id
    unmatched: Counter[str] = field(default_factory=Counter)
    # responses to one of several problems that differ in gold or images alone
    unclear: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    closed: int = 0  # responses that close a thought which they do not open
    tagless: int = 0  # responses without such tags
    ended: int = 0  # responses that tell why they ended

    @property
    def numbers(self) -> list[int]:
        """The problems that the file has anything of, in order."""
        return sorted({*self.samples, *self.lost})

    @property
    def left_out(self) -> int:
        """Responses whose problem was not found."""
        return self.unmatched.total() + self.unclear.total()


def survey(responses: Iterable[OutsideResponse], matcher: Matcher) -> Survey:
    """Read all responses once; nothing is stored."""
    result = Survey()
    matcher.begin()
    for response in responses:
        try:
            number = matcher.number(response)
        except RowProblem as problem:
            raise InputError(f"{response.place}: {problem}.") from problem
        if number is None:
            (result.unclear if matcher.is_unclear(response) else result.unmatched)[_label(response)] += 1
        elif response.text is None:
            result.lost[number] += 1
        else:
            result.samples[number] += 1
            result.scored += response.score is not None
            result.ended += response.stop_reason != NO_STOP_REASON
            if "<think>" not in response.text:
                closes = "</think>" in response.text
                result.closed += closes
                result.tagless += not closes
    if not result.samples:
        why = "no row contains a response"
        if result.unmatched:
            why = (
                f"none of its {result.left_out:,} responses matches a problem of the benchmark. First "
                f"unmatched question: {next(iter(result.unmatched))!r}. If "
                "the prompts contain more than the problem, use --by inside"
            )
        elif result.unclear:
            why = (
                "every question occurs several times in the benchmark with different answers or images, "
                f"so only ids can match responses. First such question: {next(iter(result.unclear))!r}"
            )
        raise InputError(f"nothing can be imported: {why}.")
    return result


def _label(response: OutsideResponse) -> str:
    text = response.question if response.question is not None else f"id {response.id}"
    return " ".join(text.split())[:80]
