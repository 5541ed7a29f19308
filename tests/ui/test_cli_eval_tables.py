"""`tagrpo runs list`, `report` and `compare` as a user meets them."""

import csv
import io
import shutil
from pathlib import Path

import pytest
from eval_runs import Counts, add_eval_run
from runs import open_empty

from evaluator.grading import GRADER_VERSION

BASE: Counts = [(32, 8, 0), (32, 0, 0), (32, 32, 0), (32, 1, 0)]
TUNED: Counts = [(32, 20, 0), (32, 1, 0), (32, 32, 0), (32, 4, 0)]


def make_database(folder: Path) -> None:
    """Make a database with runs base.aime24, base.own, tuned.aime24, tuned.own, open."""
    with open_empty(folder / "t.db") as db:
        for name, counts in (("base", BASE), ("tuned", TUNED)):
            for benchmark in ("aime24", "own"):
                about = {"benchmark": benchmark, "model": f"Qwen/Qwen3-4B-{name}"}
                add_eval_run(db, f"{name}.{benchmark}", counts, **about)
        add_eval_run(db, "open", [(8, 2, 0), (4, 0, 0)], graded=[8, 2], finished=False)


@pytest.fixture
def cli(cli, built):
    """Run `tagrpo ...` beside a copy of that database."""
    shutil.copy(built(make_database), "tagrpo.db")
    return cli


def test_list_shows_where_each_run_stands(cli):
    done = cli("runs", "list", "--kind", "eval")
    lines = {line.split()[0]: " ".join(line.split()) for line in done.out.splitlines()[1:]}
    line = f"base.aime24 eval aime24 Qwen/Qwen3-4B-base samples=128, graded=128, pass_at_1={41 / 128:.4g}"
    assert lines["base.aime24"].startswith(line)
    assert "samples=12, graded=10" in lines["open"]
    runs = cli.json("runs", "list", "--kind", "eval")["runs"]
    by_name = {run["run"]: run for run in runs}
    assert set(by_name) == {"base.aime24", "base.own", "tuned.aime24", "tuned.own", "open"}
    assert by_name["base.own"]["pass_at_1"] == pytest.approx(41 / 128)
    assert by_name["base.own"]["grader"] == GRADER_VERSION
    assert by_name["base.own"]["sources"]["box"] == 1.0
    assert (by_name["open"]["fewest"], by_name["open"]["most"], by_name["open"]["graded"]) == (4, 8, 10)
    open_empty(Path("empty.db")).close()
    assert "tagrpo eval run" in cli("runs", "list", "--kind", "eval", "--db", "empty.db").out


@pytest.mark.parametrize("command", ["report base", "compare tuned base"])
def test_boxed_answers_can_be_asked_for_and_how_to_grade_them_is_said(cli, command):
    assert f"`tagrpo eval score {command.split()[1]}.aime24 --answers boxed`" in cli.refused(
        "eval", *command.split(), "--answers", "boxed"
    )
    cli.ok("eval", *command.split(), "--answers", "all")
    cli.refused("eval", *command.split(), "--answers", "some")


def test_report_prints_the_table_of_the_paper_or_none(cli):
    done = cli("eval", "report", "base", "Ours=tuned", "--paper", "Qwen3-4B")
    lines = done.out.splitlines()
    assert lines[0].startswith("pass@32, percent, with 95% intervals: new problems; paper: Qwen3-4B in arXiv")
    assert lines[2].split() == ["base", "-", "-", "75.00", "-", "-", "-", "-", "-", "-", "75.00"]
    assert lines[4].split()[:4] == ["Ours", "-", "-", "100.00"]
    assert "66.73(!)" in done.out
    assert "- Different from the paper: 32 samples per problem (all rows)" in done.out
    plain = cli("eval", "report", "base", "--k", "1,8", "--interval", "same-problems").out
    assert [line for line in plain.splitlines() if line.startswith("pass@")] == [
        "pass@1, percent, with 95% intervals: same problems, new samples",
        "pass@8, percent, with 95% intervals: same problems, new samples",
    ]
    assert "(paper)" not in plain


def test_reports_and_comparisons_are_written_by_their_endings(cli):
    begins = {"t.md": "**pass@32", "t.tex": "% needs", "t.csv": "source,run,label"}
    for name, beginning in begins.items():
        done = cli("eval", "report", "base", "tuned", "--out", name)
        assert (done.code, done.out, f"written to {name}" in done.err) == (0, "", True)
        text = Path(name).read_text(encoding="utf-8")
        assert text.startswith(beginning)
        assert "none_found" in text or "where tagrpo found the answers" in text.lower()
    cli.ok("eval", "report", "base", "--out", "t.md", "--overwrite", "--format", "latex")
    assert Path("t.md").read_text(encoding="utf-8").startswith("% needs")
    cli.ok("eval", "compare", "tuned.own", "base.own", "--out", "c.tex")
    assert "\\toprule" in Path("c.tex").read_text(encoding="utf-8")
    charted = cli.ok("eval", "report", "base", "tuned", "--chart", "c.json", "--json")
    assert "chart written to c.json" in charted.err
    assert "tuned" in Path("c.json").read_text(encoding="utf-8")


def test_csv_and_json_hold_every_value_at_full_precision(cli):
    printed = cli("eval", "report", "base", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [int(row["k"]) for row in rows if row["benchmark"] == "own"] == [1, 2, 4, 8, 16, 32]
    assert float(rows[0]["value"]) == 41 / 128
    paper = cli("eval", "report", "base", "--paper", "Qwen3-4B", "--format", "csv").out
    printed = [row for row in csv.DictReader(io.StringIO(paper)) if row["source"].startswith("arXiv")]
    tables = {f"arXiv:2601.22478 v5, {where}" for where in ("Table 1", "Figure 7")}
    assert {row["source"] for row in printed} == tables
    assert len(printed) == 4 * 8 + 1
    found = cli.json("eval", "report", "base")
    assert (found["metric"], found["interval"], found["k"]) == ("pass@k", "new problems", [32])
    assert (found["scores"][0]["value"], found["scores"][0]["answers"]) == (41 / 128, "all")
    assert found["notes"]


def test_other_metrics_and_pooled_seeds(cli):
    def value(*arguments: str) -> float:
        found = cli.json("eval", "report", "base.own", "--k", "2", *arguments)
        return float(next(row["value"] for row in found["scores"] if row["k"] == 2))

    all_right = (8 * 7 / (32 * 31) + 1) / 4
    assert value("--metric", "pass^k") == pytest.approx(all_right)
    assert value("--metric", "g-pass@k:1") == pytest.approx(all_right)
    assert value("--metric", "g-pass@k") == pytest.approx(value())
    assert value("--metric", "maj@k") == pytest.approx(41 / 128)  # a tie counts half
    both = ("eval", "report", "Both=base.own+tuned.own")
    assert "model ('Qwen/Qwen3-4B-base' in base.own" in cli.refused(*both)
    row = cli.json(*both, "--allow", "pooling")["scores"][0]
    assert (row["samples"], row["run"], row["value"]) == (64, "base.own+tuned.own", 98 / 256)


def test_what_cannot_be_done_says_why(cli):
    Path("there.md").touch()
    Path("there.json").touch()
    cli.within("eval").refuses(
        {
            "report nothing": "there is no eval run 'nothing'",
            "report open": "2 of 12 samples have no grade",
            "report base --k 64": "none of the 4 problems has 64 graded samples",
            "report base --k two": "give integers of at least 1",
            "report base --k 0": "give integers of at least 1",
            "report base --chart c.gif": "not a chart format. End the name in .png",
            "report base --metric maj@k --interval same-problems": "Use --interval new-prob",
            "report base --paper gpt": "no paper reports the model 'gpt'",
            "report base --json --out t.csv": "cannot be combined",
            "report base --out t.pdf": "format is unknown. End the name in .md, .tex, .csv,",
            "report base --out there.md": "--overwrite",
            "report base --chart there.json": "--overwrite",
            "compare base base": "selects several runs of aime24",
            "compare base.own tuned.aime24": "no common benchmark",
            "compare X=base.own X=tuned.aime24": "Write LABEL=RUN for one of them",
        }
    )


def test_compare_prints_differences_and_changed_problems(cli):
    done = cli("eval", "compare", "tuned", "base", "--k", "1,32")
    lines = done.out.splitlines()
    assert lines[0] == "pass@k, A = tuned, B = base; percent, differences in points"
    assert lines[2].split()[:5] == ["aime24", "1", f"{5700 / 128:.2f}", f"{4100 / 128:.2f}", "+12.50"]
    assert "3/0/1" in lines[2]
    for said in ("problems with the largest changes", "20/32", "(!) aime24 at k = 1, own at k = 1: "):
        assert said in done.out
    found = cli.json("eval", "compare", "tuned.own", "base.own")
    assert (found["a"], found["b"], found["k"]) == ("tuned", "base", [1, 2, 4, 8, 16, 32])
    assert [row["k"] for row in found["differences"]] == [1, 2, 4, 8, 16, 32]
    assert found["differences"][0]["difference"] == pytest.approx(16 / 128)
    assert [row["correct_a"] for row in found["problems"]] == [20, 4, 1, 32]
