"""A time limit for a call that may never return."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


def call_within(limit_s: float, call: Callable[[], _Result], failure: str) -> _Result:
    """Return what `call` returns.

    It runs in a thread that is left behind where it does not end, so that the process has to end soon after.
    """
    outcome: Future[_Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True, name="within a limit").start()
    try:
        return outcome.result(limit_s)
    except TimeoutError:
        if outcome.done():
            raise  # of the call itself
        raise TimeoutError(failure) from None
