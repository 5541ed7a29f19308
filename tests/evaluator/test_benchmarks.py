"""Known benchmarks and those of the user: files, Hub sets, definitions, images, gated rows, golds."""

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hub_folder import HubSet, in_own_process, serve_hub
from json_rows import write_rows
from pictures import picture

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.loading import (
    ChangedBenchmarkError,
    check_golds,
    content_hash,
    load_benchmark,
    require_golds,
)
from evaluator.benchmarks.rows import canonical_integer
from evaluator.evals.problems import make_problem
from evaluator.grading import AnswerKind
from service.errors import InputError
from service.questions.images import read_image

FILES = {
    "amc12": "amc12_83",
    "amc23": "amc23",
    "aime24": "aime24",
    "aime25": "aime25",
    "olympiadbench": "olympiadbench_675",
    "minerva": "minerva_272",
    "math500": "math500",
    "gsm8k": "gsm8k_test",
}
SECRET = "Which quark is the secret one"


def write_gpqa(path: Path, count: int = 198) -> Path:
    names = ["Question", "Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3))]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Record ID", *names])
        for row in range(count):
            writer.writerow([f"rec{row}", f"{SECRET} {row}?\n", f"right {row}\n", *"123"])
    return path


def test_the_catalogue_holds_what_each_benchmark_needs():
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.name == name
        assert benchmark.licence
        assert benchmark.citation
        assert benchmark.revision is None or len(benchmark.revision) == 40
        known = benchmark.content_hash or "no copy was at hand" in benchmark.note
        assert benchmark.revision is not None or ("not pinned" in benchmark.note.lower() and known)
        assert benchmark.content_hash is None or len(benchmark.content_hash) == 64
    assert [name for name, benchmark in BENCHMARKS.items() if benchmark.gated] == ["gpqa-diamond"]


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES)
def test_every_file_at_hand_is_the_benchmark_it_is_known_as(name, data_folder, grader):
    loaded = load_benchmark(name, source=data_folder / f"{FILES[name]}.jsonl")
    assert loaded.content == "as known"
    assert len(loaded.problems) == BENCHMARKS[name].rows
    assert set(loaded.source) == {"file", "sha256"}
    assert json.loads(json.dumps(loaded.source)) == loaded.source
    assert check_golds(loaded, grader) == []


@pytest.mark.shared
def test_one_changed_gold_changes_the_content_and_another_order_does_not(data_folder, tmp_path):
    lines = (data_folder / "amc23.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    turned = tmp_path / "turned.jsonl"
    turned.write_text("".join(reversed(lines)), encoding="utf-8")
    assert load_benchmark("amc23", source=turned).content == "as known"
    rows = [json.loads(line) for line in lines]
    rows[7]["answer"] = "22"
    with pytest.raises(ChangedBenchmarkError, match="differs"):
        load_benchmark("amc23", source=write_rows(tmp_path / "edited.jsonl", *rows))


def test_gpqa_options_are_shuffled_by_the_recorded_seed(tmp_path):
    path = write_gpqa(tmp_path / "gpqa_diamond.csv")
    first, again, other = (
        load_benchmark("gpqa-diamond", source=path, options_seed=seed) for seed in (0, 0, 1)
    )
    assert first.source["options_seed"] == 0
    assert first.problems == again.problems
    assert first.problems_hash != other.problems_hash
    letters = Counter(problem.answer for problem in first.problems)
    assert set(letters) == set("ABCD")
    assert min(letters.values()) > 198 / 4 - 25  # 4 standard deviations
    for row, problem in enumerate(first.problems):
        lines = problem.text.split("\n")
        assert lines[0] == f"{SECRET} {row}?"
        assert [line[:3] for line in lines[2:]] == ["(A)", "(B)", "(C)", "(D)"]
        assert lines["ABCD".index(problem.answer) + 2].endswith(f"right {row}")
        assert problem.kind is AnswerKind.CHOICE


def test_rows_of_a_gated_benchmark_never_show(tmp_path, grader):
    loaded = load_benchmark("gpqa-diamond", source=write_gpqa(tmp_path / "gpqa_diamond.csv"))
    assert SECRET not in repr(loaded)
    broken = replace(loaded, problems=(*loaded.problems[:5], make_problem(SECRET, SECRET, AnswerKind.CHOICE)))
    with pytest.raises(InputError, match=r"row 5: unknown") as caught:
        require_golds(broken, grader, print, allow=False)
    assert SECRET not in str(caught.value)
    notes: list[str] = []
    require_golds(broken, grader, notes.append, allow=True)
    assert "1 of 6 gold answers are not graded correct" in notes[0]

    path = write_gpqa(tmp_path / "short.csv", 10)
    with pytest.raises(ChangedBenchmarkError) as caught:
        load_benchmark("gpqa-diamond", source=path)
    assert SECRET not in str(caught.value)
    path.write_text(path.read_text() + f'rec,"{SECRET}\x00",a,b,c,d\n{SECRET}\n')
    with pytest.raises(InputError, match=r"2 of 12 rows cannot be used") as caught:
        load_benchmark("gpqa-diamond", source=path)
    assert SECRET not in str(caught.value)
    assert "rows of a gated benchmark are not shown" in str(caught.value)
    rows = [{"Question": SECRET}]
    with pytest.raises(InputError, match="no column 'Correct Answer'") as caught:
        load_benchmark("gpqa-diamond", source=write_rows(tmp_path / "g.jsonl", *rows))
    assert SECRET not in str(caught.value)


def test_integers_lose_what_copies_spell_differently():
    spelled = ["27.0", "033", r"336^\circ", r"$336^{\circ}$", "1,450,000", "-1", "+2.", "0", "-0"]
    assert [*map(canonical_integer, spelled)] == ["27", "33", "336", "336", "1450000", "-1", "2", "0", "0"]
    for other in ("12,34", "2.5", "x", "", "7" * 5_000):  # the last has more digits than Python reads
        assert canonical_integer(other) == other


HUB_ROWS = [{"problem": f"What is {n}+{n}?", "answer": f"{2 * n:03}", "solution": "No."} for n in range(30)]
HUB_DATA = "".join(json.dumps(row) + "\n" for row in HUB_ROWS).encode()
PINNED = {name: BENCHMARKS[name].revision or "" for name in ("aime24", "aime25", "gpqa-diamond")}
SETS = {
    "HuggingFaceH4/aime_2024": HubSet({"train.jsonl": HUB_DATA}, PINNED["aime24"]),
    "math-ai/aime25": HubSet({"test.jsonl": HUB_DATA}, PINNED["aime25"]),
    "Idavidrein/gpqa": HubSet({"train.jsonl": HUB_DATA}, PINNED["gpqa-diamond"], gated=True),
    "org/mine": HubSet({"test.jsonl": HUB_DATA}),
}
SCRIPT = """
from evaluator.benchmarks.loading import load_benchmark

def read(name):
    loaded = load_benchmark(name)
    return {"golds": [p.answer for p in loaded.problems], "source": loaded.source, "content": loaded.content}
"""


@pytest.mark.slow
def test_a_benchmark_is_read_at_its_pinned_commit(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('hub = "org/mine"\nkind = "integer"\nrows = 31\n')
    asked = [[name] for name in ("aime24", "aime25", "gpqa-diamond", "amc23", str(mine))]
    with serve_hub(SETS) as hub:
        aime24, aime25, gpqa, missing, other = in_own_process(SCRIPT, hub.address, tmp_path, *asked)
    assert aime24["golds"] == [str(2 * n) for n in range(30)]
    # A pinned commit is the content, however its rows are spelled.
    assert aime24["content"] == aime25["content"] == "pinned revision"
    assert aime24["source"] == {
        "hub": "HuggingFaceH4/aime_2024",
        "configs": [],
        "split": "train",
        "commit": BENCHMARKS["aime24"].revision,
    }
    assert gpqa["error"] == "PrerequisiteError"
    assert "accept its terms at https://huggingface.co/datasets/Idavidrein/gpqa" in gpqa["message"]
    assert "HF_TOKEN" in gpqa["message"]
    assert missing["error"] == "InputError"
    assert other["error"] == "ChangedBenchmarkError"
    assert "mine has 31 problems, but this source has 30" in other["message"]


ROWS = [
    {"question": "What is 2+3?", "answer": 5},
    {"question": "Half of one?", "answer": r"\frac{1}{2}"},
    {"question": "Pick (A) 1 or (B) 2.", "answer": "B", "kind": "choice"},
    {"question": "Roughly pi?", "answer": "3.14", "kind": "tolerance", "tolerance": 0.01},
    {"question": "About e?", "answer": "2.7", "tolerance": "1%"},
    {"question": "How many?", "answer": "1,000", "kind": "integer"},
]


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", *ROWS)


def toml(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_of_rows_is_a_benchmark(rows):
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


def test_a_definition_may_hold_options_a_tolerance_and_a_content_hash(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"q": "Even?", "yes": "2", "no": 3}\n')
    text = (
        'file = "r.jsonl"\nkind = "choice"\ngated = true\n[columns]\nquestion = "q"\noptions = ["yes", "no"]'
    )
    loaded = load_benchmark(toml(tmp_path, text))
    assert sorted(loaded.problems[0].text.split("\n")[2:])[0] in ("(A) 2", "(A) 3")
    assert loaded.source["options_seed"] == 0
    assert loaded.gated
    text = 'file = "r.jsonl"\nkind = "tolerance"\ntolerance = 0.5\ncontent_hash = "{}"\n'
    text += '[columns]\nquestion = "q"\nanswer = "no"'
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
            r'rows\.jsonl: no column "text" \(question = "NAME" below .*; available: answer',
        ),
        ('file = "rows.jsonl"\nrows = 7', "mine has 7 problems, but this source has 6"),
    ],
)
def test_what_is_wrong_with_a_definition_is_named(tmp_path, rows, text, message):
    with pytest.raises(InputError, match=message):
        load_benchmark(toml(tmp_path, text))


RED, BLUE = picture("red"), picture("blue", kind="JPEG")
RED_ID, BLUE_ID = read_image(RED).id, read_image(BLUE).id


@pytest.fixture(autouse=True)
def _pictures(tmp_path):
    (tmp_path / "red.png").write_bytes(RED)
    (tmp_path / "blue.jpg").write_bytes(BLUE)


def test_mathvision_lists_choices_that_say_something(tmp_path):
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


def test_mathverse_takes_the_rows_of_a_version(tmp_path):
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


def test_a_benchmark_of_ones_own_has_images_beside_its_rows(tmp_path):
    write_rows(tmp_path / "rows.jsonl", {"question": "Name <image>.", "answer": "red", "figure": "red.png"})
    (tmp_path / "own.toml").write_text(
        'name = "own"\nfile = "rows.jsonl"\n[columns]\nquestion = "question"\nimages = "figure"\n'
    )
    assert load_benchmark(str(tmp_path / "own.toml")).problems[0].images == (RED_ID,)


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
    ],
)
def test_what_is_wrong_with_a_row_is_named(tmp_path, row, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"(?m)bad.jsonl:2: .*{message}"):
        load_benchmark(str(path))


def test_missing_columns_and_bad_rows_name_file_and_line(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", {"text": "1+1?", "answer": "2"})
    with pytest.raises(InputError, match=r"no column looks like the question.*available: answer, text"):
        load_benchmark("aime24", source=path)
    path.write_bytes(b'{"question": "1+1?", "answer": "2"}\n{"question": "\xff", "answer": "2"}\n')
    with pytest.raises(InputError, match=r"1 of 2 rows cannot be used:\n  .*a\.jsonl:2: not UTF-8"):
        load_benchmark("aime24", source=path)
