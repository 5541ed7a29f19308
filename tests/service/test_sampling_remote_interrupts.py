"""Ctrl-C while samples are drawn: awaited where something is in flight, as ever where nothing is."""

import asyncio
import signal
import threading

import pytest

from service.models.stopping import finish_on_interrupt


async def pressing(times: int, interrupt: bool, seen: list[str]) -> str:
    def note() -> bool:
        seen.append("asked")
        return interrupt

    with finish_on_interrupt(note):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
            for _ in range(5):
                await asyncio.sleep(0)
    return "finished"


def test_the_first_press_asks_to_finish() -> None:
    seen: list[str] = []
    assert asyncio.run(pressing(1, True, seen)) == "finished"
    assert seen == ["asked"]


def test_the_second_press_ends_it() -> None:
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(pressing(2, True, seen))
    assert seen == ["asked"]


def test_the_first_press_ends_it_where_nothing_is_in_flight() -> None:
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(pressing(1, False, seen))
    assert seen == ["asked"]


def test_the_handler_from_before_is_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    asyncio.run(pressing(1, True, []))
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_threads_are_left_alone() -> None:
    done: list[str] = []
    thread = threading.Thread(target=lambda: done.append(asyncio.run(pressing(0, True, []))))
    thread.start()
    thread.join(10)
    assert done == ["finished"]
