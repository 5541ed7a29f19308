"""`tagrpo questions` as a user meets it: output, exit codes, help."""

import json

import pytest
from command_line import squeezed
from json_rows import write_rows

ROWS = [
    {"question": "What is 1+1?", "answer": "2", "level": "Level 1", "subject": "Sums"},
    {"question": r"Find \[x\] if [b]x[/b] is half of 1.", "answer": r"\frac{1}{2}", "level": "Level 2"},
    {"question": "How many are there?", "answer": ""},
    {"question": "What is 3+4?", "answer": "7", "subject": "Sums"},
]


@pytest.fixture
def cli(cli):
    return cli.within("questions")


@pytest.fixture
def mine(tmp_path):
    return write_rows(tmp_path / "mine.jsonl", *ROWS)


@pytest.fixture
def more(tmp_path):
    path = tmp_path / "more.csv"
    lines = [f"Name {number} things {'abcdefghij'[number] * 30}.,{number}" for number in range(10)]
    path.write_text("\n".join(["question,answer", *lines]) + "\n")
    return path


def test_an_import_says_what_was_read_held_back_and_why(cli, mine):
    _, out, err = cli.warned("import", str(mine))
    assert {"rows 4", "usable 3"} <= {*squeezed(out)}
    assert "no answer" in out
    assert "warning: 1 held back" in err
    result = cli.json("import", str(mine), code=3)
    assert (result["set"], result["rows"], result["usable"], result["created"]) == ("mine", 4, 3, False)
    assert [(held["row"], held["held"]) for held in result["held"]] == [(2, "no answer")]
    assert (result["spec"]["columns"]["question"], len(result["spec"]["sha256"])) == ("question", 64)
    mine.write_bytes(mine.read_bytes() + b"{oops\n")
    _, out, err = cli.warned("import", str(mine), "--name", "more", "--skip-bad-rows")
    assert "rows left out: 1" in err
    assert "mine.jsonl:5: not valid JSON" in out
    mine.write_text(json.dumps(ROWS[0]) + "\n")
    assert "choose another name (`questions import`: --name)" in cli.refused("import", str(mine))
    cli.ok("import", str(mine), "--name", "mine-2")


def test_a_solution_column_without_any_box_is_refused(cli, tmp_path):
    rows = [{"question": f"What is {n}+1?", "rationale": "Add.", "correct": str(n + 1)} for n in range(3)]
    write_rows(tmp_path / "boxless.jsonl", *rows)
    refused = cli.refused("import", "boxless.jsonl")
    assert "--column answer=NAME; available: correct, question, rationale" in refused
    cli.ok("import", "boxless.jsonl", "--column", "answer=correct")


def test_bad_input_exits_with_2_and_leaves_no_set(cli, mine, tmp_path):
    (tmp_path / "broken.jsonl").write_bytes(mine.read_bytes()[:120])
    (tmp_path / "nul.jsonl").write_bytes(b'{"question": "a\\u0000", "answer": "1"}\n')
    cli.refuses(
        {
            "import nothing.jsonl": "nothing.jsonl: no such file",
            "import .": "is a folder",
            "import mine.jsonl --column question=body": 'no column "body"',
            "import mine.jsonl --split test": "apply to Hub datasets only",
            "import mine.jsonl --name 'a b'": "is not a valid name",
            "import broken.jsonl": "broken.jsonl:2: not valid JSON",
            "import nul.jsonl": "nul.jsonl:1: ",
        }
    )
    assert not (tmp_path / "tagrpo.db").exists() or cli.json("list") == {"sets": []}


def test_options_in_a_column_each_are_missed_and_get_their_letters(cli, mine):
    rows = [
        {"question": "Which is prime?", "A": "4", "B": 5, "C": None, "answer": "B"},
        {"question": "Which is a pet?", "A": "a cat", "B": "a rock", "C": "a cloud", "answer": "0"},
    ]
    write_rows(mine, *rows)
    err = cli.warned("import", str(mine)).err
    assert "questions may lack the content of A, B, C: in 2 rows, these columns contain text" in err
    named = "--column question=question --column question=A --column question=B --column question=C"
    assert named in err
    for odd in (
        "--column question=question --column question=B --column question=A",
        named.replace("=B", "=C"),
    ):
        assert "give all columns of options, in order: A" in cli.refused("import", str(mine), *odd.split())
    err = cli.ok("import", str(mine), "--name", "whole", *named.split()).err
    members = cli.json("list", "whole")["questions"]
    assert [member["question"] for member in members] == [
        "Which is prime?\n(A) 4\n(B) 5",
        "Which is a pet?\n(A) a cat\n(B) a rock\n(C) a cloud",
    ]


def test_golds_that_are_whole_solutions_are_reported_and_of_many_held_back_the_first_are_listed(cli, mine):
    solution = "Each bag has 2 * 3 = 6 pens.\nSo all the bags together have 24 pens.\nA: 24"
    rows = [{"question": "How many pens?", "answer": solution}, {"question": "And bags?", "answer": "4"}]
    write_rows(mine, *rows)
    assert cli.json("import", str(mine), code=3)["golds_that_are_solutions"] == 1
    err = cli.warned("import", str(mine)).err
    assert "gold answers that are whole solutions, which hardly any response matches: 1." in err
    write_rows(mine, *({"question": f"What is {n}?", "answer": "1" * (n == 30)} for n in range(31)))
    out = cli("import", str(mine), "--name", "held")[1]
    assert out.count("no answer") == 20
    assert "and 10 more (--json)" in out


def test_lists(cli, mine):
    assert "there is no database here" in cli.refused("list")
    cli("import", str(mine))
    out = cli.ok("list").out
    assert "mine" in out
    assert cli.json("list")["sets"][0]["questions"] == 3
    page = cli.json("list", "mine", "--limit", "2")
    assert [question["row"] for question in page["questions"]] == [0, 1]
    assert (page["total"], page["after"]) == (4, 1)
    rest = cli.json("list", "mine", "--after", "1")
    assert [question["row"] for question in rest["questions"]] == [2, 3]
    assert rest["after"] is None
    assert "see more with --after 1" in cli("list", "mine", "--limit", "2")[1]
    held = cli("list", "mine", "--held")[1]
    assert "no answer" in held
    assert "What is" not in held
    sums = cli.json("list", "mine", "--subject", "sums", "--search", "3+4")
    assert [question["answer"] for question in sums["questions"]] == ["7"]
    cli.refused("list", "nothing")
    cli.refused("list", "--held")
    assert "--suspects allows only --run and --limit" in cli("list", "mine", "--suspects")[2]


def test_show_prints_the_text_as_it_is(cli, mine):
    cli("import", str(mine))
    listed = cli.json("list", "mine", "--level", "2")["questions"][0]
    out = cli.ok("show", listed["id"][:10]).out
    assert r"Find \[x\] if [b]x[/b] is half of 1." in out
    assert r"answer \frac{1}{2}" in squeezed(out)
    shown = cli.json("show", listed["id"])
    assert shown["sets"] == [{"set": "mine", "row": 1, "held": None}]
    cli.refused("show", "q_zzzz")
    assert "... Give more characters." in cli.refused("show", "q_")


def test_mixes_are_nested_and_repeatable(cli, mine, more):
    cli("import", str(mine))
    cli("import", str(more))
    options = ("--base", "mine", "--extra", "more", "--chunk", "3", "--seed", "7")
    out = cli.ok("mix", "x2", *options, "--chunks", "1").out
    assert {"created yes", "questions 6", "times 2"} <= {*squeezed(out)}
    assert "created no" in squeezed(cli("mix", "x2", *options, "--chunks", "1")[1])
    large = cli.json("mix", "x3", *options, "--chunks", "2")
    assert (large["questions"], large["times"]) == (9, 3.0)
    ids = {name: [each["id"] for each in cli.json("list", name)["questions"]] for name in ("x2", "x3")}
    assert ids["x3"][:6] == ids["x2"]
    assert "mine + more" in cli("list")[1]
    assert "Import more, or request fewer" in cli.refused("mix", "x9", *options, "--chunks", "8")
    cli.refused("mix", "x9", *options)


def test_a_set_is_removed_once_no_run_is_over_it(cli, mine, more):
    cli("import", str(mine), "--name", "wrong")
    assert "--yes" in cli.refused("remove", "wrong")
    whole = cli.within()
    whole.ok("rephrase", "run", "wrong", "--name", "first", "proposer=rules")
    assert "runs use it: first (`tagrpo runs remove`)" in cli.refused("remove", "wrong", "--yes")
    whole.ok("runs", "remove", "first", "--yes")
    out = cli.ok("remove", "wrong", "--yes").out
    assert {"set wrong", "questions 4"} <= {*squeezed(out)}
    cli.ok("import", str(more), "--name", "wrong")
