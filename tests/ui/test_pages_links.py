"""State in the address: typed values, what is left out, links between pages."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from ui.pages.kit.links import PAGES, page_file, query, to
from ui.pages.server.serving import SCRIPT


def script():
    import streamlit as st

    from ui.pages.kit import links

    st.json(
        [
            links.text("q"),
            links.text("absent", "default"),
            links.number("n", 7, low=1, high=10),
            links.flag("on"),
            links.choice("verdict", ["accepted", "rejected"], "accepted"),
            list(links.many("model")),
            list(links.many("model", ["a"])),
        ]
    )
    st.text_input("Search", **links.bound("q", lambda: links.text("q"), resets=["after"]))
    if st.button("Put"):
        links.put(n=3, on=True, q=None, model=["x", "y"], empty="")


def shown(**parameters):
    app = AppTest.from_function(script)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def values(app):
    import json

    return json.loads(app.json[0].value)


def test_values_have_types_and_defaults():
    assert values(shown()) == ["", "default", 7, False, "accepted", [], []]
    full = shown(q="x", n="3", on="1", verdict="rejected", model=["a", "b"])
    assert values(full) == ["x", "default", 3, True, "rejected", ["a", "b"], ["a"]]


@pytest.mark.parametrize(
    ("name", "value", "place", "expected"),
    [
        ("n", "11", 2, 7),
        ("n", "x", 2, 7),
        ("n", "9" * 5000, 2, 7),
        ("on", "yes", 3, False),
        ("verdict", "<b>", 4, "accepted"),
        ("q", "x" * 2000, 0, "x" * 500),
    ],
)
def test_what_an_address_should_not_hold_is_the_default(name, value, place, expected):
    assert values(shown(**{name: value}))[place] == expected


def test_what_is_set_stands_in_the_address_and_defaults_do_not():
    app = shown(q="x", after="k9")
    app.button[0].click().run()
    assert dict(app.query_params) == {"n": "3", "on": "1", "model": ["x", "y"], "after": "k9"}


def test_a_bound_widget_shows_the_address_and_writes_to_it():
    app = shown(q="first", after="k9")
    assert app.text_input[0].value == "first"
    app.text_input[0].set_value("second").run()
    assert dict(app.query_params) == {"q": "second"}  # the place in the list has lost its meaning
    app.query_params["q"] = "third"  # as Back does
    app.run()
    assert app.text_input[0].value == "third"
    app.text_input[0].set_value("").run()
    assert dict(app.query_params) == {}


def test_addresses_of_views():
    assert to("overview") == "/"
    assert (
        to("questions", q="a&b=c", verdict=["x", "y"], after=None)
        == "/questions?q=a%26b%3Dc&verdict=x&verdict=y"
    )
    assert query(a=1, b=0.5, c=True, d=False, e="", f=None, g=[]) == {"a": ["1"], "b": ["0.5"], "c": ["1"]}


def test_every_page_has_its_file():
    for name, _, _ in PAGES:
        assert (SCRIPT.parent / page_file(name)).is_file()


def two_pages():
    import streamlit as st

    from ui.pages.kit import links

    page = st.session_state.get("at", "a")
    links.entered(page)
    if page == "a":
        st.selectbox("Run", ["m", "n"], **links.bound("run", lambda: links.choice("run", ["m", "n"], "m")))
    else:
        st.multiselect("Run", ["x", "y"], **links.bound("run", lambda: ["x"]))


def test_a_name_that_two_pages_use_does_not_carry_a_value_over():
    app = AppTest.from_function(two_pages).run()
    assert app.selectbox[0].value == "m"
    app.session_state["at"] = "b"
    app.run()
    assert app.multiselect[0].value == ["x"]
    app.session_state["at"] = "a"
    app.run()
    assert app.selectbox[0].value == "m"
    assert not app.exception
