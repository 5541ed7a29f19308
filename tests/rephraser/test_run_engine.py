"""A run that two processes work on: what the other one brings last is followed up before this one ends."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hand_filled import GOOD, World, make_spec, proposals

from rephraser.run.engine import Engine, fill_together
from rephraser.run.waves import Waves
from rephraser.views.runs import summarize
from service.runs.filling import Filled


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
