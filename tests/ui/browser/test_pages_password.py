"""The password in a real browser: nothing before it, everything after it, for pages and sockets alike."""

import pytest
from page_view import FetchCounter, locked_ui, served

from service.database import Database

SECRET = "correct horse"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("password") / "t.db"
    Database.open(path).close()
    with served(locked_ui(path, "--host", "0.0.0.0"), TAGRPO_UI_PASSWORD=SECRET) as address:
        yield address


def socket_opens(tab, url: str) -> bool:
    return tab.evaluate(
        """url => new Promise(done => {
            const socket = new WebSocket(url, ['streamlit']);
            socket.onopen = () => { socket.close(); done(true) };
            socket.onerror = () => done(false);
        })""",
        url.replace("http", "ws") + "/_stcore/stream",
    )


def test_the_password_is_asked_for_and_opens_the_page_that_was_meant(url, view_of):
    view = view_of(url)
    view.tab.goto(url + "/sets?q=a%26b")
    assert view.tab.title() == "tagrpo: sign in"
    assert socket_opens(view.tab, url) is False
    view.tab.fill("#password", "wrong password")
    view.tab.click("button")
    assert view.tab.locator("[role=alert]").inner_text() == "The password is wrong."
    view.tab.fill("#password", SECRET)
    view.problems.clear()  # the refused socket and the wrong password were said to the console
    view.tab.click("button")
    view.settle()
    assert view.tab.locator("h1").inner_text() == "Sets"
    assert view.tab.url == url + "/sets?q=a%26b"
    assert socket_opens(view.tab, url) is True
    assert view.tab.evaluate("document.cookie").find("tagrpo_ui") == -1
    view.check()


def test_who_has_signed_in_follows_links_opens_no_socket_from_elsewhere_and_signs_out(url, view_of):
    view = view_of(url)
    view.tab.goto(url)
    view.tab.fill("#password", SECRET)
    view.tab.click("button")
    view.settle()
    message = f"<a href='{url}/sets?q=a%26b'>look at this</a>"
    view.tab.route(
        "http://chat.example/*", lambda route: route.fulfill(body=message, content_type="text/html")
    )
    view.tab.goto("http://chat.example/thread")
    view.tab.click("text=look at this")
    view.settle()
    assert view.tab.locator("h1").inner_text() == "Sets"
    assert view.tab.url == url + "/sets?q=a%26b"
    with FetchCounter() as elsewhere:
        view.tab.goto(elsewhere.url)
        assert socket_opens(view.tab, url) is False
    view.tab.goto(url + "/sets")
    view.settle()
    view.tab.click("text=Sign out")
    view.tab.click("form[action='/logout'] button")
    view.tab.wait_for_selector("#password")
    view.tab.goto(url + "/sets")
    assert view.tab.title() == "tagrpo: sign in"


def test_the_printed_address_opens_the_pages_and_leaves_its_token_behind(view_of, tmp_path):
    Database.open(tmp_path / "t.db").close()
    with served(locked_ui(tmp_path / "t.db")) as printed:
        address = printed.split("/?token=")[0]
        view = view_of(address)
        view.tab.goto(printed)
        view.settle()
        assert view.tab.locator("h1").inner_text() == "Overview"
        assert view.tab.url.rstrip("/") == address
        view.tab.goto(address + "/sets")
        view.settle()
        assert view.tab.locator("h1").inner_text() == "Sets"
        view.check()
