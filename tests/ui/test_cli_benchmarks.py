"""`tagrpo benchmarks` as a user meets it."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine

from evaluator.benchmarks import BENCHMARKS
from service.errors import PrerequisiteError
from service.questions import hub


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    return cli.within("benchmarks")


def write(name: str, *golds: str) -> str:
    rows = [{"question": f"What is {n}+{n}?", "answer": gold} for n, gold in enumerate(golds)]
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def test_the_list_names_every_benchmark(cli: CommandLine) -> None:
    code, out, _ = cli("list")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert {"name", *BENCHMARKS} <= set(lines)  # long lines are wrapped
    assert all(
        word in lines["gpqa-diamond"] for word in ("198", "choice", "Idavidrein/gpqa", "yes", "CC-BY-4.0")
    )
    assert all(word in lines["math-test"] for word in ("5,000", "latex", " no "))


def test_the_list_as_json_holds_revision_and_citation(cli: CommandLine) -> None:
    code, out, _ = cli("list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["benchmarks"]}
    assert code == 0
    assert rows["gsm8k"]["revision"] == "e53f048856ff4f594e959d75785d2c2d37b678ee"
    assert "2110.14168" in rows["gsm8k"]["citation"]
    assert rows["olympiadbench"]["revision"] is None
    assert "not pinned" in rows["olympiadbench"]["note"]


def test_a_benchmark_that_is_fine_exits_with_0(cli: CommandLine) -> None:
    code, out, err = cli("check", write("mine.jsonl", "0", "2", "4"))
    assert (code, out) == (
        0,
        "mine: 3 problems from mine.jsonl, content not checked, all gold answers grade as correct\n",
    )
    assert "attention" not in err


def test_a_gold_that_fails_exits_with_1(cli: CommandLine) -> None:
    code, out, err = cli("check", write("mine.jsonl", "0", ""), write("fine.jsonl", "0"))
    assert code == 3
    assert "1 gold answers fail\n  row 1, gold '': unknown (no answer)" in out
    assert "fine: 1 problems" in out
    assert "failed checks: mine.jsonl" in err


def test_other_rows_than_expected_exit_with_1(cli: CommandLine) -> None:
    write("a.jsonl", "0", "2")
    code, out, _ = cli("check", "aime24", "--from", "a.jsonl")
    assert code == 3
    assert "AIME 2024 has 30 problems, but this source has 2" in out
    code, out, _ = cli("check", "aime24", "--from", "a.jsonl", "--allow-changed")
    assert code == 0
    assert "content changed" in out


def test_json_holds_source_hash_and_failures(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise PrerequisiteError("the Hub cannot be reached.")

    monkeypatch.setattr(hub, "open_dataset", unreachable)
    write("mine.jsonl", "0", "")
    code, out, _ = cli("check", "mine.jsonl", "aime24", "--json")
    mine, aime = json.loads(out)["benchmarks"]
    assert code == 3
    assert mine["ok"] is False
    assert mine["source"]["file"] == "mine.jsonl"
    assert [failure["row"] for failure in mine["gold_failures"]] == [1]
    assert aime["ok"] is False
    assert aime["problem"] == "the Hub cannot be reached. Or pass a copy of aime24 with --from FILE."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "aime2024"], 'Did you mean "aime24"?'),
        (["check", "aime24", "--from", "none.jsonl"], "no such file"),
        (["check", "--from", "none.jsonl"], "1 --from for "),
        (["check", "aime24", "aime25", "--from", "a.jsonl"], "1 --from for 2 benchmarks"),
        (["check", "none.toml"], "cannot be read"),
    ],
)
def test_bad_usage_exits_with_2(cli: CommandLine, arguments: list[str], message: str) -> None:
    code, _, err = cli(*arguments)
    assert code == 2
    assert message in err


def test_rows_of_gpqa_are_not_printed(cli: CommandLine) -> None:
    secret = "a secret question"
    header = "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3"
    rows = [f"{secret} {n},right{n},b,c,d" for n in range(198)]
    Path("gpqa_diamond.csv").write_text("\n".join([header, *rows]) + "\n")
    code, out, err = cli("check", "gpqa-diamond", "--from", "gpqa_diamond.csv")
    assert code == 0
    assert "GPQA" not in err
    assert secret not in out + err
    assert "gpqa-diamond: 198 problems from gpqa_diamond.csv, content not checked, all gold answers" in out
