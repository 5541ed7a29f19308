"""Messages of a page's run reach the browser together; a long run is shown as far as it is."""

import asyncio

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from ui.pages.server import whole_runs

START, END = ForwardMsg(), ForwardMsg()
START.new_session.name = "page"
END.session_status_changed.script_is_running = False


def element(name: str) -> ForwardMsg:
    message = ForwardMsg()
    message.delta.new_element.markdown.body = name
    return message


def receive(*steps: ForwardMsg | float) -> list[list[ForwardMsg]]:
    """Return what a browser has received after each message (or wait in seconds) of the app."""
    received: list[ForwardMsg] = []
    seen = []

    async def send(message):
        received.append(ForwardMsg.FromString(message["bytes"]))

    async def app(scope, _receive, send):
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                await send({"type": "websocket.send", "bytes": step.SerializeToString()})
            seen.append(list(received))

    asyncio.run(whole_runs.WholeRuns(app)({"type": "websocket"}, None, send))
    return seen


def test_a_run_is_sent_when_it_has_ended():
    a, b = element("a"), element("b")
    first, *while_running, last = receive(START, a, b, END)
    assert (first, while_running, last) == ([START], [[START]] * 2, [START, a, b, END])
    assert receive(START, END, a)[-1] == [START, END, a]  # between runs nothing waits


def test_a_long_run_is_shown_as_far_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_runs, "HOLD_S", 0.01)
    a, b = element("a"), element("b")
    assert receive(START, a, 0.1, b, 0.1) == [[START], [START], [START, a], [START, a], [START, a, b]]
