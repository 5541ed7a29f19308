"""Which runs make a row of a report."""

import pytest
from eval_runs import add_eval_run, make_problems
from sqlalchemy import update

from evaluator.passk.estimators import pass_at_k
from evaluator.reports.contrast import contrast_runs, contrast_texts
from evaluator.reports.methods import Method, load_methods, method_choices
from service.database import Database
from service.errors import InputError
from service.runs.tables import RunRow

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


def test_seeds_are_pooled_by_problem(db: Database) -> None:
    problems = make_problems(2)
    add_eval_run(db, "s0", [(4, 2, 0), (4, 1, 1)], problems=problems, truncated=1, usd=0.25)
    add_eval_run(db, "s1", [(8, 3, 0), (8, 0, 0)], problems=problems, seed=1, tokens=lambda *_: 400, usd=0.5)
    (method,) = load(db, "Both=s0+s1")
    entry = method.entries["test"]
    assert (entry.counts.n.tolist(), entry.counts.correct.tolist()) == ([12, 12], [5, 1])
    assert entry.counts.unknown.tolist() == [0, 1]
    assert (entry.samples, entry.truncated, entry.usd) == (24, 2, 0.75)
    assert entry.unknown == 1
    assert entry.mean_tokens == pytest.approx((8 * 100 + 16 * 400) / 24)


def test_the_same_seed_is_not_pooled_unasked(db: Database) -> None:
    add_eval_run(db, "a", TWO)
    add_eval_run(db, "b", TWO)
    with pytest.raises(InputError, match="a and b have the same seed"):
        load(db, "a+b")


def test_problems_stand_by_the_size_of_their_difference(db: Database) -> None:
    problems = make_problems(5)
    first = add_eval_run(db, "a", [(8, 0, 0), (8, 8, 0), (8, 4, 0), (8, 8, 0)], problems=problems[:4])
    counts = [(8, 8, 0), (8, 0, 1), (8, 6, 0), (2, 2, 0), (8, 8, 0)]
    second = add_eval_run(db, "b", counts, problems=problems)
    with db.read() as session:
        found = contrast_runs(session, first.id, second.id, 4)
        assert (found.only_first, found.only_second, found.too_few) == (0, 1, 1)
        ids = [one.problem_id for one in found.problems]
        assert ids == [problems[0].id, problems[1].id, problems[2].id]
        assert [one.difference for one in found.problems[:2]] == [1.0, -1.0]
        assert found.problems[2].first == pytest.approx(pass_at_k(8, 4, 4))
        assert found.numbers() == {"first only": 1, "second only": 1, "both": 1, "neither": 0}
        (only,) = found.page("second only")
        texts = contrast_texts(session, [only])
        assert [texts[one.run_problem_id].text for one in only.counts] == [problems[0].text] * 2
        assert [one.problem_id for one in found.page(after=ids[0], limit=1)] == [ids[1]]
        assert found.page("both", after=ids[2]) == []
        with pytest.raises(InputError, match="not in this list"):
            found.page("both", after=ids[0])
        with pytest.raises(InputError, match="k is 0"):
            contrast_runs(session, first.id, second.id, 0)


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
        ("a+a", "contains a run twice"),
    ],
)
def test_references_that_cannot_be_read(db: Database, reference: str, message: str) -> None:
    add_eval_run(db, "a", TWO)
    with pytest.raises(InputError, match=message):
        load(db, reference)
