"""What a run says when nothing comes back."""

import asyncio
import logging

import pytest

from service.runs.watchdog import Watchdog


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_it_speaks_after_the_stated_time_and_names_endpoint_requests_and_worker() -> None:
    clock = Clock()
    dog = Watchdog("m at http://h:8000/v1", "process 7 on node1", 300.0, clock)
    clock.seconds += 5000
    assert dog.complaint() is None  # nothing is asked
    dog.sent("41")
    clock.seconds += 100
    dog.sent("42")
    clock.seconds += 199
    assert dog.complaint() is None
    clock.seconds += 1
    assert dog.complaint() == (
        "nothing came back from m at http://h:8000/v1 for 300 s: 2 requests wait, the oldest (cell 41) for "
        "300 s, sent by process 7 on node1. Ctrl-C ends the run once these have come, a second one at once"
    )
    assert dog.complaint() is None  # not at every look
    clock.seconds += 300
    assert "2 requests wait, the oldest (cell 41) for 600 s" in str(dog.complaint())


def test_every_answer_begins_the_time_anew() -> None:
    clock = Clock()
    dog = Watchdog("m", "process 7 on node1", 300.0, clock)
    dog.sent("1")
    dog.sent("2")
    clock.seconds += 299
    dog.came("1")
    clock.seconds += 299
    assert dog.complaint() is None
    clock.seconds += 1
    assert "1 request waits, the oldest (cell 2) for 599 s" in str(dog.complaint())
    dog.came("2")
    clock.seconds += 5000
    assert dog.complaint() is None


def test_it_warns_while_it_watches(caplog: pytest.LogCaptureFixture) -> None:
    async def stall() -> None:
        dog = Watchdog("m", "process 7 on node1", 0.01)
        dog.sent("1")
        watching = asyncio.create_task(dog.watch())
        while not caplog.records:
            await asyncio.sleep(0)
        watching.cancel()

    with caplog.at_level(logging.WARNING, "tagrpo"):
        asyncio.run(asyncio.wait_for(stall(), 10))
    assert "nothing came back from m" in caplog.text
