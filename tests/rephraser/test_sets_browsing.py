"""Neighbor sets in pages: changes counted and paged, rates, wordings."""

from pathlib import Path

import pytest
from plans import walked
from runs import Proposed, add_review, add_run, open_empty

from rephraser import sets
from rephraser.reviews.status import current_statuses
from rephraser.sets import browsing
from rephraser.sets.counts import accept_rates, count_proposals
from service.database import Database
from service.questions import make_question


@pytest.fixture
def db(tmp_path: Path) -> Database:
    """Versions 1 to 3: one neighbor a question, two of them, and two with a review in between."""
    database = open_empty(tmp_path / "t.db")
    asked = [
        (
            f"How many apples are {n} and one?",
            str(n + 1),
            [
                Proposed(f"Add one to {n} apples."),
                Proposed(f"{n} and one apples are how many?", strategy="format", model="other/model"),
            ],
        )
        for n in range(6)
    ]
    add_run(database, "r", asked)
    sets.publish(database, "ta", run="r", n=1)
    sets.publish(database, "ta", run="r", n=2)
    question = make_question("How many apples are 2 and one?", "3", "Level 3", "Algebra")
    add_review(database, question, "Add one to 2 apples.", "rejected")
    add_review(database, question, "2 and one apples are how many?", "accepted")
    sets.publish(database, "ta", run="r", n=2)
    return database


def set_ids(db: Database) -> list[str]:
    with db.read() as session:
        return [header.id for header in sets.list_sets(session)]


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 0), (1, 2), (0, 2), (2, 0), (1, 1)])
def test_counts_and_pages_are_those_of_the_whole_comparison(db: Database, a: int, b: int) -> None:
    ids = set_ids(db)
    with db.read() as session:
        whole = sets.diff(session, ids[a], ids[b])
        found = browsing.count_changes(session, ids[a], ids[b])
        assert found == browsing.ChangeCounts(
            len(whole.questions_added),
            len(whole.questions_removed),
            len(whole.added),
            len(whole.removed),
            len(whole.changed),
        )
        expected = {
            "added": {place.neighbor.candidate_id for place in whole.added},
            "removed": {place.neighbor.candidate_id for place in whole.removed},
            "changed": {change.after.candidate_id for change in whole.changed},
        }
        for kind in ("added", "removed", "changed"):
            seen: list[browsing.ChangedMember] = []
            while page := browsing.page_changes(
                session,
                ids[a],
                ids[b],
                kind,
                after=(seen[-1].question_id, seen[-1].position) if seen else None,
                limit=2,
            ):
                seen += page
            assert len(seen) == len(expected[kind])
            assert {one.candidate_id for one in seen} == expected[kind]
            assert all((one.before is None) == (kind != "changed") for one in seen)


def test_rates_are_by_strategy_or_model(db: Database) -> None:
    with db.read() as session:
        header = sets.list_sets(session)[-1]
        run_id = str(header.runs[0]["id"])
        by_strategy = browsing.set_rates(header)
        assert by_strategy == accept_rates(count_proposals(current_statuses(session, run_id)))
        assert browsing.run_rates(session, run_id) == by_strategy
        models = {rate.strategy: rate for rate in browsing.run_rates(session, run_id, "model")}
        assert (models["test/proposer"].accepted, models["test/proposer"].judged) == (5, 6)
        assert models["other/model"].rate == 1.0
        assert browsing.set_rates(header, "model") == list(models.values())


def test_wordings_are_measured_on_a_sample_of_questions(db: Database) -> None:
    with db.read() as session:
        whole = browsing.wordings(session, set_ids(db)[1])
        assert (whole.questions, whole.neighbors) == (6, 12)
        assert whole.among_siblings is not None
        assert whole.among_siblings.count == 6
        # "add one to 0 apples", "how many apples are 0 and one": one word of 5 and 7 in the same order
        length, distance = whole.by_strategy["perspectives"]
        assert distance.median == pytest.approx(1 - 2 / 12, abs=1e-4)
        assert length.median == pytest.approx(
            len("Add one to 0 apples.") / len("How many apples are 0 and one?")
        )
        some = browsing.wordings(session, set_ids(db)[1], questions=2, seed=5)
        assert (some.questions, some.neighbors) == (2, 4)
        assert some == browsing.wordings(session, set_ids(db)[1], questions=2, seed=5)
        none = browsing.wordings(session, "set_none")
        assert (none.questions, none.length, none.by_strategy) == (0, None, {})


def test_no_large_table_is_walked(db: Database) -> None:
    first, second, third = set_ids(db)
    for ask in (
        lambda s: browsing.count_changes(s, first, second),
        lambda s: browsing.page_changes(s, first, second, "added", after=("q_1", 1)),
        lambda s: browsing.page_changes(s, first, second, "removed"),
        lambda s: browsing.page_changes(s, second, third, "changed"),
        lambda s: browsing.run_rates(s, "r"),
        lambda s: browsing.wordings(s, first),
        lambda s: sets.load_entries(s, first, first=2, limit=2),
    ):
        assert walked(db, ask) == set()
