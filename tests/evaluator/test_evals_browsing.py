"""Looking at eval runs: their numbers, samples page by page, filters, and the search in responses."""

import pytest
from eval_runs import add_eval_run

from evaluator.evals import samples
from evaluator.evals.samples import SampleFilters, browse_samples
from service.database import Database


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with Database.open(tmp_path_factory.mktemp("browsing") / "t.db") as db:
        run = add_eval_run(
            db,
            "base.test",
            [(4, 1, 1), (4, 2, 0), (4, 0, 0)],
            truncated=[0, 1, 2],
            graded=[4, 4, 3],
            sources={"wrong": "last sentence", "unknown": None},
            tokens=lambda position, ordinal: 1000 * position + ordinal,
            texts=lambda place, ordinal, value: f"Response {ordinal} of {value.upper()}",
        )
        add_eval_run(db, "other.test", [(4, 4, 0)] * 3, seed=1)
        yield db, run.id


def browsed(stored, after=None, limit=100, **filters):
    """Return position and ordinal of the samples, and the place to go on from."""
    db, run_id = stored
    with db.read() as session:
        page, behind = browse_samples(session, run_id, SampleFilters(**filters), after=after, limit=limit)
    return [(header.position, header.ordinal) for header in page], behind


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"value": "correct"}, [(0, 0), (1, 0), (1, 1)]),
        ({"value": "unknown"}, [(0, 1)]),
        ({"value": "ungraded"}, [(2, 3)]),
        ({"source": ""}, [(0, 1), (2, 3)]),
        ({"source": "last sentence", "position": 1}, [(1, 2), (1, 3)]),
        ({"truncated": True}, [(1, 3), (2, 2), (2, 3)]),
        ({"tokens": 2002}, [(2, 2), (2, 3)]),
        ({"text": "of correct"}, [(0, 0), (1, 0), (1, 1)]),
        ({"text": "response 3", "value": "wrong"}, [(0, 3), (1, 3)]),
        ({"position": 9}, []),
    ],
)
def test_filters_restrict_the_samples_of_the_run_alone(stored, filters, expected):
    assert browsed(stored, **filters) == (expected, None)


def test_pages_follow_each_other_without_gap_or_repetition(stored):
    everything, _ = browsed(stored)
    assert everything == [(position, ordinal) for position in range(3) for ordinal in range(4)]
    for text in (None, "response"):
        places, after = browsed(stored, limit=5, text=text)
        while after is not None:
            more, after = browsed(stored, after, 5, text=text)
            places += more
        assert places == everything


def test_a_search_ends_where_it_has_read_enough_and_goes_on_from_there(stored, monkeypatch):
    monkeypatch.setattr(samples, "PART", 2)
    monkeypatch.setattr(samples, "TEXTS_READ", 4)
    assert browsed(stored, text="of unknown") == ([(0, 1)], (0, 3))
    assert browsed(stored, (0, 3), text="of unknown") == ([], (1, 3))
