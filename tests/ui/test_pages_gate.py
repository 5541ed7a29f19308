"""The gate before the pages: names, origins, the password, headers; for HTTP and WebSocket alike."""

import asyncio

import pytest

from ui.pages.server.gate import LOGIN, MAX_BODY, Gate, security_headers, server_names
from ui.pages.server.signing_in import SESSION_S, TRIES, WINDOW_S, Lock, login_page

SECRET = "correct horse"
HTML = {"accept": "text/html"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def behind(scope, receive, send):
    """Stand for Streamlit: answer everything, accept every socket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
    else:
        headers = [(b"x-frame-options", b"ALLOW")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"inside"})


def gate(password=None, clock=None, app=behind, by_address=False):
    names, headers = server_names("127.0.0.1"), security_headers(("x = 1",))
    lock = password and Lock(password, by_address)
    return Gate(app, names=names, headers=headers, lock=lock, clock=clock or Clock())


def ask(gate, path="/", method="GET", *, body=b"", kind="http", client="10.0.0.1", query="", **headers):
    """Return status (or the socket's message), headers by name, and body."""
    sent = []
    headers = {"host": "localhost:8501", **headers}
    scope = {
        "type": kind,
        "path": path,
        "method": method,
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), text.encode("latin-1")) for name, text in headers.items()
        ],
        "client": (client, 1),
        "scheme": "http",
    }

    async def receive():
        connect, request = {"type": "websocket.connect"}, {"type": "http.request", "body": body}
        return connect if kind == "websocket" else request

    async def send(message):
        sent.append(message)

    asyncio.run(gate(scope, receive, send))
    if kind == "websocket":
        return sent[0]["type"]
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


def sign_in(gate, password=SECRET, **headers):
    form = f"password={password.replace(' ', '+')}&next=/sets"
    return ask(gate, LOGIN, "POST", body=form.encode(), **headers)


def cookie_of(headers):
    return headers["set-cookie"].split(";")[0]


def test_without_a_password_everything_of_this_server_is_answered():
    status, headers, body = ask(gate())
    assert (status, body) == (200, b"inside")
    assert headers["x-frame-options"] == "DENY"
    assert ask(gate(), kind="websocket", origin="http://localhost:8501") == "websocket.accept"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "", "user@localhost", "localhost:x", "localhost/a", "[::1"],
)
def test_other_names_are_refused(host):
    status, headers, body = ask(gate(), host=host)
    assert (status, body.startswith(b"The server does not accept this host name")) == (403, True)
    assert "content-security-policy" in headers
    assert ask(gate(), kind="websocket", host=host) == "websocket.close"


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:9999", "null", "file://"])
def test_pages_of_elsewhere_open_no_socket_and_write_nothing(origin):
    assert ask(gate(), kind="websocket", origin=origin) == "websocket.close"
    assert ask(gate(), "/upload", "PUT", origin=origin)[0] == 403
    assert sign_in(gate(SECRET), origin=origin)[0] == 403
    assert ask(gate(), origin=origin)[0] == 200  # reading is what CORS is for: no header lets them see it


def test_with_a_password_nothing_is_answered_before_it_was_sent():
    guarded = gate(SECRET)
    status, headers, _ = ask(guarded, "/questions", query="q=a&x=%2F", **HTML)
    assert (status, headers["location"]) == (303, "/login?next=%2Fquestions%3Fq%3Da%26x%3D%252F")
    for path in ("/static/js/index.js", "/_stcore/health", "/media/x.csv", "/_stcore/agent/openapi.json"):
        assert ask(guarded, path)[0] == 401
    assert ask(guarded, kind="websocket", origin="http://localhost:8501") == "websocket.close"
    assert ask(guarded, kind="websocket") == "websocket.close"


def test_the_password_opens_everything():
    guarded = gate(SECRET)
    status, headers, _ = sign_in(guarded)
    assert (status, headers["location"]) == (303, "/sets")
    assert headers["set-cookie"].endswith(f"; HttpOnly; Max-Age={SESSION_S}; Path=/; SameSite=lax")
    cookie = cookie_of(headers)
    assert ask(guarded, cookie=cookie)[2] == b"inside"
    assert ask(guarded, cookie=f"a=b; {cookie}")[2] == b"inside"
    assert ask(guarded, kind="websocket", cookie=cookie) == "websocket.accept"
    assert ask(guarded, kind="websocket", cookie=cookie, origin="http://evil.example") == "websocket.close"
    assert ask(guarded, cookie=cookie + "x")[0] == 401
    assert SECRET not in str(headers)


def test_a_token_in_the_address_signs_in_and_is_left_behind():
    guarded = gate(SECRET, by_address=True)
    token = SECRET.replace(" ", "+")
    status, headers, _ = ask(guarded, "/sets", query=f"q=a%26b&token={token}", **HTML)
    assert (status, headers["location"]) == (303, "/sets?q=a%26b")
    cookie = cookie_of(headers)
    assert ask(guarded, kind="websocket", cookie=cookie) == "websocket.accept"
    status, headers, _ = ask(guarded, query=f"token={token}", cookie=cookie)
    assert (status, headers["location"]) == (303, "/")
    assert "set-cookie" not in headers
    assert ask(guarded, query="token=wrong")[0] == 401
    assert ask(guarded, kind="websocket", query=f"token={token}") == "websocket.close"
    assert sign_in(guarded)[0] == 303  # the form takes it too
    assert ask(gate(SECRET), query=f"token={token}")[0] == 401  # a password never counts in the address
    for _ in range(2 * TRIES):  # wrong tokens lock out nobody who has the right one
        assert sign_in(guarded, "wrong")[0] == 401
    assert sign_in(guarded)[0] == 303


def test_signing_out_and_time_end_a_session():
    clock = Clock()
    guarded = gate(SECRET, clock)
    first, second = (cookie_of(sign_in(guarded)[1]) for _ in range(2))
    # a link to the page that signs out signs nobody out
    assert b'method="post" action="/logout"' in ask(guarded, "/logout", cookie=first)[2]
    assert ask(guarded, cookie=first)[0] == 200
    assert ask(guarded, "/logout", "POST", cookie=first)[0] == 303
    assert ask(guarded, cookie=first)[0] == 401
    assert ask(guarded, cookie=second)[0] == 200
    clock.now += SESSION_S + 1
    assert ask(guarded, cookie=second)[0] == 401


def test_a_wrong_password_says_so_and_five_must_wait():
    clock = Clock()
    guarded = gate(SECRET, clock)
    for _ in range(TRIES):
        status, _, body = sign_in(guarded, "wrong")
        assert (status, b"The password is wrong." in body) == (401, True)
    status, headers, body = sign_in(guarded)
    assert (status, headers["retry-after"]) == (429, str(int(WINDOW_S) + 1))
    assert b"Try again in 60 seconds" in body
    assert sign_in(guarded, client="10.0.0.2")[0] == 303
    clock.now += WINDOW_S + 0.1
    assert sign_in(guarded)[0] == 303


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb: c", "x"]
)
def test_signing_in_never_leads_elsewhere(target):
    from urllib.parse import quote

    body = f"password=correct+horse&next={quote(target, safe='')}".encode()
    assert ask(gate(SECRET), LOGIN, "POST", body=body)[1]["location"] == "/"
    page = ask(gate(SECRET), LOGIN, query=f"next={quote(target, safe='')}")[2]
    assert b'name="next" value="/"' in page


def test_the_login_page_escapes_needs_no_script_and_keeps_no_body_without_end():
    assert ask(gate(SECRET), LOGIN, "POST", body=b"password=" + b"x" * MAX_BODY)[0] == 401
    page = login_page("/login", '/"><script>x</script>', "<b>")
    assert "<script" not in page
    assert "&lt;b&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_policy_lets_a_page_load_from_its_server_only():
    policy = security_headers(["window.prerenderReady = false"])["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "'self' data: blob:"
    assert rules["connect-src"] == "'self'"
    assert "unsafe" not in rules["script-src"]
    assert not [anywhere for anywhere in ("http:", "https:", "*") if anywhere in policy]


def test_names_that_a_server_beyond_this_machine_answers_to():
    names = server_names("0.0.0.0", ["Results.Example.ORG."])
    assert {"localhost", "127.0.0.1", "::1", "results.example.org"} <= names
    assert not names & {"0.0.0.0", ""}
