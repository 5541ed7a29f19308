"""Reports from runs made of nothing: k, averages, published figures, notes, rows."""

from typing import Any

import pytest
from eval_runs import Counts, add_eval_run, make_problems, regrade

from evaluator.evals.problems import PlacedProblem
from evaluator.grading.versions import version_taking
from evaluator.passk import SAME_PROBLEMS
from evaluator.reports.documents.document import Document, Table
from evaluator.reports.layout import report_document
from evaluator.reports.methods import load_methods
from evaluator.reports.notes import contamination_notes, report_notes
from evaluator.reports.records import curve_rows, records
from evaluator.reports.report import Report, build_report, curve_ks
from evaluator.reports.sources import TITLE, source_rows, source_table
from service.database import Database
from service.errors import InputError
from service.questions.contamination import Overlap, Settings, store_check

COMPETITIONS = ("amc12", "olympiadbench", "aime24", "aime25")
HALF: Counts = [(32, 16, 0), (32, 0, 0)]


def build(db: Database, *references: str, **options: Any) -> Report:
    with db.read() as session:
        return build_report(load_methods(session, references), **options)


def cells(sheet: Table) -> dict[str, dict[str, str]]:
    """Return the first lines of a sheet's cells by row and column."""
    return {
        row[0]: {
            f"{column}{place}" if sheet.columns.count(column) > 1 else column: cell.split("\n")[0]
            for place, (column, cell) in enumerate(zip(sheet.columns, row, strict=True))
        }
        for row in sheet.rows
    }


def said(report: Report, words: str) -> list[str]:
    return [note for note in report_notes(report) if words in note]


def test_k_is_32_where_samples_allow_else_the_largest_power_of_two(db: Database) -> None:
    add_eval_run(db, "a.one", [(40, 20, 0), (33, 0, 0)], benchmark="one")
    add_eval_run(db, "b.one", [(31, 20, 0), (40, 0, 0)], benchmark="one")
    assert build(db, "a").ks == (32,)
    assert said(build(db, "a"), "k = ") == []
    report = build(db, "a", "b")
    assert report.ks == (16,)
    assert "k = 16, not 32: b has only 31 graded samples for some problem of one." in report_notes(report)[0]


def test_scores_are_the_mean_over_problems(db: Database) -> None:
    add_eval_run(db, "a", [(4, 2, 0), (4, 0, 0), (4, 4, 0)])
    (line,) = build(db, "a", ks=[2]).lines
    assert line.at(2).value == pytest.approx((5 / 6 + 0 + 1) / 3)
    assert [one.k for one in line.scores] == [1, 2, 4]
    assert {one.problems for one in line.scores} == {3}


def test_a_curve_has_powers_of_two_and_the_ks_asked_for() -> None:
    assert curve_ks(20, [5, 16]) == (1, 2, 4, 5, 8, 16)


def test_too_few_samples_name_the_row_and_the_way_out(db: Database) -> None:
    add_eval_run(db, "a", [(8, 2, 0), (4, 0, 0)])
    with pytest.raises(InputError, match=r"a, test: 1 of 2 problems .*--allow-missing"):
        build(db, "a", ks=[8])


def test_left_out_problems_are_left_out_for_all_rows_and_said(db: Database) -> None:
    add_eval_run(db, "a", [(8, 8, 0), (8, 0, 0), (8, 0, 0)])
    add_eval_run(db, "b", [(8, 8, 0), (8, 4, 0), (4, 4, 0)])
    report = build(db, "a", "b", ks=[8], allow_missing=True)
    assert [line.at(8).value for line in report.lines] == [0.5, 1.0]
    assert {(line.left_out, one.problems) for line in report.lines for one in line.scores} == {(1, 2)}
    assert len(said(report, "1 of 3 problems are left out at every k")) == 2
    basis = report_document(report).tables[-1]
    assert [row[3] for row in basis.rows] == ["2 of 3", "2 of 3"]
    with pytest.raises(InputError, match="no problem of test has 16 graded samples"):
        build(db, "a", "b", ks=[16], allow_missing=True)


def test_an_average_stands_only_where_all_its_columns_do(db: Database) -> None:
    for name in COMPETITIONS:
        add_eval_run(db, f"a.{name}", HALF, benchmark=name)
    for name in (*COMPETITIONS[:3], "minerva"):
        add_eval_run(db, f"b.{name}", HALF, benchmark=name)
    report = build(db, "a", "b")
    assert [(one.label, one.column, one.score.value) for one in report.averages] == [
        ("a", "competition", 0.5)
    ]
    table = cells(report_document(report).tables[0])
    assert table["a"] == {
        "method": "a",
        "AMC": "50.00",
        "Olympiad": "50.00",
        "AIME24": "50.00",
        "AIME25": "50.00",
        "avg": "50.00",
        "Minerva": "-",
    }
    assert table["b"]["avg"] == "-"
    assert said(report, "Zou and Donner")


def test_no_average_over_different_problems(db: Database) -> None:
    for method in ("a", "b"):
        for name in COMPETITIONS:
            text = f"{name} of {method}" if name == "aime24" else name
            add_eval_run(db, f"{method}.{name}", HALF, benchmark=name, problems=make_problems(2, text))
    assert (report := build(db, "a", "b")).averages == ()
    assert said(report, "no average over AMC, Olympiad, AIME24, AIME25: the rows have different problems")
    assert said(report, "aime24: the rows have different problems (a 2, b 2)")


def test_published_figures_stand_beside_runs_of_their_model(db: Database) -> None:
    add_eval_run(db, "a.aime24", HALF, benchmark="aime24", model="hosted_vllm/Qwen/Qwen3-4B")
    report = build(db, "a")
    assert report.paper == "Qwen3-4B"
    sheet = report_document(report).tables[0]
    assert sheet.columns == (
        "method",
        "AMC",
        "Olympiad",
        "AIME24",
        "AIME25",
        "avg",
        "Minerva",
        "GPQA-D",
        "avg",
        "all six",
    )
    table = cells(sheet)
    assert list(table) == [
        "a",
        "Base (paper)",
        "GRPO (paper)",
        "GRPO w/ DS (paper)",
        "TA-GRPO (paper)",
    ]
    assert (table["a"]["AIME24"], table["a"]["AMC"]) == ("50.00", "-")
    assert table["TA-GRPO (paper)"]["AIME24"] == "57.37"
    assert table["TA-GRPO (paper)"]["avg5"] == "66.73(!)"
    (unlike,) = said(report, "Different from the paper")
    assert "32 samples per problem (everywhere)" in unlike
    assert "a chat prompt (everywhere)" in unlike
    assert "2 problems, not 30 (everywhere)" in unlike
    for words in ("66.48", "gains of TA-GRPO over GRPO", '"TA-"', "The paper itself states neither"):
        assert said(report, words)


def test_settings_of_the_paper_are_not_remarked_on(db: Database) -> None:
    paper_like = [(128, 16, 0)] * 30
    add_eval_run(db, "a.aime24", paper_like, benchmark="aime24", form="raw", model="Qwen/Qwen3-4B")
    assert said(build(db, "a"), "Different from the paper") == []


@pytest.mark.slow
def test_published_figures_are_asked_for_or_turned_off(db: Database) -> None:
    add_eval_run(db, "a.aime24", HALF, benchmark="aime24", model="Qwen/Qwen3-4B")
    add_eval_run(db, "c.aime24", HALF, benchmark="aime24", model="out/checkpoint-100")
    add_eval_run(db, "d.own", HALF, benchmark="own", model="Qwen/Qwen3-4B")
    assert build(db, "a", paper="none").paper is None
    assert build(db, "c").paper is None
    assert build(db, "d").paper is None
    assert build(db, "c", paper="llama-3.2-3b").paper == "Llama-3.2-3B"
    with pytest.raises(InputError, match="no model 'gpt'"):
        build(db, "c", paper="gpt")


def test_published_figures_are_not_set_beside_another_k(db: Database) -> None:
    add_eval_run(db, "a.aime24", HALF, benchmark="aime24", model="Qwen/Qwen3-4B")
    report = build(db, "a", ks=[8], paper="Qwen3-4B")
    assert report.paper is None
    assert said(report, "are pass@32")
    both = report_document(build(db, "a", ks=[8, 32]))
    assert [len(sheet.rows) for sheet in both.tables[:2]] == [1, 5]


def test_figures_of_each_k_stand_beside_that_k(db: Database) -> None:
    add_eval_run(db, "a.aime25", HALF, benchmark="aime25", model="Qwen/Qwen2.5-Math-7B")
    add_eval_run(db, "a.amc23", HALF, benchmark="amc23", model="Qwen/Qwen2.5-Math-7B")
    report = build(db, "a", ks=[1, 3, 32])
    first, third, last, *_ = report_document(report).tables
    assert first.columns == ("method", "MATH", "AIME25", "AMC23")
    assert third.columns == ("method", "AIME25", "AMC23")
    assert (len(first.rows), len(third.rows), len(last.rows)) == (16, 1, 16)
    assert "paper: Qwen2.5-Math-7B in arXiv:2602.05548" in first.title
    assert first.title.endswith("Table 2, Table 5 and Table 6")
    assert "paper" not in third.title
    at_1, at_32 = cells(first), cells(last)
    assert at_1["W-REINFORCE (paper)"] == {
        "method": "W-REINFORCE (paper)",
        "MATH": "76.6",
        "AIME25": "10.6",
        "AMC23": "62.0",
    }
    assert at_1["GRPO (paper)"]["AMC23"] == "60.2(!)"
    assert at_32["GRPO (paper)"]["AMC23"] == "84.8"
    assert said(report, "W-REINFORCE (arXiv:2506.01347) and GRPO-LEAD (arXiv:2504.09696)")
    (unlike,) = said(report, "Different from the paper")
    assert "samples a problem" not in unlike  # the paper does not say how many it drew
    assert "2 problems, not 30 (a on aime25)" in unlike
    assert said(report, "all 40 of amc23") == []


def test_a_paper_brings_its_own_average(db: Database) -> None:
    model = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
    for name in ("aime24", "math500", "amc23", "minerva", "olympiadbench"):
        add_eval_run(db, f"a.{name}", HALF, benchmark=name, model=model)
    report = build(db, "a")
    assert report.ks == (1, 32)  # its figures are pass@1
    assert build(db, "a", paper="none").ks == (32,)
    table = cells(report_document(report).tables[0])
    assert table["a"]["avg"] == "25.00"
    assert table["CW-GRPO (paper)"]["avg"] == "55.3"
    assert table["GRPO, 200 steps (paper)"] == {
        "method": "GRPO, 200 steps (paper)",
        "AIME24": "-",
        "MATH-500": "79.8",
        "AMC23": "-",
        "Minerva": "-",
        "Olympiad": "47.8(!)",
        "avg": "-",
    }
    assert said(report, "32 samples per problem")


def test_amc23_is_not_the_amc_of_the_paper(db: Database) -> None:
    add_eval_run(db, "a.amc23", HALF, benchmark="amc23")
    report = build(db, "a")
    assert said(report, "all 40 of amc23")
    assert report_document(report).tables[0].columns == ("method", "amc23")


def test_unknown_grades_are_bounds(db: Database) -> None:
    add_eval_run(db, "a", [(4, 2, 0), (4, 0, 2)])
    report = build(db, "a", ks=[1])
    document = report_document(report)
    value, interval = document.tables[0].rows[0][1].split("\n")
    assert value == "25.00 to 50.00"
    low, high = interval.strip("[]").split(", ")
    assert float(low) < 25 < 50 < float(high)
    assert said(report, "the report shows two values")
    assert document.tables[-1].rows[0][6] == "25.00"  # unknown %


def test_the_basis_says_what_stands_beside_the_scores(db: Database) -> None:
    add_eval_run(
        db, "a", [(8, 2, 0), (10, 0, 0)], truncated=[4, 5], usd=None, tokens=lambda *_: 300, finished=False
    )
    report = build(db, "a", ks=[1])
    assert report_document(report).tables[-1] == Table(
        (
            "method",
            "benchmark",
            "run",
            "problems",
            "samples per problem",
            "truncated %",
            "unknown %",
            "tokens",
            "USD",
        ),
        (("a", "test", "a", "2", "8 to 10", "50.0", "0.00", "300", "unknown"),),
        title="sample details",
        words=3,
    )
    assert said(report, "Run a is not finished")


def test_where_answers_were_found_stands_beside_the_scores(db: Database) -> None:
    here = {"correct": "last sentence", "wrong": "marker", "unknown": None}
    add_eval_run(db, "a.one", [(8, 2, 1), (8, 0, 0)], benchmark="one", sources=here)
    add_eval_run(db, "b.one", [(8, 0, 0), (8, 0, 0)], benchmark="one", seed=1)
    add_eval_run(db, "c.one", [(8, 2, 0), (8, 0, 0)], benchmark="one", seed=2)
    report = build(db, "a", "mixed=b.one+c.one", "c", ks=[1])
    [sheet] = [one for one in report_document(report).tables if one.title == TITLE]
    assert sheet.columns[2:] == ("box", "marker", "last sentence", "none found", "correct from last sentence")
    assert [row[2:] for row in sheet.rows] == [
        ("0.0", "81.2", "12.5", "6.2", "100.0"),
        ("100.0", "0.0", "0.0", "0.0", "0.0"),
        ("100.0", "0.0", "0.0", "0.0", "0.0"),
    ]
    assert source_rows(report)[0]["marker"] == 13 / 16
    [note] = said(report, "Many correct answers come from the last sentence")
    assert "a on one (100%)" in note
    assert "mixed" not in note
    first = records(report)[0]
    assert [first[name] for name in ("box", "marker", "last_sentence", "none_found")] == [
        0.0,
        13 / 16,
        2 / 16,
        1 / 16,
    ]
    assert (first["correct_from_last_sentence"], first["answers"]) == (1.0, "all")
    # Without a correct answer there is no share of them.
    assert source_table(build(db, "b", ks=[1])).rows[0][-1] == "-"
    assert said(build(db, "b", ks=[1]), "last sentence") == []


def test_a_report_of_boxed_answers_says_so(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 2, 0)])
    regrade(db, run, [(4, 1, 0)], version_taking("boxed"))
    assert said(build(db, "a", ks=[1]), "Only boxed answers count") == []
    with db.read() as session:
        methods = load_methods(session, ["a"], answers="boxed")
    boxed = build_report(methods, ks=[1])
    assert boxed.lines[0].at(1).value == 0.25
    assert said(boxed, "Only boxed answers count")
    assert said(boxed, "this installation has") == []
    assert {row["answers"] for row in records(boxed)} == {"boxed"}


def test_other_graders_and_settings_are_said(db: Database) -> None:
    for name, temperature in (("a", 0.6), ("b", 1.0)):
        run = add_eval_run(db, name, HALF, grader_version="old 1", temperature=temperature)
        regrade(db, run, HALF, "old 2")
    report = build(db, "a", "b")
    assert said(report, "Graded by old 2; this installation has")
    assert said(report, "test: the rows were sampled with different settings: sampling.temperature (0.6 in a")


def test_neighbors_of_a_run_are_said_to_be_left_out(db: Database) -> None:
    placed = [PlacedProblem(problem, "g", place) for place, problem in enumerate(make_problems(2))]
    for name in ("a", "b"):
        add_eval_run(db, name, HALF, problems=placed)
    assert said(build(db, "a"), "Run a contains 1 neighbor; only the original questions")
    assert said(build(db, "a", "b"), "Runs a, b contain 1 neighbor each; only the original questions count")


def test_contamination_is_said(db: Database) -> None:
    run = add_eval_run(db, "a", HALF)
    found = Overlap("q_1", make_problems(2)[0].id, "n-gram", 100.0)
    with db.write() as session:
        for name, overlaps in (("math", [found]), ("clean", [])):
            store_check(
                session,
                set_name=name,
                set_hash=name,
                benchmark="test",
                problems_hash=run.spec["problems_hash"],
                settings=Settings(),
                overlaps=overlaps,
            )
    with db.read() as session:
        notes = contamination_notes(session, load_methods(session, ["a"]))
    assert len(notes) == 1
    assert "test: the set math contains 1 of its 2 problems (0 more are similar)" in notes[0]


def test_rows_are_tidy_and_whole(db: Database) -> None:
    for name in COMPETITIONS:
        add_eval_run(db, f"a.{name}", HALF, benchmark=name, model="Qwen/Qwen3-4B")
    report = build(db, "a", interval=SAME_PROBLEMS)
    rows = records(report)
    assert len({tuple(row) for row in rows}) == 1
    assert [row["source"] for row in rows].count("runs") == 4 * 6
    (mean,) = [row for row in rows if row["source"] == "average"]
    assert (mean["benchmark"], mean["k"], mean["value"]) == (
        "average of amc12, olympiadbench, aime24, aime25",
        32,
        0.5,
    )
    paper = [row for row in rows if row["source"].startswith("arXiv")]
    assert len(paper) == 4 * 8 + 1
    assert {row["source"] for row in paper} == {
        "arXiv:2601.22478 v5, Table 1",
        "arXiv:2601.22478 v5, Figure 7",
    }
    assert [(row["printed"], row["value"]) for row in paper if row["odd"]] == [("66.73", 0.6673)]
    curve = curve_rows(report)
    assert [row["k"] for row in curve if row["benchmark"] == "aime24"] == [1, 2, 4, 8, 16, 32]
    assert curve[0]["value"] == pytest.approx(0.25)
    assert list(curve[0]) == [
        "run",
        "label",
        "benchmark",
        "k",
        "value",
        "value_high",
        "low",
        "high",
        "interval",
        "problems",
        "samples",
    ]
    assert {row["interval"] for row in curve} == {SAME_PROBLEMS}


def test_a_report_reads_as_one_document(db: Database) -> None:
    add_eval_run(db, "a", HALF)
    document = report_document(build(db, "a"), ["one more"])
    assert isinstance(document, Document)
    assert document.tables[0].title == "pass@32, percent, with 95% intervals: new problems"
    assert document.notes[-1] == "one more"
