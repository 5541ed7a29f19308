"""Signals while samples are drawn: what is in flight is awaited; where nothing is, they act as ever."""

import asyncio
import signal

import pytest

from service.models.stopping import exit_on_sigterm, finish_on_signals

BOTH = pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)


async def signalled(number: int, times: int, interrupt: bool, seen: list[str]) -> str:
    def note() -> bool:
        seen.append("asked")
        return interrupt

    with finish_on_signals(note, grace_s=25.0):
        for _ in range(times):
            signal.raise_signal(number)
            for _ in range(5):
                await asyncio.sleep(0)
    return "finished"


@BOTH
@pytest.mark.parametrize("in_flight", [True, False])
def test_the_second_signal_ends_it_and_the_first_where_nothing_is_in_flight(
    number: int, ending: type[BaseException], in_flight: bool
) -> None:
    seen: list[str] = []
    before = signal.getsignal(number)
    with exit_on_sigterm(), pytest.raises(ending):
        asyncio.run(signalled(number, 1 + in_flight, in_flight, seen))
    assert seen == ["asked"]
    assert signal.getsignal(number) is before
