"""A run that two processes work on: what the other one brings last is followed up before this one ends."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hand_filled import GOOD, OTHER, QUESTION, World, make_spec, proposals
from sqlalchemy import event, select

from rephraser.run.engine import Engine, fill_together
from rephraser.run.read import collect_proposals
from rephraser.run.waves import Waves
from rephraser.tables import CandidateRow
from rephraser.views.runs import summarize
from service.models.remote import ChatResponse, Choice, Endpoint, RemoteClient
from service.runs.filling import CellsToAsk, Filled


def test_what_another_process_brings_while_this_one_reads_is_followed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, make_spec(n=2, rounds=1))
    world.plan()
    held = world.claim()  # by a process of another machine
    assert len(held) == 1

    async def others_fill(self: Engine, client: Any, scope: str, *_: Any) -> Filled:
        """Nothing is left to ask: the other process brings, and reads, what it holds."""
        if scope == world.run.id:
            while held:
                world.fill(held.pop(), proposals(GOOD))
        else:
            world.solve({"x": "12"})
        return Filled()

    monkeypatch.setattr(Engine, "_fill_scope", others_fill)
    engine = Engine(
        db=world.db,
        run=world.run,
        spec=world.spec,
        report=lambda *_: None,
        open_client=lambda _: nullcontext(None),  # type: ignore[arg-type, return-value]
        waves=Waves(world.db, world.run),
        grader_workers=1,
    )
    asyncio.run(engine.drive())
    judged = {(text, status) for text, status, final in world.statuses() if final}
    assert judged == {(text, "accepted") for text in GOOD}
    with world.db.read() as session:
        assert summarize(session, world.run).open_requests == 0


def test_a_signal_ends_local_work_behind_the_next_few_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, make_spec(n=2, rounds=1))
    ended = threading.Event()
    checked: list[int] = []

    async def main() -> None:
        engine = Engine(
            db=world.db,
            run=world.run,
            spec=world.spec,
            report=lambda *_: None,
            open_client=lambda _: nullcontext(None),  # type: ignore[arg-type, return-value]
            waves=Waves(world.db, world.run),
            grader_workers=1,
        )
        loop, driving = asyncio.get_running_loop(), asyncio.create_task(engine.drive())

        def check_many(*_: Any, report: Callable[[int, int], None], **__: Any) -> None:
            for batch in range(1, 100):
                checked.append(batch)
                report(batch, 100)
                loop.call_soon_threadsafe(driving.cancel)
                ended.wait()

        monkeypatch.setattr("rephraser.run.engine.check_structure", check_many)
        with contextlib.suppress(asyncio.CancelledError):
            await driving
        ended.set()

    asyncio.run(main())  # returns once the thread has ended
    assert checked == [1, 2]


def test_reading_is_reported_and_answers_are_counted_over_all_passes(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=2, rounds=1))
    world.plan()
    world.fill(world.claim()[0], proposals(GOOD))
    reports: list[tuple[str, int, str]] = []
    engine = Engine(
        db=world.db,
        run=world.run,
        spec=world.spec,
        report=lambda stage, done, _, detail="": reports.append((stage, done, detail)),
        open_client=lambda _: nullcontext(None),  # type: ignore[arg-type, return-value]
        waves=Waves(world.db, world.run),
    )
    engine._read()
    assert reports == [("reading answers", 1, "")]
    paid = ChatResponse((Choice("x", "stop"),), 1, 1, 0.5, "m", "{}", 1, 0.1)

    async def answered(cells: CellsToAsk, *_: Any) -> Filled:
        assert cells.on_answer is not None
        cells.on_answer(paid)
        return Filled(answered=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rephraser.run.engine.fill_cells", answered)
        client = RemoteClient(Endpoint("hosted_vllm/m", "http://localhost:1/v1"))
        filler = ("m", world.run.id, lambda _: [])
        for _ in range(2):
            asyncio.run(engine._fill([filler], {"m": client}))
    assert reports[1:] == [("asking models", 1, "$0.50"), ("asking models", 2, "$1.00")]


def test_candidates_of_many_questions_are_stored_in_as_many_statements_as_those_of_one(
    tmp_path: Path,
) -> None:
    counts = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        world = World(tmp_path / str(number), make_spec(solvers=()), (QUESTION, OTHER)[:number])
        world.plan()
        for cell in world.claim():
            texts = ("Say it.", " Say  it. ", "Say it again.") if cell.subject_id == QUESTION.id else GOOD
            world.fill(cell, proposals(texts))
        statements: list[Any] = []
        engine = world.db.connections.engine
        event.listen(engine, "before_cursor_execute", lambda *call, seen=statements: seen.append(call[2]))
        with world.db.write() as session:
            assert collect_proposals(session, world.run.id, world.spec) == number
        counts.append(len(statements))
        with world.db.read() as session:
            stored = session.scalars(select(CandidateRow.text).order_by(CandidateRow.text)).all()
        assert stored == sorted(["Say it.", "Say it again.", *(GOOD if number == 2 else ())])
    assert counts[0] == counts[1]


def test_an_error_of_one_filler_lets_what_the_others_have_in_flight_come_home() -> None:
    stored: list[str] = []

    async def main() -> None:
        stopped, begun = asyncio.Event(), asyncio.Event()

        async def paid() -> Filled:
            begun.set()
            await stopped.wait()
            await asyncio.sleep(0)  # the answer is on its way
            stored.append("answer")
            return Filled(answered=1)

        async def full_disk() -> Filled:
            await begun.wait()
            raise OSError("disk full")

        await fill_together([paid(), full_disk()], stopped.set)

    with pytest.raises(OSError, match="disk full"):
        asyncio.run(main())
    assert stored == ["answer"]
