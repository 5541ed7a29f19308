"""Benchmarks with images: columns, choices and kinds, and what is known of them without their pictures."""

from pathlib import Path

import pytest
from json_rows import write_rows
from pictures import picture

from evaluator.benchmarks import load_benchmark
from service.errors import InputError
from service.questions.images import read_image

RED, BLUE = picture("red"), picture("blue", kind="JPEG")
RED_ID, BLUE_ID = read_image(RED).id, read_image(BLUE).id


@pytest.fixture(autouse=True)
def _pictures(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(RED)
    (tmp_path / "blue.jpg").write_bytes(BLUE)


def test_mathvision_lists_choices_that_say_something(tmp_path: Path) -> None:
    row = {"decoded_image": "red.png", "image": "images/1.jpg"}
    rows = write_rows(
        tmp_path / "rows.jsonl",
        {**row, "question": "Which day?\n<image1>", "options": ["Monday", "Friday"], "answer": "B"},
        {**row, "question": "Which part?\n<image1>", "options": ["A", "B", "C"], "answer": "C"},
        {"question": "How many? <image1>", "options": [], "answer": "7", "decoded_image": "blue.jpg"},
    )
    first, second, third = load_benchmark("mathvision", source=rows, allow_changed=True).problems
    assert first.text == "Which day?\n<image>\n\n(A) Monday\n(B) Friday"
    assert second.text == "Which part?\n<image>"
    assert [problem.kind for problem in (first, second, third)] == ["choice", "choice", "latex"]
    assert third.images == (BLUE_ID,)


def test_mathverse_takes_the_rows_of_a_version(tmp_path: Path) -> None:
    row = {"image": "red.png", "query_cot": "According to the image, answer."}
    rows = write_rows(
        tmp_path / "rows.jsonl",
        {**row, "problem_version": "Vision Only", "question_type": "multi-choice", "answer": "B"},
        {**row, "problem_version": "Text Lite", "question_type": "multi-choice", "answer": "B"},
        {**row, "problem_version": "Vision Only", "question_type": "free-form", "answer": "6.4cm"},
    )
    problems = load_benchmark("mathverse-vision-only", source=rows, allow_changed=True).problems
    assert [(problem.answer, problem.kind) for problem in problems] == [("B", "choice"), ("6.4cm", "latex")]
    assert all(problem.images == (RED_ID,) for problem in problems)


def test_a_benchmark_of_ones_own_has_images_beside_its_rows(tmp_path: Path) -> None:
    write_rows(
        tmp_path / "rows.jsonl", {"question": "What colour is <image>?", "answer": "red", "figure": "red.png"}
    )
    (tmp_path / "own.toml").write_text(
        'name = "own"\nfile = "rows.jsonl"\n[columns]\nquestion = "question"\nimages = "figure"\n'
    )
    assert load_benchmark(str(tmp_path / "own.toml")).problems[0].images == (RED_ID,)
    write_rows(
        tmp_path / "rows.jsonl",
        {"question": "What colour is <image>?", "answer": "red", "images": "https://example.org/a.png"},
    )
    with pytest.raises(
        InputError,
        match=r"is an address \(https://example\.org/a\.png\), which tagrpo does not fetch",
    ):
        load_benchmark(str(tmp_path / "rows.jsonl"))
