"""Signals while samples are drawn: what is in flight is awaited; where nothing is, they act as ever."""

import asyncio
import signal
import threading

import pytest

from service.models.stopping import deliver_signal, exit_on_sigterm, finish_on_signals

BOTH = pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)


async def signalled(number: int, times: int, interrupt: bool, seen: list[str]) -> str:
    def note() -> bool:
        seen.append("asked")
        return interrupt

    with finish_on_signals(note):
        for _ in range(times):
            signal.raise_signal(number)
            for _ in range(5):
                await asyncio.sleep(0)
    return "finished"


@BOTH
def test_the_first_signal_asks_to_finish(number: int, ending: type[BaseException]) -> None:
    seen: list[str] = []
    with exit_on_sigterm():
        assert asyncio.run(signalled(number, 1, True, seen)) == "finished"
        assert seen == ["asked"]
        with pytest.raises(ending):
            deliver_signal()


@BOTH
def test_the_second_signal_ends_it(number: int, ending: type[BaseException]) -> None:
    seen: list[str] = []
    with exit_on_sigterm(), pytest.raises(ending):
        asyncio.run(signalled(number, 2, True, seen))
    assert seen == ["asked"]


@BOTH
def test_the_first_signal_ends_it_where_nothing_is_in_flight(
    number: int, ending: type[BaseException]
) -> None:
    seen: list[str] = []
    with exit_on_sigterm(), pytest.raises(ending):
        asyncio.run(signalled(number, 1, False, seen))
    assert seen == ["asked"]


def test_sigterm_waits_for_its_grace_time_only() -> None:
    async def wait_for_ever() -> None:
        with finish_on_signals(lambda: True, grace_s=0.01):
            signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()

    with exit_on_sigterm(), pytest.raises(SystemExit) as leaving:
        asyncio.run(wait_for_ever())
    assert leaving.value.code == 143


def test_the_handlers_from_before_are_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with exit_on_sigterm():
        asyncio.run(signalled(signal.SIGTERM, 1, True, []))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_threads_are_left_alone() -> None:
    done: list[str] = []
    thread = threading.Thread(target=lambda: done.append(asyncio.run(signalled(signal.SIGINT, 0, True, []))))
    thread.start()
    thread.join(10)
    assert done == ["finished"]
