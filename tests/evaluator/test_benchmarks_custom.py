"""Benchmarks of the user's own and those with images: files of rows, TOML definitions, pictures."""

import json
from pathlib import Path

import pytest
from json_rows import write_rows
from pictures import picture

from evaluator.benchmarks.loading import load_benchmark
from evaluator.benchmarks.types import ChangedBenchmarkError, content_hash
from evaluator.grading import AnswerKind
from service.errors import InputError
from service.questions.images import read_image

ROWS = [
    {"question": "What is 2+3?", "answer": 5},
    {"question": "Half of one?", "answer": r"\frac{1}{2}"},
    {"question": "Pick (A) 1 or (B) 2.", "answer": "B", "kind": "choice"},
    {"question": "Roughly pi?", "answer": "3.14", "kind": "tolerance", "tolerance": 0.01},
    {"question": "About e?", "answer": "2.7", "tolerance": "1%"},
    {"question": "How many?", "answer": "1,000", "kind": "integer"},
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def toml(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_of_rows_is_a_benchmark(rows: Path) -> None:
    loaded = load_benchmark(str(rows))
    assert (loaded.name, loaded.content) == ("rows", "not checked")
    assert [(problem.answer, problem.kind, problem.tolerance) for problem in loaded.problems] == [
        ("5", AnswerKind.LATEX, None),
        (r"\frac{1}{2}", AnswerKind.LATEX, None),
        ("B", AnswerKind.CHOICE, None),
        ("3.14", AnswerKind.TOLERANCE, "0.01"),
        ("2.7", AnswerKind.TOLERANCE, "1%"),
        ("1000", AnswerKind.INTEGER, None),
    ]
    assert loaded.source["file"] == "rows.jsonl"


def test_a_definition_may_hold_options_a_tolerance_and_a_content_hash(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"q": "Even?", "yes": "2", "no": 3}\n')
    loaded = load_benchmark(
        toml(
            tmp_path,
            'file = "r.jsonl"\nkind = "choice"\ngated = true\n[columns]\nquestion = "q"\n'
            'options = ["yes", "no"]',
        )
    )
    assert sorted(loaded.problems[0].text.split("\n")[2:])[0] in ("(A) 2", "(A) 3")
    assert loaded.source["options_seed"] == 0
    assert loaded.gated
    text = (
        'file = "r.jsonl"\nkind = "tolerance"\ntolerance = 0.5\ncontent_hash = "{}"\n'
        '[columns]\nquestion = "q"\nanswer = "no"'
    )
    with pytest.raises(ChangedBenchmarkError, match="mine has the content hash 123, but this source has"):
        load_benchmark(toml(tmp_path, text.format("123")))
    changed = load_benchmark(toml(tmp_path, text.format("123")), allow_changed=True)
    assert changed.problems[0].tolerance == "0.5"
    assert load_benchmark(toml(tmp_path, text.format(content_hash(changed.problems)))).content == "as known"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ('file = "rows.jsonl"\nqestion = "q"', r'mine\.toml:2: unknown key "qestion"'),
        ('name = "a"', "give either file"),
        ('file = "a.jsonl"\nhub = "org/a"', "give either file"),
        (
            'name = "gsm8k"\nfile = "rows.jsonl"',
            r'mine\.toml:1: the name "gsm8k" belongs to a built-in benchmark',
        ),
        ('name = "a b"\nfile = "rows.jsonl"', r'"a b" is not a valid benchmark name\. Use letters \(a to'),
        (
            'file = "rows.jsonl"\nkind = "words"',
            r"mine\.toml:2: kind is 'words': Input should be 'latex', 'integer', 'choice'",
        ),
        ('file = "rows.jsonl"\nkind = "tolerance"\ntolerance = "lots"', r"mine\.toml:3: tolerance 'lots'"),
        ('file = ""', "is a folder. Give a file"),
        (
            'file = "rows.jsonl"\n[columns]\nquestion = "text"',
            r"rows\.jsonl: no column 'text'; available: answer",
        ),
        ('file = "rows.jsonl"\nrows = 7', "mine has 7 problems, but this source has 6"),
    ],
)
def test_what_is_wrong_with_a_definition_is_named(
    tmp_path: Path, rows: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_benchmark(toml(tmp_path, text))


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
        InputError, match=r"is an address \(https://example\.org/a\.png\), which tagrpo does not fetch"
    ):
        load_benchmark(str(tmp_path / "rows.jsonl"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"question": "1?", "answer": "1", "kind": "number"},
            r'"number" is not a valid kind of answer \(latex, integer',
        ),
        ({"question": "1?", "answer": "1", "tolerance": "wide"}, "tolerance 'wide' is not"),
        (
            {"question": "1?", "answer": "1", "kind": "latex", "tolerance": "1%"},
            "has a tolerance, but its kind",
        ),
        ({"question": "1?", "answer": "1", "kind": ["latex"]}, '"kind" is not text'),
        ({"question": "", "answer": "1"}, '"question" is empty'),
        ({"question": 7, "answer": "1"}, '"question" is the number 7, not text'),
    ],
)
def test_what_is_wrong_with_a_row_is_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"(?m)bad.jsonl:2: .*{message}"):
        load_benchmark(str(path))
