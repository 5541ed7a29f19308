"""Where runs stand and how fast they go."""

from datetime import UTC, datetime

import pytest

from service.database import Database
from service.errors import NotFoundError
from service.questions import make_question
from service.questions.browsing import LabelCount, count_labels
from service.questions.store import Member, store_set
from service.runs import progress
from service.runs.cells import CellPlan, Receipt, add_cells, claim_cells, fail_cell, fill_cell
from service.runs.progress import Minute
from service.runs.store import Run, finish_run, open_run

NOW = datetime(2026, 1, 31, 12, 10, 30, tzinfo=UTC)


def start(db: Database, name: str, kind: str = "propose", created_at: str | None = None) -> Run:
    with db.write() as session:
        run, _ = open_run(session, name=name, kind=kind, spec={}, question_ids=(), versions={})
        add_cells(session, run.id, [CellPlan(run.id, "propose", f"q{n}", 0, 0, 0) for n in range(5)])
    return run


def test_progress_tells_filled_open_and_failed_with_their_cost(db: Database) -> None:
    run = start(db, "r")
    with db.write() as session:
        first, second, third = claim_cells(session, run.id, run.id, owner="w", limit=3)
        fill_cell(session, first.id, "{}", Receipt("m", 10, 20, 0.25, 1, 1.0))
        fill_cell(session, second.id, "{}", Receipt("m", 10, 30, None, 2, 1.0))
        fail_cell(session, third.id, "429 too many", attempts=6, cost_usd=None)
    with db.read() as session:
        (found,) = progress.page_runs(session)
        assert (found.filled, found.open, found.failed, found.planned) == (2, 2, 1, 5)
        assert found.by_kind == {"propose": (2, 2, 1, 0)}
        assert (found.requests, found.prompt_tokens, found.completion_tokens) == (9, 20, 50)
        assert (found.usd, found.unpriced, found.state) == (0.25, 2, "open")
        assert progress.spent_in_all(session) == (0.25, 2)
        assert progress.frequent_errors(session, run.id) == [progress.ErrorCount("429 too many", 1)]
        (minute,) = progress.last_minutes(session, run.id)
        assert (minute.filled, minute.failed, minute.completion_tokens, minute.usd) == (2, 1, 50, 0.25)


def test_a_run_whose_requests_all_failed_for_good_has_failed(db: Database) -> None:
    run = start(db, "r")
    with db.write() as session:
        for cell in claim_cells(session, run.id, run.id, owner="w", limit=5):
            fail_cell(session, cell.id, "too long", attempts=1, cost_usd=None, final=True)
    with db.read() as session:
        (stands,) = progress.page_runs(session)
    assert (stands.final, stands.state) == (5, "failed")


def test_a_run_without_cells_has_no_progress_and_no_pace(db: Database) -> None:
    with db.write() as session:
        run, _ = open_run(session, name="t", kind="train", spec={}, question_ids=(), versions={})
        finish_run(session, run.id, finished=True)
    with db.read() as session:
        (found,) = progress.page_runs(session, kind="train")
        assert (found.planned, found.usd, found.unpriced, found.state) == (0, 0.0, 0, "finished")
        assert progress.last_minutes(session, run.id) == []
        assert progress.page_runs(session, kind="eval") == []
        assert progress.count_runs(session) == {"train": 1}
    assert progress.pace([], 5, NOW) is None


def test_runs_are_paged_by_key_newest_first(db: Database) -> None:
    names = [start(db, f"r{n}").id for n in range(5)]
    with db.read() as session:
        seen: list[str] = []
        while page := progress.page_runs(session, after=seen[-1] if seen else None, limit=2):
            seen += [one.run.id for one in page]
        assert sorted(seen) == sorted(names)
        assert len(seen) == len(set(seen))
        with pytest.raises(NotFoundError, match="no run 'run_x'"):
            progress.page_runs(session, after="run_x")


def test_pace_is_of_the_whole_minutes_before_now() -> None:
    minutes = [
        Minute("2026-01-31T12:00", 1000, 0, 1000, 1.0),  # too long ago
        Minute("2026-01-31T12:06", 10, 1, 600, 0.5),
        Minute("2026-01-31T12:09", 20, 0, 600, 0.5),
        Minute("2026-01-31T12:10", 99, 0, 9999, 9.0),  # not over
    ]
    found = progress.pace(minutes, 60, NOW)
    assert found is not None
    assert found.filled_per_minute == 6.0
    assert found.tokens_per_second == 4.0
    assert found.usd_per_minute == pytest.approx(0.2)
    assert found.minutes_left == 10.0


def test_pace_of_a_young_run_counts_the_minutes_it_has_had() -> None:
    found = progress.pace([Minute("2026-01-31T12:08", 30, 0, 0, 0.0)], 30, NOW)
    assert found is not None
    assert found.filled_per_minute == 15.0  # 12:08 and 12:09
    first = progress.pace([Minute("2026-01-31T12:10", 30, 0, 0, 0.0)], 30, NOW)
    assert first is not None
    assert first.filled_per_minute == 60.0  # 30 in half a minute
    assert progress.pace([Minute("2026-01-31T12:09", 0, 3, 0, 0.0)], 30, NOW) is None


def test_labels_are_counted(db: Database) -> None:
    labels = [("Algebra", "Level 1"), ("Algebra", "Level 1"), (None, "Level 1"), ("Algebra", None)]
    members = [
        Member(place, make_question(f"{place}?", "1", level, subject))
        for place, (subject, level) in enumerate(labels)
    ]
    with db.write() as session:
        store_set(session, "s", members, {"content_hash": ""})
    with db.read() as session:
        assert count_labels(session) == [
            LabelCount(None, "Level 1", 1),
            LabelCount("Algebra", None, 1),
            LabelCount("Algebra", "Level 1", 2),
        ]
