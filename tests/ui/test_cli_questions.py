"""`tagrpo questions` as a user meets it: output, exit codes, help."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine, squeezed

ROWS = [
    {"question": "What is 1+1?", "answer": "2", "level": "Level 1", "subject": "Sums"},
    {"question": r"Find \[x\] if [b]x[/b] is half of 1.", "answer": r"\frac{1}{2}", "level": "Level 2"},
    {"question": "How many are there?", "answer": ""},
    {"question": "What is 3+4?", "answer": "7", "subject": "Sums"},
]


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    return cli.within("questions")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def more(tmp_path: Path) -> Path:
    path = tmp_path / "more.csv"
    lines = [f"Name {number} things {'abcdefghij'[number] * 30}.,{number}" for number in range(10)]
    path.write_text("\n".join(["question,answer", *lines]) + "\n")
    return path


def test_an_import_says_what_was_read_held_back_and_why(cli: CommandLine, mine: Path) -> None:
    code, out, err = cli("import", str(mine))
    assert code == 3
    assert {"rows 4", "usable 3"} <= {*squeezed(out)}
    assert "no answer" in out
    assert "warning: 1 held back" in err
    mine.write_bytes(mine.read_bytes() + b"{oops\n")
    code, out, err = cli("import", str(mine), "--name", "more", "--skip-bad-rows")
    assert (code, "rows left out: 1" in err) == (3, True)
    assert "mine.jsonl:5: not valid JSON" in out


def test_a_solution_column_without_any_box_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    rows = [{"question": f"What is {n}+1?", "rationale": "Add.", "correct": str(n + 1)} for n in range(3)]
    (tmp_path / "boxless.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = cli("import", "boxless.jsonl")
    assert code == 2
    assert "--column answer=NAME; available: correct, question, rationale" in err
    assert cli("import", "boxless.jsonl", "--column", "answer=correct")[0] == 0


def test_import_as_json(cli: CommandLine, mine: Path) -> None:
    code, out, _ = cli("import", str(mine), "--json")
    result = json.loads(out)
    assert code == 3
    assert (result["set"], result["rows"], result["usable"], result["created"]) == ("mine", 4, 3, True)
    assert [(held["row"], held["held"]) for held in result["held"]] == [(2, "no answer")]
    assert result["spec"]["columns"]["question"] == "question"
    assert len(result["spec"]["sha256"]) == 64
    assert "created no" in squeezed(cli("import", str(mine))[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.jsonl"], "nothing.jsonl: no such file"),
        (["."], "is a folder"),
        (["mine.jsonl", "--column", "question=body"], 'no column "body"'),
        (["mine.jsonl", "--split", "test"], "apply to Hub datasets only"),
        (["mine.jsonl", "--name", "a b"], "is not a valid name"),
        (["broken.jsonl"], "broken.jsonl:2: not valid JSON"),
        (["nul.jsonl"], "nul.jsonl:1: "),
    ],
)
def test_bad_input_exits_with_2_and_leaves_no_set(
    cli: CommandLine, mine: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "broken.jsonl").write_bytes(mine.read_bytes()[:120])
    (tmp_path / "nul.jsonl").write_bytes(b'{"question": "a\\u0000", "answer": "1"}\n')
    code, _, err = cli("import", *arguments)
    assert code == 2
    assert message in err
    if (tmp_path / "tagrpo.db").exists():
        assert json.loads(cli("list", "--json")[1]) == {"sets": []}


def test_a_changed_file_is_refused_under_the_old_name(cli: CommandLine, mine: Path) -> None:
    cli("import", str(mine))
    mine.write_text(json.dumps(ROWS[0]) + "\n")
    code, _, err = cli("import", str(mine))
    assert code == 2
    assert "another name with --name" in err
    assert cli("import", str(mine), "--name", "mine-2")[0] == 0


def test_options_in_a_column_each_are_missed_and_get_their_letters(cli: CommandLine, mine: Path) -> None:
    rows = [
        {"question": "Which is prime?", "A": "4", "B": 5, "C": None, "answer": "B"},
        {"question": "Which is a pet?", "A": "a cat", "B": "a rock", "C": "a cloud", "answer": "0"},
    ]
    mine.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = cli("import", str(mine))
    assert code == 3
    assert "questions may lack the content of A, B, C: in 2 rows, these columns contain text" in err
    named = "--column question=question --column question=A --column question=B --column question=C"
    assert named in err
    code, _, err = cli("import", str(mine), "--name", "whole", *named.split())
    assert code == 0
    members = json.loads(cli("list", "whole", "--json")[1])["questions"]
    assert [member["question"] for member in members] == [
        "Which is prime?\n(A) 4\n(B) 5",
        "Which is a pet?\n(A) a cat\n(B) a rock\n(C) a cloud",
    ]


def test_golds_that_are_whole_solutions_are_reported(cli: CommandLine, mine: Path) -> None:
    solution = "Each bag has 2 * 3 = 6 pens.\nSo all the bags together have 24 pens.\nA: 24"
    rows = [{"question": "How many pens?", "answer": solution}, {"question": "And bags?", "answer": "4"}]
    mine.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = cli("import", str(mine))
    assert code == 3
    assert "gold answers that are whole solutions, which hardly any response matches: 1." in err
    assert json.loads(cli("import", str(mine), "--json")[1])["golds_that_are_solutions"] == 1


def test_of_many_rows_held_back_the_first_are_listed_and_how_to_list_all(
    cli: CommandLine, mine: Path
) -> None:
    rows = [f'{{"question": "What is {n}?", "answer": "{1 if n == 30 else ""}"}}\n' for n in range(31)]
    mine.write_text("".join(rows))
    out = cli("import", str(mine))[1]
    assert out.count("no answer") == 20
    assert "and 10 more (--json)" in out


def test_lists(cli: CommandLine, mine: Path) -> None:
    code, _, err = cli("list")
    assert code == 2
    assert "there is no database here" in err
    cli("import", str(mine))
    code, out, _ = cli("list")
    assert code == 0
    assert "mine" in out
    assert json.loads(cli("list", "--json")[1])["sets"][0]["questions"] == 3
    page = json.loads(cli("list", "mine", "--limit", "2", "--json")[1])
    assert [question["row"] for question in page["questions"]] == [0, 1]
    assert (page["total"], page["after"]) == (4, 1)
    rest = json.loads(cli("list", "mine", "--after", "1", "--json")[1])
    assert [question["row"] for question in rest["questions"]] == [2, 3]
    assert rest["after"] is None
    assert "see more with --after 1" in cli("list", "mine", "--limit", "2")[1]
    held = cli("list", "mine", "--held")[1]
    assert "no answer" in held
    assert "What is" not in held
    sums = json.loads(cli("list", "mine", "--subject", "sums", "--search", "3+4", "--json")[1])
    assert [question["answer"] for question in sums["questions"]] == ["7"]
    assert cli("list", "nothing")[0] == 2
    assert cli("list", "--held")[0] == 2
    assert "--suspects allows only --run and --limit" in cli("list", "mine", "--suspects")[2]


def test_show_prints_the_text_as_it_is(cli: CommandLine, mine: Path) -> None:
    cli("import", str(mine))
    listed = json.loads(cli("list", "mine", "--level", "2", "--json")[1])["questions"][0]
    code, out, _ = cli("show", listed["id"][:10])
    assert code == 0
    assert r"Find \[x\] if [b]x[/b] is half of 1." in out
    assert r"answer \frac{1}{2}" in squeezed(out)
    shown = json.loads(cli("show", listed["id"], "--json")[1])
    assert shown["sets"] == [{"set": "mine", "row": 1, "held": None}]
    assert cli("show", "q_zzzz")[0] == 2
    code, _, err = cli("show", "q_")
    assert code == 2
    assert "several ids start" in err


def test_mixes_are_nested_and_repeatable(cli: CommandLine, mine: Path, more: Path) -> None:
    cli("import", str(mine))
    cli("import", str(more))
    options = ("--base", "mine", "--extra", "more", "--chunk", "3", "--seed", "7")
    code, out, _ = cli("mix", "x2", *options, "--chunks", "1")
    assert code == 0
    assert {"created yes", "questions 6", "times 2"} <= {*squeezed(out)}
    assert "created no" in squeezed(cli("mix", "x2", *options, "--chunks", "1")[1])
    large = json.loads(cli("mix", "x3", *options, "--chunks", "2", "--json")[1])
    assert (large["questions"], large["times"]) == (9, 3.0)
    ids = {
        name: [question["id"] for question in json.loads(cli("list", name, "--json")[1])["questions"]]
        for name in ("x2", "x3")
    }
    assert ids["x3"][:6] == ids["x2"]
    assert "mine + more" in cli("list")[1]
    code, _, err = cli("mix", "x9", *options, "--chunks", "8")
    assert code == 2
    assert "Import more, or request fewer" in err
    assert cli("mix", "x9", *options)[0] == 2


def test_a_set_is_removed_once_no_run_is_over_it(cli: CommandLine, mine: Path, more: Path) -> None:
    cli("import", str(mine), "--name", "wrong")
    code, _, err = cli("remove", "wrong")
    assert code == 2
    assert "--yes" in err  # nobody is there to be asked
    whole = cli.within()
    assert whole("rephrase", "run", "wrong", "--name", "first", "proposer=rules")[0] == 0
    code, _, err = cli("remove", "wrong", "--yes")
    assert code == 2
    assert "runs use it: first (`tagrpo runs remove`)" in err
    assert whole("runs", "remove", "first", "--yes")[0] == 0
    code, out, _ = cli("remove", "wrong", "--yes")
    assert code == 0
    assert {"set wrong", "questions 4"} <= {*squeezed(out)}
    assert cli("import", str(more), "--name", "wrong")[0] == 0
