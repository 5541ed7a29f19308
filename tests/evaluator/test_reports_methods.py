"""Which runs make a row of a report."""

import pytest
from eval_runs import add_eval_run, make_problems
from runs import add_run

from evaluator.evals.runs import IMPORTED
from evaluator.reports.methods import Method, differing_settings, load_methods
from evaluator.reports.notes import report_notes
from evaluator.reports.report import build_report
from service.database import Database
from service.errors import InputError, NotFoundError

TWO = [(4, 2, 0), (4, 1, 1)]


def load(db: Database, *references: str, pool_anyway: bool = False) -> list[Method]:
    with db.read() as session:
        return load_methods(session, references, pool_anyway=pool_anyway)


def shape(methods: list[Method]) -> dict[str, dict[str, tuple[str, ...]]]:
    return {m.label: {name: entry.runs for name, entry in m.entries.items()} for m in methods}


def test_a_name_stands_for_all_its_benchmarks(db: Database) -> None:
    for name in ("base.amc12", "base.aime24", "baseline.aime24"):
        add_eval_run(db, name, TWO, benchmark=name.partition(".")[2])
    assert shape(load(db, "base")) == {"base": {"aime24": ("base.aime24",), "amc12": ("base.amc12",)}}
    assert shape(load(db, "Ours=base", "baseline.aime24")) == {
        "Ours": {"aime24": ("base.aime24",), "amc12": ("base.amc12",)},
        "baseline": {"aime24": ("baseline.aime24",)},
    }


def test_runs_of_one_label_fill_one_row(db: Database) -> None:
    add_eval_run(db, "a.amc12", TWO, benchmark="amc12")
    add_eval_run(db, "other", TWO, benchmark="aime24")
    assert shape(load(db, "X=a.amc12", "X=other")) == {"X": {"amc12": ("a.amc12",), "aime24": ("other",)}}


def test_the_label_leaves_out_the_benchmark_even_a_part_of_it(db: Database) -> None:
    add_eval_run(db, "a.amc12", TWO, benchmark="amc12", size=5)
    add_eval_run(db, "a.math-3", TWO, benchmark="math@3")
    parts = {"a": {"amc12[:2]": ("a.amc12",), "math@3": ("a.math-3",)}}
    assert shape(load(db, "a.amc12", "a.math-3")) == parts


def test_a_part_of_a_benchmark_never_stands_in_a_column_with_the_whole(db: Database) -> None:
    add_eval_run(db, "a.amc12", TWO, benchmark="amc12", size=5)
    add_eval_run(db, "b.amc12", TWO, benchmark="amc12")
    assert [list(row) for row in shape(load(db, "a", "b")).values()] == [["amc12[:2]"], ["amc12"]]


def test_a_run_is_found_by_its_id(db: Database) -> None:
    run = add_eval_run(db, "one", TWO)
    assert shape(load(db, run.id)) == shape(load(db, run.id[:12])) == {"one": {"test": ("one",)}}


def test_seeds_are_pooled_by_problem(db: Database) -> None:
    problems = make_problems(2)
    add_eval_run(db, "s0", [(4, 2, 0), (4, 1, 1)], problems=problems, truncated=1, usd=0.25)
    add_eval_run(db, "s1", [(8, 3, 0), (8, 0, 0)], problems=problems, seed=1, tokens=lambda *_: 400, usd=0.5)
    (method,) = load(db, "Both=s0+s1")
    entry = method.entries["test"]
    assert (entry.counts.n.tolist(), entry.counts.correct.tolist()) == ([12, 12], [5, 1])
    assert entry.counts.unknown.tolist() == [0, 1]
    assert (entry.samples, entry.truncated, entry.usd) == (24, pytest.approx(2 / 24), 0.75)
    assert entry.unknown == pytest.approx(1 / 24)
    assert entry.mean_tokens == pytest.approx((8 * 100 + 16 * 400) / 24)


def test_pooling_goes_benchmark_by_benchmark(db: Database) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        for benchmark in ("amc12", "aime24"):
            add_eval_run(db, f"{name}.{benchmark}", TWO, benchmark=benchmark, seed=seed)
    assert shape(load(db, "a+b")) == {
        "a+b": {"aime24": ("a.aime24", "b.aime24"), "amc12": ("a.amc12", "b.amc12")}
    }


def test_other_settings_are_not_pooled_unasked(db: Database) -> None:
    add_eval_run(db, "a", TWO)
    add_eval_run(db, "b", TWO, seed=1, temperature=1.0)
    with pytest.raises(InputError, match=r"sampling.temperature \(0.6 in a, 1.0 in b\)\. Pass --pool-anyway"):
        load(db, "X=a+b")
    assert shape(load(db, "X=a+b", pool_anyway=True)) == {"X": {"test": ("a", "b")}}


def test_the_same_seed_is_not_pooled_unasked(db: Database) -> None:
    add_eval_run(db, "a", TWO)
    add_eval_run(db, "b", TWO)
    with pytest.raises(InputError, match="a and b have the same seed"):
        load(db, "a+b")


def test_different_problems_are_never_pooled(db: Database) -> None:
    add_eval_run(db, "a", TWO)
    add_eval_run(db, "b", TWO, problems=make_problems(2, "else"), seed=1)
    with pytest.raises(InputError, match="contain different problems"):
        load(db, "a+b", pool_anyway=True)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("=a", "contains no runs"),
        ("X=", "contains no runs"),
        ("a++b", "contains no runs"),
        ("a+a", "contains a run twice"),
    ],
)
def test_references_that_cannot_be_read(db: Database, reference: str, message: str) -> None:
    add_eval_run(db, "a", TWO)
    with pytest.raises(InputError, match=message):
        load(db, reference)


def test_two_runs_of_one_benchmark_need_labels(db: Database) -> None:
    add_eval_run(db, "a.one", TWO)
    add_eval_run(db, "a.two", TWO)
    with pytest.raises(
        InputError, match=r"a selects several runs of test: a.one, a.two. Give each its own label"
    ):
        load(db, "a")
    with pytest.raises(InputError, match="X selects several runs of test"):
        load(db, "X=a.one", "X=a.two")
    assert len(load(db, "X=a.one", "Y=a.two")) == 2


def test_only_eval_runs_are_found(db: Database) -> None:
    add_run(db, "rules", [("1+1=?", "2", [])])
    add_eval_run(db, "a", TWO)
    with pytest.raises(NotFoundError, match=r"no eval run 'rules'.*only: a\."):
        load(db, "rules")
    with pytest.raises(InputError, match="give at least one run"):
        load(db)


def test_settings_that_differ_are_named_with_their_values(db: Database) -> None:
    add_eval_run(db, "a", TWO, form="raw")
    add_eval_run(db, "b", TWO, max_tokens=100, model="other")
    specs = {m.label: m.entries["test"].spec for m in load(db, "a", "b")}
    assert differing_settings(specs, among=("prompt.", "sampling.")) == [
        "prompt.form ('raw' in a, 'chat' in b)",
        "sampling.max_tokens (3072 in a, 100 in b)",
    ]


def test_nothing_can_be_drawn_to_an_imported_run(db: Database) -> None:
    add_eval_run(db, "a.one", [(1, 1, 0)], benchmark="one", engine={"sampler": IMPORTED})
    with db.read() as session:
        report = build_report(load_methods(session, ["a"]))
    assert report_notes(report)[0] == "k = 1, not 32: a has only 1 graded sample for some problem of one."
