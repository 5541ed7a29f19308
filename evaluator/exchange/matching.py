"""What responses answer: problems of a benchmark, found by id or text, or those that the file poses."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from evaluator.evals.problems import PlacedProblem, Problem, make_problem, number_copies
from evaluator.exchange.responses import NO_STOP_REASON, OutsideResponse
from evaluator.grading import AnswerKind
from evaluator.grading.compare import read_tolerance
from service.errors import InputError
from service.questions.columns import RowProblem, bare_answer
from service.questions.images import PLACEHOLDER, ImageProblem, RowImages, order_numbered

By: TypeAlias = Literal["text", "inside", "position"]
"""How a question is found in a benchmark: its text is the same but for whitespace and places of images, the
problem's text stands inside it (a prompt with instructions around), or its id counts the benchmark's rows
from 0. The benchmark's own problem ids are always taken."""

UNMATCHED, UNCLEAR = -1, -2
"""What a matcher gives instead of a problem's number: there is none, or several that differ."""


class InBenchmark:
    """Finds the problems of a benchmark.

    Of a problem that it holds several times, the copies take responses in turn. Where the golds or images of
    such copies differ, only ids tell them apart.
    """

    def __init__(
        self, label: str, problems: Sequence[Problem], by: By, images: RowImages | None = None
    ) -> None:
        self.label, self._by = label, by
        self.images = RowImages() if images is None else images
        self.placed = [PlacedProblem(problem) for problem in problems]
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

    def numbers(self, responses: Iterable[OutsideResponse]) -> Iterator[tuple[int, OutsideResponse]]:
        """Yield each response of a file with the number of its problem, `UNMATCHED` or `UNCLEAR`."""
        turns: Counter[str] = Counter()
        for response in responses:
            id = response.id or ""
            if id in self._places:
                yield self._places[id], response
            elif self._by == "position":
                known = id.isdecimal() and len(id) < 10 and int(id) < len(self.placed)
                yield int(id) if known else UNMATCHED, response
            elif (text := self._text(response.question)) in self._unclear:
                yield UNCLEAR, response
            elif places := self._texts.get(text):
                yield places[turns[text] % len(places)], response
                turns[text] += 1
            else:
                yield UNMATCHED, response

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

    @property
    def placed(self) -> list[PlacedProblem]:
        if any(place.group_id is not None for place in self._placed):
            return self._placed
        return [PlacedProblem(problem) for problem in number_copies(place.problem for place in self._placed)]

    def numbers(self, responses: Iterable[OutsideResponse]) -> Iterator[tuple[int, OutsideResponse]]:
        """Yield each response of a file with the number of its problem."""
        for response in responses:
            try:
                yield self._number(response), response
            except RowProblem as error:
                raise InputError(f"{response.place}: {error}.") from error

    def _number(self, response: OutsideResponse) -> int:
        if response.question is None or not response.question.strip():
            raise RowProblem("it has no question. Pass --benchmark to look up its id in a benchmark")
        if response.answer is None or not response.answer.strip():
            raise RowProblem(
                "it has no gold answer. Pass its column with --column answer=NAME, or the benchmark with "
                "--benchmark"
            )
        kind = response.kind or (AnswerKind.TOLERANCE if response.tolerance else self.kind)
        try:
            text, images = order_numbered(response.question, self.images.take(response.images))
        except ImageProblem as error:
            way = "with --benchmark, tagrpo uses the benchmark's images"
            raise RowProblem(f"its images cell {error}. {way}") from error
        place = response.copy_number, response.group, response.variant
        raw = text, response.answer, kind, response.tolerance, images, *place
        if raw not in self._numbers:
            try:
                read_tolerance(response.tolerance)
                gold = response.answer if kind is AnswerKind.CODE else bare_answer(response.answer)
                problem = make_problem(text, gold, kind, response.tolerance, images)
            except InputError as error:
                raise RowProblem(f"the question cannot be used: {error}") from error
            number = self._numbers.setdefault((problem.id, *place), len(self._placed))
            self._numbers[raw] = number
            if number == len(self._placed):
                member = response.group, response.variant
                if response.group is not None and member in self._members:
                    raise RowProblem(
                        f"its group {response.group!r} already contains another problem as variant "
                        f"{response.variant}. A group must contain a question and each neighbor exactly once"
                    )
                self._members.add(member)
                self._placed.append(PlacedProblem(problem, *member, response.source_id, response.strategy))
        return self._numbers[raw]


Matcher: TypeAlias = InBenchmark | FromFile


@dataclass
class Survey:
    """What a file holds, by the numbers of a matcher."""

    samples: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)  # requests without a response
    unmatched: Counter[str] = field(default_factory=Counter)  # by the beginning of their question
    # responses to one of several problems that differ in gold or images alone
    unclear: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    closed: int = 0  # responses that close a thought which they do not open
    tagless: int = 0  # responses without such tags
    ended: int = 0  # responses that tell why they ended
    problems: dict[int, PlacedProblem] = field(default_factory=dict)  # those of samples and lost, in order


def survey(responses: Iterable[OutsideResponse], matcher: Matcher) -> Survey:
    """Read all responses once; nothing is stored."""
    result = Survey()
    for number, response in matcher.numbers(responses):
        if number < 0:
            label = f"id {response.id}" if response.question is None else response.question
            label = " ".join(label.split())[:80]
            (result.unclear if number == UNCLEAR else result.unmatched)[label] += 1
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
            left_out = result.unmatched.total() + result.unclear.total()
            why = (
                f"none of its {left_out:,} responses matches a problem of the benchmark. First unmatched "
                f"question: {next(iter(result.unmatched))!r}. If the prompts contain more than the problem, "
                "use --by inside"
            )
        elif result.unclear:
            why = (
                "every question occurs several times in the benchmark with different answers or images, "
                f"so only ids can match responses. First such question: {next(iter(result.unclear))!r}"
            )
        raise InputError(f"nothing can be imported: {why}.")
    placed = matcher.placed
    result.problems = {number: placed[number] for number in sorted({*result.samples, *result.lost})}
    return result
