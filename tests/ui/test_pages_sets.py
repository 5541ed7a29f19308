"""The sets: versions with their numbers, what changed between two, verifying, commands."""

import pytest
from candidates import publish_reviewed_apples
from pages import numbers, open_page, tables
from runs import Proposed, add_run, open_empty

from rephraser.sets.publish import publish
from service.database import Database


def versions(folder):
    publish_reviewed_apples(folder / "t.db").close()


@pytest.fixture
def db(copied):
    with Database.open(copied(versions)) as opened:
        yield opened


def shown(**parameters):
    app = open_page("sets", **parameters)
    assert not app.error
    return app


def test_the_newest_version_is_shown_first_with_all_versions_of_its_name(db):
    app = shown()
    assert app.selectbox[0].value == "ta@3"
    assert numbers(app)["questions"] == "6"
    assert numbers(app)["reviewed"] == "1"
    assert list(tables(app)[0]["version"]) == ["ta@3", "ta@2", "ta@1"]
    assert list(tables(app)[0]["neighbors"])[1:] == ["12", "6"]


def test_a_version_of_the_address_that_is_not_there_and_a_broken_key_show_the_usual(db):
    app = shown(set="none@9", view="changes", after="::x", against="<b>")
    assert app.selectbox[0].value == "ta@3"
    assert numbers(app)["removed"] == "1"
    assert "no set none" in app.warning[0].value
    assert "no other set" in app.warning[1].value
    assert not shown(view="changes", against="ta@1").warning


def count_successes(folder):
    opened = open_empty(folder / "t.db")
    add_run(opened, "r", [("Three and four?", "7", [Proposed("How many are 3 with 4?", right=(16, 12))])])
    publish(opened, "counted", run="r")
    opened.close()


def test_success_counts_of_the_verdicts_are_shown(copied):
    copied(count_successes)
    shares = numbers(shown())
    assert (shares["solved neighbors"], shares["their questions"]) == ("100.0%", "50.0%")
    assert (shares["easier"], shares["level"], shares["harder"]) == ("1", "0", "0")
