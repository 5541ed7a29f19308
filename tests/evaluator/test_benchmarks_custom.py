"""Benchmarks of the user's own: files of rows, TOML definitions, and what is wrong with them."""

import json
from pathlib import Path

import pytest

from evaluator.benchmarks import ChangedBenchmarkError, content_hash, load_benchmark
from evaluator.grading import AnswerKind
from service.errors import InputError
from service.runs.store import check_name

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


def test_a_csv_file_is_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "sums.csv"
    path.write_text('problem,answer\n"1,2: their sum?",3\n', encoding="utf-8")
    [problem] = load_benchmark(str(path)).problems
    assert (problem.text, problem.answer) == ("1,2: their sum?", "3")


@pytest.mark.parametrize(
    ("stem", "name"), [("mein tést ü", "mein-test-u"), ("Ολυμπιάδα 2024", "2024"), ("题目", "problems")]
)
def test_a_file_of_any_name_gives_a_name_that_runs_can_have(tmp_path: Path, stem: str, name: str) -> None:
    path = tmp_path / f"{stem}.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n", encoding="utf-8")
    assert load_benchmark(str(path)).name == name
    assert check_name(f"model.{name}") == f"model.{name}"


def test_a_definition_names_columns_kind_and_size(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"q": "1+1?", "a": {"gold": "2.0"}}\n')
    name = toml(
        tmp_path,
        'name = "sums"\ntitle = "Sums"\nfile = "r.jsonl"\nkind = "integer"\nrows = 1\nlicence = "CC0"\n'
        'citation = "me"\n[columns]\nquestion = "q"\nanswer = "a.gold"\n',
    )
    loaded = load_benchmark(name)
    assert (loaded.name, loaded.title) == ("sums", "Sums")
    assert [(problem.text, problem.answer) for problem in loaded.problems] == [("1+1?", "2")]
    assert loaded.benchmark is not None
    assert (loaded.benchmark.licence, loaded.benchmark.citation) == ("CC0", "me")


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
        (
            'file = "rows.jsonl"\n[columns]\nask = "q"',
            r'mine\.toml:3: unknown key "ask"',
        ),
        ("file = \n", r"not valid TOML \(.*line 1"),
        ('name = "a"', "give either file"),
        ('file = "a.jsonl"\nhub = "org/a"', "give either file"),
        ('file = "rows.jsonl"\nsplit = "test"', "split applies to Hub"),
        ('hub = "no id"', '"no id" is not a Hub dataset id'),
        (
            'name = "gsm8k"\nfile = "rows.jsonl"',
            r'mine\.toml:1: the name "gsm8k" belongs to a built-in benchmark',
        ),
        ('name = "süß"\nfile = "rows.jsonl"', r'"süß" is not a valid benchmark name\. Use letters \(a to'),
        ('name = "a b"\nfile = "rows.jsonl"', r'"a b" is not a valid benchmark name\. Use letters \(a to'),
        (
            'file = "rows.jsonl"\nkind = "words"',
            r"mine\.toml:2: kind is 'words': Input should be 'latex', 'integer', 'choice'",
        ),
        ('file = "rows.jsonl"\ntolerance = "1%"', 'a tolerance needs kind = "tolerance"'),
        ('file = "rows.jsonl"\nkind = "tolerance"\ntolerance = "lots"', r"mine\.toml:3: tolerance 'lots'"),
        ('file = "rows.jsonl"\nrows = "5"', "rows is '5': Input should be a valid integer"),
        ('file = "rows.jsonl"\nrows = 0', "rows is 0"),
        ('file = "rows.jsonl"\ngated = "no"', "gated is 'no': Input should be a valid boolean"),
        ('file = ""', "is a folder. Give a file"),
        ('file = "rows.jsonl"\ncolumns = "q"', "columns is 'q': Input should be"),
        ('file = "rows.jsonl"\n[columns]\nquestion = 3', "question is 3: Input should be a valid string"),
        ('file = "rows.jsonl"\n[columns]\noptions = "a"', "options is 'a': Input should be a valid"),
        (
            'file = "rows.jsonl"\nkind = "choice"\n[columns]\noptions = ["a", "b"]',
            "options need one",
        ),
        (
            'file = "rows.jsonl"\n[columns]\nquestion = "q"\noptions = ["a", "b"]',
            'options need kind = "choice"',
        ),
        (
            'file = "rows.jsonl"\n[columns]\nquestion = "text"',
            r"rows\.jsonl: no column 'text'; available: answer",
        ),
        ('file = "rows.jsonl"\n[columns]\ntolerance = "t"', r'rows\.jsonl: no column "t"; available: answer'),
        ('file = "none.jsonl"', "no such file"),
        ('file = "rows.jsonl"\nrows = 7', "mine has 7 problems, but this source has 6"),
    ],
)
def test_what_is_wrong_with_a_definition_is_named(
    tmp_path: Path, rows: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_benchmark(toml(tmp_path, text))


def test_a_question_in_several_columns_is_named_in_order_and_never_halved_in_silence(tmp_path: Path) -> None:
    row = {"body": "Ann has 3 pens and gets 4.", "question": "How many are there?", "answer": "7"}
    told = {"body": "How many are there?", "question": "How many are there?", "answer": "7"}
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(told) + "\n" + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r'rows\.jsonl:2: "body" contains text that'):
        load_benchmark(str(rows))
    both = 'file = "rows.jsonl"\n[columns]\nquestion = ["body", "question"]'
    text = load_benchmark(toml(tmp_path, both)).problems[1].text
    assert text == "Ann has 3 pens and gets 4.\nHow many are there?"
    alone = 'file = "rows.jsonl"\n[columns]\nquestion = "question"'
    assert load_benchmark(toml(tmp_path, alone)).problems[1].text == "How many are there?"
    with pytest.raises(InputError, match="no column 'passage'"):
        load_benchmark(toml(tmp_path, both.replace("body", "passage")))
    with pytest.raises(InputError, match=r"question is \[\]: Input should be"):
        load_benchmark(toml(tmp_path, 'file = "rows.jsonl"\n[columns]\nquestion = []'))


def test_a_definition_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'name = "a"\ntitle = "\xff"\n')
    with pytest.raises(InputError, match=r"mine\.toml:2: not UTF-8"):
        load_benchmark(str(path))
    with pytest.raises(InputError, match="cannot be read"):
        load_benchmark(str(tmp_path / "none.toml"))


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


def test_a_file_named_like_a_known_benchmark_is_not_taken_for_it(tmp_path: Path, rows: Path) -> None:
    path = rows.rename(tmp_path / "math500.jsonl")
    with pytest.raises(InputError, match="math500 --from FILE"):
        load_benchmark(str(path))


def test_a_benchmark_with_rows_of_its_own_takes_no_others(rows: Path) -> None:
    with pytest.raises(InputError, match="defines its own rows"):
        load_benchmark(str(rows), source=rows)
