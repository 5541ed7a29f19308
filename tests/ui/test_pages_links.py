"""State in the address: typed values, what is left out, links between pages."""

from streamlit.testing.v1 import AppTest

from ui.pages.text.markup import escaped


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
