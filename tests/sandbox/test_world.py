"""Problems, phrasings and traces: what is true of them by construction."""

import random
from itertools import islice

import pytest

from evaluator.grading import Grader
from sandbox.corpus import draw_examples
from sandbox.phrasings import PHRASINGS
from sandbox.problems import RESERVED, Kind, WordProblem, answer, draw_story, split_numbers
from sandbox.traces import (
    STRATEGIES,
    dominant_strategy,
    draw_trace,
    has_mistake,
    write_other_trace,
    write_trace,
)
from sandbox.worlds import WORLDS


def strategy_of(response: str) -> int | None:
    """Return the strategy that a response names first; None if it names none."""
    return next((i for i, name in enumerate(STRATEGIES) if response.startswith(name)), None)


def some_problems(count: int, seed: int = 0) -> list[WordProblem]:
    draw, (reserved, rest) = random.Random(seed), split_numbers()
    return [WordProblem(*numbers, draw_story(draw)) for numbers in draw.sample([*reserved, *rest], count)]


def test_there_are_4205_problems_and_their_split_never_changes() -> None:
    reserved, rest = split_numbers()
    assert len(reserved) == RESERVED == 1000
    assert len(reserved) + len(rest) == len(set(reserved) | set(rest)) == 4205
    assert split_numbers() == (reserved, rest)
    assert reserved[:3] == [(2, 31, 3), (5, 36, 19), (2, 34, 4)]


def test_right_traces_are_right_and_wrong_ones_wrong() -> None:
    """By the grader that evaluation and training use."""
    problems = some_problems(30)
    pairs, wanted = [], []
    for problem in problems:
        for strategy in range(len(STRATEGIES)):
            for wrong in (False, True):
                pairs.append((write_trace(problem, strategy, wrong=wrong), str(problem.total)))
                wanted.append("wrong" if wrong else "correct")
        for kind in Kind:
            if kind is not Kind.TOTAL:
                trace = write_other_trace(problem, kind)
                pairs += [(trace, str(answer(problem, kind))), (trace, str(problem.total))]
                wanted += ["correct", "wrong"]
        for kind in (Kind.NO_CHARGE, Kind.DIFFERENCE):
            pairs.append((write_other_trace(problem, kind, wrong=True), str(answer(problem, kind))))
            wanted.append("wrong")
    with Grader(workers=1) as grader:
        grades = grader.grade_many(pairs)
    assert [grade.value for grade in grades] == wanted


@pytest.mark.parametrize(("name", "dominance"), [("A", 0.95), ("B", 0.998)])
def test_the_phrasing_sets_the_strategy(name: str, dominance: float) -> None:
    draw = random.Random(1)
    world = WORLDS[name]
    for phrasing in PHRASINGS:
        found = [
            strategy_of(draw_trace(problem, phrasing, world, draw)) == phrasing.dominant
            for problem in some_problems(1000, seed=phrasing.dominant)
        ]
        assert sum(found) / len(found) == pytest.approx(dominance, abs=0.025)


@pytest.mark.parametrize("name", ["A", "E"])
def test_planted_mistakes_are_made_in_the_stated_share(name: str) -> None:
    draw, world = random.Random(2), WORLDS[name]
    planted, made = 0, 0
    for problem in some_problems(1000, seed=5):
        trace = draw_trace(problem, PHRASINGS[0], world, draw)
        strategy = strategy_of(trace)
        assert strategy is not None
        if has_mistake(problem, strategy):
            planted += 1
            made += int(trace.split("{")[1].rstrip("}")) != problem.total
    assert planted > 400
    assert made / planted == pytest.approx(world.wrong_share, abs=0.04)


def test_in_the_control_the_numbers_set_the_strategy() -> None:
    world = WORLDS["C"]
    problems = some_problems(200)
    for problem in problems:
        assert len({dominant_strategy(problem, phrasing, world) for phrasing in PHRASINGS}) == 1
    assert len({dominant_strategy(problem, PHRASINGS[0], world) for problem in problems}) == len(STRATEGIES)


def test_the_corpus_is_the_same_for_a_seed_and_leaves_out_the_reserved_numbers() -> None:
    first = list(islice(draw_examples(WORLDS["A"], 3), 2000))
    assert first == list(islice(draw_examples(WORLDS["A"], 3), 2000))
    assert first != list(islice(draw_examples(WORLDS["A"], 4), 2000))
    assert first != list(islice(draw_examples(WORLDS["C"], 3), 2000))
    asked = {example.question for example in first}
    draw = random.Random(0)
    for numbers in split_numbers()[0]:
        for phrasing in PHRASINGS:
            assert phrasing.text(WordProblem(*numbers, draw_story(draw))) not in asked
