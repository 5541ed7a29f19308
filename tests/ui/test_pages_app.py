"""The pages as scripts: a missing, empty, older or foreign database; state in the address."""

import sqlite3

import pytest
from pages import open_page
from runs import open_empty
from streamlit.testing.v1 import AppTest

from service.database import Database
from ui.pages.text.markup import escaped


def test_a_missing_database_says_how_to_make_one(tmp_path):
    path = tmp_path / "none.db"
    app = open_page("overview", path)
    assert f"tagrpo questions import FILE --name NAME --db {path}" in [code.value for code in app.code]
    assert not path.exists()


@pytest.mark.sqlite  # names a file
@pytest.mark.parametrize(
    ("page", "command"),
    [
        *((page, "questions import FILE") for page in ("overview", "questions", "review", "sets")),
        *((page, "train rollouts FOLDER") for page in ("rollouts", "signal")),
        ("curves", "eval run"),
    ],
)
def test_a_page_of_an_empty_database_says_what_to_do(tmp_path, page, command):
    path = tmp_path / "nothing at all.db"
    open_empty(path).close()
    commands = [code.value for code in open_page(page, path).code]
    assert [one for one in commands if one.startswith(f"tagrpo {command} ") and one.endswith(f" '{path}'")]


@pytest.mark.sqlite  # compares a file
def test_an_older_database_says_the_way_out_and_stays_as_it_is(tmp_path):
    path = tmp_path / "old.db"
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", ("0011",))
    before = path.read_bytes()
    assert escaped("Open it with that version") in open_page("questions", path).error[0].value
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("hello " * 100)
    assert escaped(str(path)) in open_page("overview", path).error[0].value


def chosen():
    import streamlit as st

    from ui.pages.state import links

    newest = st.session_state.get("newest", "v3")
    kept = st.session_state.get("options", ["v4", "v3", "v2"])
    st.selectbox("Set", kept, **links.bind("set", lambda: links.choice("set", kept, newest)))
    st.text_input("Search", **links.bind("q", lambda: links.text("q")))


def test_a_widget_follows_a_default_that_has_become_another_one_but_not_what_was_chosen():
    app = AppTest.from_function(chosen).run()
    app.session_state["newest"] = "v4"
    app.run()
    assert app.selectbox[0].value == "v4"
    app.selectbox[0].select("v2").run()
    app.session_state["newest"] = "v3"
    app.run()
    assert app.selectbox[0].value == "v2"
    app.session_state["options"] = ["v4", "v3"]  # what the address names is gone
    app.run()
    assert app.selectbox[0].value == "v3"


def test_options_of_buttons_are_escaped_as_labels_are_and_lists_show_plain_text():
    def script():
        import streamlit as st

        from ui.pages.widgets.choices import choose, choose_several

        options = ["*a* $x$ :red[b]"]
        choose(st.radio, "*l*", "one", options)
        choose(st.segmented_control, "*l*", "two", options)
        choose_several(st.pills, "*l*", "three", options)
        choose(st.selectbox, "*l*", "four", options)
        choose_several(st.multiselect, "*l*", "five", options)

    page = AppTest.from_function(script).run()
    assert not page.exception
    hostile, safe = "*a* $x$ :red[b]", escaped("*a* $x$ :red[b]")
    assert "*" not in safe.replace("\\*", "")
    assert page.radio[0].options == [safe]
    assert [group.options for group in page.button_group] == [[safe], [safe]]
    assert (page.selectbox[0].options, page.multiselect[0].options) == ([hostile], [hostile])
    labels = [widget.label for widget in (*page.radio, *page.selectbox, *page.multiselect)]
    assert labels == [escaped("*l*")] * 3
