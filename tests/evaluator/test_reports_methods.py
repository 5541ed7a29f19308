"""Which runs make a row of a report."""

import pytest
from eval_runs import add_eval_run
from sqlalchemy import update

from evaluator.reports.methods import Method, load_methods, method_choices
from service.database import Database
from service.errors import InputError
from service.runs.tables import RunRow

TWO = [(4, 2, 0), (4, 1, 1)]


def load(db: Database, *references: str) -> list[Method]:
    with db.read() as session:
        return load_methods(session, references)


def test_the_same_seed_is_not_pooled_unasked(db: Database) -> None:
    add_eval_run(db, "a", TWO)
    add_eval_run(db, "b", TWO)
    with pytest.raises(InputError, match="a and b have the same seed"):
        load(db, "a+b")


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
