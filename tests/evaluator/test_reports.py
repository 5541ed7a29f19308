"""Reports and comparisons: runs of a row, k, averages, published figures, notes, documents as text."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from eval_runs import Counts, add_eval_run, make_problems, regrade
from sqlalchemy import update

from evaluator.evals.problems import PlacedProblem
from evaluator.evals.tables import ContaminationCheckRow, OverlapRow
from evaluator.passk import NEW_PROBLEMS
from evaluator.reports import document, published
from evaluator.reports.comparing import MethodComparison, ahead, compare_methods, comparison_document
from evaluator.reports.layout import contamination_notes, report_document, report_notes
from evaluator.reports.methods import Method, load_methods, method_choices
from evaluator.reports.published import papers
from evaluator.reports.report import MetricScore, Report, average, build_report
from service.database import Database
from service.errors import InputError
from service.runs.tables import RunRow
from ui import rendering

TWO = [(4, 2, 0), (4, 1, 1)]


def load(db: Database, *references: str) -> list[Method]:
    with db.read() as session:
        return load_methods(session, references)


@pytest.mark.parametrize("created_at", ["2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"])
def test_runs_of_a_label_go_together_and_those_without_grades_are_named(tmp_path, created_at):
    with Database.open(tmp_path / "t.db") as db:
        add_eval_run(db, "base.aime24", [(4, 1, 0)], benchmark="aime24")
        add_eval_run(db, "base.aime25", [(4, 2, 0)], benchmark="aime25")
        add_eval_run(db, "base", [(4, 3, 0)], benchmark="aime24", seed=1)
        with db.write() as session:  # whichever came first
            session.execute(update(RunRow).where(RunRow.name == "base").values(created_at=created_at))
        add_eval_run(db, "late.aime24", [(4, 1, 0)], benchmark="aime24", graded=[1], seed=2)
        with db.read() as session:
            found = {one.label: one for one in method_choices(session)}
            assert sorted(found["base"].benchmarks) == ["aime24", "aime25"]
            assert found["late"].runs == ()
            assert [overview.run.name for overview in found["late"].not_ready] == ["late.aime24"]
            held = [run.run.name for one in found.values() for run in one.runs]
            assert sorted(held) == ["base", "base.aime24", "base.aime25"]
            for one in found.values():
                for run in one.runs:
                    (method,) = load_methods(session, one.references((run.run.spec["problems"],)))
                    assert method.label == one.label
                    assert method.entries[run.run.spec["problems"]].runs == (run.run.name,)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("=a", "has an empty label or run"),
        ("X=", "has an empty label or run"),
        ("a++b", "has an empty label or run"),
        ("a+a", "a run appears twice"),
        ("a+b", "a and b have the same seed"),
    ],
)
def test_references_that_cannot_be_read(db, reference, message):
    for name in ("a", "b"):
        add_eval_run(db, name, TWO)
    with pytest.raises(InputError, match=message):
        load(db, reference)


COMPETITIONS = ("amc12", "olympiadbench", "aime24", "aime25")
HALF: Counts = [(32, 16, 0), (32, 0, 0)]


def build(db: Database, *references: str, **options: Any) -> Report:
    with db.read() as session:
        return build_report(load_methods(session, references), **options)


def cells(sheet: document.Table) -> dict[str, dict[str, str]]:
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


def test_k_is_32_where_samples_allow_else_the_largest_power_of_two(db):
    add_eval_run(db, "a.one", [(40, 20, 0), (33, 0, 0)], benchmark="one")
    add_eval_run(db, "b.one", [(31, 20, 0), (40, 0, 0)], benchmark="one")
    assert build(db, "a").ks == (32,)
    assert said(build(db, "a"), "k = ") == []
    report = build(db, "a", "b")
    assert report.ks == (16,)
    assert "k = 16, not 32: b has only 31 graded samples for some problem of one." in report_notes(report)[0]


def test_left_out_problems_are_left_out_for_all_rows_and_said(db):
    add_eval_run(db, "a", [(8, 8, 0), (8, 0, 0), (8, 0, 0)])
    add_eval_run(db, "b", [(8, 8, 0), (8, 4, 0), (4, 4, 0)])
    report = build(db, "a", "b", ks=[8], allow_missing=True)
    assert [line.at(8).value for line in report.lines] == [0.5, 1.0]
    assert {(line.left_out, one.problems) for line in report.lines for one in line.scores} == {(1, 2)}
    assert len(said(report, "1 of 3 problems are excluded at every k")) == 2
    basis = report_document(report).blocks[-1]
    assert [row[3] for row in basis.rows] == ["2 of 3", "2 of 3"]
    with pytest.raises(InputError, match="a, b, test: none of the 3 problems has 16 graded samples"):
        build(db, "a", "b", ks=[16], allow_missing=True)


def test_an_average_stands_only_where_all_its_columns_do(db):
    for name in COMPETITIONS:
        add_eval_run(db, f"a.{name}", HALF, benchmark=name)
    for name in (*COMPETITIONS[:3], "minerva"):
        add_eval_run(db, f"b.{name}", HALF, benchmark=name)
    report = build(db, "a", "b")
    assert {key: [score.value for score in scores] for key, scores in report.averages.items()} == {
        ("a", "competition"): [0.5]
    }
    table = cells(report_document(report).blocks[0])
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


def test_unknown_grades_are_bounds(db):
    add_eval_run(db, "a", [(4, 2, 0), (4, 0, 2)])
    report = build(db, "a", ks=[1])
    page = report_document(report)
    value, interval = page.blocks[0].rows[0][1].split("\n")
    assert value == "25.00 to 50.00"
    low, high = interval.strip("[]").split(", ")
    assert float(low) < 25 < 50 < float(high)
    assert said(report, "the report shows two values")
    assert page.blocks[-1].rows[0][6] == "25.00"  # unknown %


def test_no_average_over_different_problems(db):
    for method in ("a", "b"):
        for name in COMPETITIONS:
            text = f"{name} of {method}" if name == "aime24" else name
            add_eval_run(db, f"{method}.{name}", HALF, benchmark=name, problems=make_problems(2, text))
    assert (report := build(db, "a", "b")).averages == {}
    assert said(report, "aime24: the rows have different problems (a 2, b 2)")


def test_other_graders_and_settings_are_said(db):
    for name, temperature in (("a", 0.6), ("b", 1.0)):
        run = add_eval_run(db, name, HALF, grader_version="old 1", temperature=temperature)
        regrade(db, run, HALF, "old 2")
    report = build(db, "a", "b")
    assert said(report, "Graded by old 2; this installation has")
    assert said(report, "test: the rows were sampled with different settings: sampling.temperature (0.6 in a")


def test_neighbors_of_a_run_are_said_to_be_left_out(db):
    placed = [PlacedProblem(problem, "g", place) for place, problem in enumerate(make_problems(2))]
    for name in ("a", "b"):
        add_eval_run(db, name, HALF, problems=placed)
    assert said(build(db, "a"), "Run a contains 1 neighbor. Only the original questions")
    assert said(build(db, "a", "b"), "Runs a, b contain 1 neighbor each. Only the original questions count")


def test_contamination_is_said(db):
    run = add_eval_run(db, "a", HALF)
    benchmark = {"benchmark": "test", "problems_hash": run.spec["problems_hash"], "settings": {}}
    overlap = {"source_id": "q_1", "problem_id": make_problems(2)[0].id, "measure": "n-gram", "score": 100.0}
    with db.write() as session:
        for id, name in enumerate(("math", "clean")):
            names = {"set_name": name, "set_hash": name}
            session.add(ContaminationCheckRow(id=id, **names, **benchmark, created_at="2026"))
        session.flush()
        session.add(OverlapRow(check_id=0, **overlap))
    with db.read() as session:
        notes = contamination_notes(session, load_methods(session, ["a"]))
    assert len(notes) == 1
    assert "test: the set math contains 1 of its 2 problems (0 more are similar)" in notes[0]


def test_an_average_joins_intervals_as_of_independent_estimates():
    first = MetricScore(8, 0.5, 0.5, 0.2, 0.9, NEW_PROBLEMS, 30)
    second = MetricScore(8, 0.7, 0.8, 0.3, 1.0, NEW_PROBLEMS, 83)
    found = average([first, second])
    assert (found.value, found.value_high, found.problems) == (pytest.approx(0.6), pytest.approx(0.65), 113)
    assert found.low == pytest.approx(0.6 - np.hypot(0.3, 0.4) / 2)
    assert found.high == pytest.approx(0.65 + np.hypot(0.4, 0.2) / 2)


def compared(db: Database, a: str, b: str, **options: Any) -> MethodComparison:
    with db.read() as session:
        return compare_methods(*load_methods(session, [a, b]), **options)


def runs(db: Database, name: str, **counts: Counts) -> None:
    for benchmark, of_it in counts.items():
        add_eval_run(db, f"{name}.{benchmark}", of_it, benchmark=benchmark)


LOW: Counts = [(8, 2, 0)] * 12
HIGH: Counts = [(8, 6, 0)] * 12
SAME: Counts = [(8, 2, 0)] * 11 + [(8, 3, 0)]


def test_p_values_are_corrected_over_benchmarks_at_each_k(db):
    runs(db, "a", aime24=HIGH, gsm8k=SAME, amc12=HIGH)
    runs(db, "b", aime24=LOW, gsm8k=LOW, amc12=LOW)
    found = compared(db, "a", "b", ks=[1])
    assert [*found.compared] == ["amc12", "aime24", "gsm8k"]
    plain, adjusted = ({row["benchmark"]: row[p] for row in found.rows} for p in ("p_value", "p_holm"))
    assert plain["amc12"] == plain["aime24"] < 0.01
    assert plain["gsm8k"] == 1.0
    assert adjusted["amc12"] == pytest.approx(3 * plain["amc12"])
    assert adjusted["aime24"] == pytest.approx(3 * plain["amc12"])
    assert adjusted["gsm8k"] == 1.0


def test_different_problems_need_to_be_asked_for(db):
    problems = make_problems(3)
    add_eval_run(db, "a", LOW[:2], problems=problems[:2])
    add_eval_run(db, "b", LOW[:2], problems=problems[1:])
    with pytest.raises(InputError, match="--common-only"):
        compared(db, "a", "b", ks=[1])
    found = compared(db, "a", "b", ks=[1], common_only=True)
    assert [change["problem_id"] for change in found.changes] == [problems[1].id]
    assert any("1 problems only in A and 1 only in B" in note for note in comparison_document(found).notes)


def test_benchmarks_of_one_side_and_settings_are_said(db):
    runs(db, "a", one=LOW, two=LOW)
    add_eval_run(db, "b.one", LOW, benchmark="one", temperature=1.0, model="other", seed=3)
    notes = comparison_document(compared(db, "a", "b")).notes
    assert "Not compared, because only a has results: two." in notes
    assert "one: sampled with different settings: sampling.temperature (0.6 in A (a), 1.0 in B (b))." in notes


def intervals(spans: dict[int, tuple[float, float]]) -> Any:
    """Return a comparison of x with y with the given intervals at some k."""
    rows = [{"k": k, "low": low, "high": high} for k, (low, high) in spans.items()]
    return SimpleNamespace(label_a="x", label_b="y", rows=rows)


def test_a_side_is_ahead_only_where_the_interval_leaves_zero_out():
    spans = {1: (-0.05, -0.01), 8: (0.01, 0.03), 16: (0.0, 0.03), 32: (-0.01, 0.02)}
    assert ahead(intervals(spans)) == (
        "**x** is ahead at k = 8; **y** is ahead at k = 1; the interval contains 0 at k = 16 and 32"
    )
    level = intervals({1: (-0.05, 0.01), 8: (-0.02, 0.02)})
    assert ahead(level) == "no significant difference at any k"


_, A_GRAE, _ = papers()
QWEN, R1 = "Qwen2.5-Math-7B", "DeepSeek-R1-7B"
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def test_each_paper_holds_what_it_prints():
    sizes = {
        paper["name"]: sum(len(row.split()) for table in paper["tables"] for row in table["rows"].values())
        for paper in papers()
    }
    assert sizes == {
        "TA-GRPO": 4 * 4 * 8 + 2,
        "A-GRAE": 3 * 9 * (9 + 7 + 5 + 8) + 2 * 7 * 3,
        "CW-GRPO": 2 * 4 * 6 + 6 * 6 + 2 + 4 + 6 * 2,
    }
    assert {paper["name"]: paper["source"] for paper in papers()} == {
        "TA-GRPO": "arXiv:2601.22478 v5",
        "A-GRAE": "arXiv:2602.05548 (text of February 5, 2026)",
        "CW-GRPO": "arXiv:2605.11538 (as of May 13, 2026)",
    }
    assert published.models()[QWEN].ks == published.models()[R1].ks == KS
    names = [{table["model"] for table in paper["tables"]} for paper in papers()]
    assert sum(map(len, names)) == len(set.union(*names))  # a model is in one paper


def test_models_are_known_by_the_end_of_their_name():
    for name, model in (
        ("Qwen3-4B", "Qwen3-4B"),
        ("hosted_vllm/Qwen/Qwen3-4B", "Qwen3-4B"),
        ("meta-llama/llama-3.2-1b", "Llama-3.2-1B"),
        ("Qwen/Qwen2.5-Math-7B-Instruct", "Qwen-2.5-Math-7B-Instruct"),
        ("Qwen/Qwen2.5-Math-7B", QWEN),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", R1),
        ("Qwen/Qwen3-4B-Base", None),
        ("my-run/checkpoint-100", None),
    ):
        assert getattr(published.recognise(name), "name", None) == model


WHOLE = document.Document(
    [
        document.Text("It is **so** & `x<y`."),
        document.Heading("One_1"),
        document.Table(("name", "k|1"), (("a", "1"), ("b", "2"))),
        document.Points(("first", "`a_b`")),
        document.Picture("shares", "What it shows", {}),
        document.Commands(("tagrpo demo --folder 'a b'",)),
    ],
    ("**so** & `x<y`",),
    title="A <title>",
)


@pytest.mark.parametrize(
    ("render", "parts"),
    [
        (
            rendering.render_markdown,
            (
                "# A \\<title\\>\n\nIt is **so** & `x<y`.\n\n## One\\_1\n\n",
                "| name | k\\|1 |\n| --- | ---: |\n| a | 1 |\n| b | 2 |\n\n- first\n- `a_b`\n\n",
                "![What it shows](pictures/shares.svg)\n\n```bash\ntagrpo demo --folder 'a b'\n```\n",
            ),
        ),
        (
            rendering.render_latex,
            (
                "\\begin{table}\n\\centering\n\\begin{tabular}{lr}\n",
                "\\begin{itemize}\n\\footnotesize\n\\item \\textbf{so} \\& \\texttt{x\\textless{}y}\n",
            ),
        ),
    ],
)
def test_documents_as_text_and_tables_and_notes_as_latex(render, parts):
    text = render(WHOLE)
    assert [part for part in parts if part not in text] == []


def test_infinity_is_named_where_json_has_no_number():
    value = {"a": [1 / 3, float("inf")], "b": {"z": -float("inf")}, "c": ("x", None, True)}
    assert rendering.finite(value) == {
        "a": [1 / 3, "Infinity"],
        "b": {"z": "-Infinity"},
        "c": ["x", None, True],
    }
    assert rendering.finite(2.5) == 2.5
