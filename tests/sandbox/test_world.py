"""Problems, phrasings, traces, questions and candidates: what is true of them by construction."""

import random
import re
from collections import Counter
from itertools import islice

import pytest

from evaluator.grading import Grader
from sandbox import traces
from sandbox.candidates import Break, draw_candidates
from sandbox.corpus import draw_examples
from sandbox.phrasings import PHRASINGS
from sandbox.problems import RESERVED, Kind, WordProblem, answer, draw_story, split_numbers
from sandbox.questions import draw_questions, read_questions, write_questions
from sandbox.worlds import WORLDS
from service.errors import InputError


def strategy_of(response: str) -> int | None:
    """Return the strategy that a response names first; None if it names none."""
    return next((i for i, name in enumerate(traces.STRATEGIES) if response.startswith(name)), None)


def some_problems(count: int, seed: int = 0) -> list[WordProblem]:
    draw, (reserved, rest) = random.Random(seed), split_numbers()
    return [WordProblem(*numbers, draw_story(draw)) for numbers in draw.sample([*reserved, *rest], count)]


def test_there_are_4205_problems_and_their_split_never_changes():
    reserved, rest = split_numbers()
    assert len(reserved) == RESERVED == 1000
    assert len(reserved) + len(rest) == len(set(reserved) | set(rest)) == 4205
    assert split_numbers() == (reserved, rest)
    assert reserved[:3] == [(2, 31, 3), (5, 36, 19), (2, 34, 4)]


def test_right_traces_are_right_and_wrong_ones_wrong():
    """By the grader that evaluation and training use."""
    problems = some_problems(30)
    pairs, wanted = [], []
    for problem in problems:
        for strategy in range(len(traces.STRATEGIES)):
            for wrong in (False, True):
                pairs.append((traces.write_trace(problem, strategy, wrong=wrong), str(problem.total)))
                wanted.append("wrong" if wrong else "correct")
        for kind in Kind:
            if kind is not Kind.TOTAL:
                trace = traces.write_other_trace(problem, kind)
                pairs += [(trace, str(answer(problem, kind))), (trace, str(problem.total))]
                wanted += ["correct", "wrong"]
        for kind in (Kind.NO_CHARGE, Kind.DIFFERENCE):
            pairs.append((traces.write_other_trace(problem, kind, wrong=True), str(answer(problem, kind))))
            wanted.append("wrong")
    with Grader(workers=1) as grader:
        grades = grader.grade_many(pairs)
    assert [grade.value for grade in grades] == wanted


@pytest.mark.parametrize(("name", "dominance"), [("A", 0.95), ("B", 0.998)])
def test_the_phrasing_sets_the_strategy(name, dominance):
    draw = random.Random(1)
    world = WORLDS[name]
    for phrasing in PHRASINGS:
        found = [
            strategy_of(traces.draw_trace(problem, phrasing, world, draw)) == phrasing.dominant
            for problem in some_problems(1000, seed=phrasing.dominant)
        ]
        assert sum(found) / len(found) == pytest.approx(dominance, abs=0.025)


@pytest.mark.parametrize("name", ["A", "E"])
def test_planted_mistakes_are_made_in_the_stated_share(name):
    draw, world = random.Random(2), WORLDS[name]
    planted, made = 0, 0
    for problem in some_problems(1000, seed=5):
        trace = traces.draw_trace(problem, PHRASINGS[0], world, draw)
        strategy = strategy_of(trace)
        assert strategy is not None
        if traces.has_mistake(problem, strategy):
            planted += 1
            made += int(trace.split("{")[1].rstrip("}")) != problem.total
    assert planted > 400
    assert made / planted == pytest.approx(world.wrong_share, abs=0.04)


def test_in_the_control_the_numbers_set_the_strategy():
    world = WORLDS["C"]
    problems = some_problems(200)
    for problem in problems:
        assert len({traces.dominant_strategy(problem, phrasing, world) for phrasing in PHRASINGS}) == 1
    chosen = {traces.dominant_strategy(problem, PHRASINGS[0], world) for problem in problems}
    assert len(chosen) == len(traces.STRATEGIES)


def test_the_corpus_is_the_same_for_a_seed_and_leaves_out_the_reserved_numbers():
    first = list(islice(draw_examples(WORLDS["A"], 3), 2000))
    assert first == list(islice(draw_examples(WORLDS["A"], 3), 2000))
    assert first != list(islice(draw_examples(WORLDS["A"], 4), 2000))
    assert first != list(islice(draw_examples(WORLDS["C"], 3), 2000))
    asked = {example.question for example in first}
    draw = random.Random(0)
    for numbers in split_numbers()[0]:
        for phrasing in PHRASINGS:
            assert phrasing.text(WordProblem(*numbers, draw_story(draw))) not in asked


def test_questions_are_the_same_bytes_for_a_seed(tmp_path):
    for folder in ("one", "two"):
        write_questions(tmp_path / folder, WORLDS["A"], 0, 256, 200)
    write_questions(tmp_path / "other", WORLDS["A"], 1, 256, 200)
    for name in ("train.jsonl", "heldout.jsonl", "sandbox.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (tmp_path / "one" / "train.jsonl").read_bytes() != (tmp_path / "other/train.jsonl").read_bytes()
    with pytest.raises(InputError, match="is not empty"):
        write_questions(tmp_path / "one", WORLDS["A"], 0, 256, 200)


def test_no_numbers_are_asked_twice_or_were_in_pre_training():
    train, heldout = draw_questions(7, 256, 200)
    numbers = [asked.problem.numbers for asked in train + heldout]
    assert len(numbers) == len(set(numbers)) == 456
    assert not set(numbers) & set(split_numbers()[1])
    assert set(Counter(asked.phrasing.name for asked in train).values()) == {32}
    assert set(Counter(asked.phrasing.name for asked in heldout).values()) == {25}


def test_questions_are_read_as_written(tmp_path):
    write_questions(tmp_path / "w", WORLDS["A"], 0, 16, 8)
    path = tmp_path / "w" / "train.jsonl"
    assert read_questions(path) == draw_questions(0, 16, 8)[0]
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[0], rows[1].replace('"count": ', '"count": 1')]))
    with pytest.raises(InputError, match=r"train.jsonl:2: question and answer do not match"):
        read_questions(path)
    path.write_text('{"question": "What is 1+1?", "answer": "2"}\n')
    with pytest.raises(InputError, match=r"train.jsonl:1: not a sandbox question"):
        read_questions(path)


def test_candidates_are_other_phrasings_and_as_many_are_broken_as_asked():
    questions = draw_questions(0, 64, 8)[0]
    found = draw_candidates(questions, 4, 0.25, seed=3)
    assert found == draw_candidates(questions, 4, 0.25, seed=3)
    assert found != draw_candidates(questions, 4, 0.25, seed=4)
    assert len(found) == 256
    assert sum(one.broken is not None for one in found) == 64
    by_question = Counter((one.question.text, one.phrasing) for one in found)
    assert max(by_question.values()) == 1
    assert all(one.phrasing != one.question.phrasing.name for one in found)


def numbers_of(text: str) -> list[int]:
    return sorted(int(digits) for digits in re.findall(r"\d+", text))


def test_the_truth_agrees_with_arithmetic():
    """Breaks but leaks ask for something else; what they ask for is computed here from the text alone."""
    questions = draw_questions(5, 256, 8)[0]
    for one in draw_candidates(questions, 7, 0.8, seed=0):
        n, p, f = one.question.problem.numbers
        right, stated, said = n * p + f, sorted((n, p, f)), numbers_of(one.text)
        told = (sorted((n, p, f, right)), right)
        asked = {
            None: (stated, right),
            Break.NUMBERS_EXCHANGED: (stated, n * f + p),
            Break.CHARGE_DROPPED: (sorted((n, p)), n * p),
            Break.EACH_DROPPED: (stated, p + f),
            Break.PRICE_ASKED: (sorted((n, f, right)), p),
            Break.DIFFERENCE_ASKED: (stated, n * p - f),
            Break.ANSWER_TOLD: told,
            Break.ANSWER_GIVEN: told,
        }
        if one.broken is Break.NUMBER_CHANGED:
            assert said != stated
        else:
            assert (said, one.answer) == (asked[one.broken][0], str(asked[one.broken][1]))
        if one.broken not in (None, Break.ANSWER_TOLD, Break.ANSWER_GIVEN):
            assert one.answer != str(right)
