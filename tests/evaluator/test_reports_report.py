"""Reports from runs made of nothing: k, averages, published figures, notes, rows."""

from typing import Any

import pytest
from eval_runs import Counts, add_eval_run, make_problems, regrade

from evaluator.evals.problems import PlacedProblem
from evaluator.grading.versions import version_taking
from evaluator.passk import SAME_PROBLEMS
from evaluator.reports.documents.document import Table
from evaluator.reports.layout import report_document
from evaluator.reports.methods import load_methods
from evaluator.reports.notes import contamination_notes, report_notes
from evaluator.reports.records import curve_rows, records
from evaluator.reports.report import Report, build_report
from evaluator.reports.sources import TITLE, line_sources, source_table
from service.database import Database
from service.errors import InputError
from service.questions.contamination.finding import Overlap, Settings
from service.questions.contamination.store import store_check

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


def test_left_out_problems_are_left_out_for_all_rows_and_said(db: Database) -> None:
    add_eval_run(db, "a", [(8, 8, 0), (8, 0, 0), (8, 0, 0)])
    add_eval_run(db, "b", [(8, 8, 0), (8, 4, 0), (4, 4, 0)])
    report = build(db, "a", "b", ks=[8], allow_missing=True)
    assert [line.at(8).value for line in report.lines] == [0.5, 1.0]
    assert {(line.left_out, one.problems) for line in report.lines for one in line.scores} == {(1, 2)}
    assert len(said(report, "1 of 3 problems are excluded at every k")) == 2
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
    assert list(table) == ["a", "Base (paper)", "GRPO (paper)", "GRPO w/ DS (paper)", "TA-GRPO (paper)"]
    assert (table["a"]["AIME24"], table["a"]["AMC"]) == ("50.00", "-")
    assert table["TA-GRPO (paper)"]["AIME24"] == "57.37"
    assert table["TA-GRPO (paper)"]["avg5"] == "66.73(!)"
    (unlike,) = said(report, "Different from the paper")
    assert "32 samples per problem (everywhere)" in unlike
    assert "a chat prompt (everywhere)" in unlike
    assert "2 problems, not 30 (everywhere)" in unlike
    for words in ("66.48", "gains of TA-GRPO over GRPO", '"TA-"', "The paper itself states neither"):
        assert said(report, words)


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
    assert line_sources(report.lines[0])["marker"] == 13 / 16
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


def test_no_average_over_different_problems(db: Database) -> None:
    for method in ("a", "b"):
        for name in COMPETITIONS:
            text = f"{name} of {method}" if name == "aime24" else name
            add_eval_run(db, f"{method}.{name}", HALF, benchmark=name, problems=make_problems(2, text))
    assert (report := build(db, "a", "b")).averages == ()
    assert said(report, "no average over AMC, Olympiad, AIME24, AIME25: the rows contain different problems")
    assert said(report, "aime24: the rows have different problems (a 2, b 2)")


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
    assert said(build(db, "a"), "Run a contains 1 neighbor. Only the original questions")
    assert said(build(db, "a", "b"), "Runs a, b contain 1 neighbor each. Only the original questions count")


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
