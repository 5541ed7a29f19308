"""Reports from runs made of nothing: k, averages, published figures, notes, rows."""

from typing import Any

import numpy as np
import pytest
from eval_runs import Counts, add_eval_run, make_problems, regrade

from evaluator.evals.problems import PlacedProblem
from evaluator.passk import NEW_PROBLEMS
from evaluator.reports.documents.document import Table
from evaluator.reports.layout import report_document
from evaluator.reports.methods import load_methods
from evaluator.reports.notes import contamination_notes, report_notes
from evaluator.reports.report import MetricScore, Report, average, build_report
from service.database import Database
from service.errors import InputError
from service.questions.contamination.finding import Overlap, OverlapSettings
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
    assert {key: [score.value for score in scores] for key, scores in report.averages.items()} == {
        ("a", "competition"): [0.5]
    }
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


def test_no_average_over_different_problems(db: Database) -> None:
    for method in ("a", "b"):
        for name in COMPETITIONS:
            text = f"{name} of {method}" if name == "aime24" else name
            add_eval_run(db, f"{method}.{name}", HALF, benchmark=name, problems=make_problems(2, text))
    assert (report := build(db, "a", "b")).averages == {}
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
                settings=OverlapSettings(),
                overlaps=overlaps,
            )
    with db.read() as session:
        notes = contamination_notes(session, load_methods(session, ["a"]))
    assert len(notes) == 1
    assert "test: the set math contains 1 of its 2 problems (0 more are similar)" in notes[0]


def test_an_average_joins_intervals_as_of_independent_estimates() -> None:
    parts = [
        MetricScore(8, 0.5, 0.5, 0.2, 0.9, NEW_PROBLEMS, 30),
        MetricScore(8, 0.7, 0.8, 0.3, 1.0, NEW_PROBLEMS, 83),
    ]
    found = average(parts)
    assert (found.value, found.value_high, found.problems) == (pytest.approx(0.6), pytest.approx(0.65), 113)
    assert found.low == pytest.approx(0.6 - np.hypot(0.3, 0.4) / 2)
    assert found.high == pytest.approx(0.65 + np.hypot(0.4, 0.2) / 2)
