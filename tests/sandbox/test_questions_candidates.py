"""Questions and candidates: the same for a seed, disjoint, and with a truth that agrees with arithmetic."""

import re
from collections import Counter
from pathlib import Path

import pytest

from sandbox.candidates import Break, draw_candidates
from sandbox.problems import split_numbers
from sandbox.questions import draw_questions, read_questions, write_questions
from sandbox.worlds import WORLDS
from service.errors import InputError


def test_questions_are_the_same_bytes_for_a_seed(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_questions(tmp_path / folder, WORLDS["A"], 0, 256, 200)
    write_questions(tmp_path / "other", WORLDS["A"], 1, 256, 200)
    for name in ("train.jsonl", "heldout.jsonl", "sandbox.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (tmp_path / "one" / "train.jsonl").read_bytes() != (tmp_path / "other/train.jsonl").read_bytes()
    with pytest.raises(InputError, match="is not empty"):
        write_questions(tmp_path / "one", WORLDS["A"], 0, 256, 200)


def test_no_numbers_are_asked_twice_or_were_in_pre_training() -> None:
    train, heldout = draw_questions(7, 256, 200)
    numbers = [asked.problem.numbers for asked in train + heldout]
    assert len(numbers) == len(set(numbers)) == 456
    assert not set(numbers) & set(split_numbers()[1])
    assert set(Counter(asked.phrasing.name for asked in train).values()) == {32}
    assert set(Counter(asked.phrasing.name for asked in heldout).values()) == {25}


def test_questions_are_read_as_written(tmp_path: Path) -> None:
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


def test_candidates_are_other_phrasings_and_as_many_are_broken_as_asked() -> None:
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


def test_the_truth_agrees_with_arithmetic() -> None:
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
