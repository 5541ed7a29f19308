"""The page "Review": read-only, with decisions, results of an audit; the queue that keys go through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import headings, numbers, open_page, said, tables
from runs import Proposed, add_run, open_empty

from rephraser.candidates import read_candidates
from rephraser.questions.store import Member, store_set
from rephraser.reviews.audit import audit_rates, get_audit, open_audit, run_agreement
from rephraser.reviews.store import Decision, record_reviews
from service.database import Database
from service.questions.question import make_question
from service.runs.store import find_run
from ui.pages.review.keys import REVIEW_KEYS, Event, Queue, read_events

VERDICTS = ("accepted", "rejected")


def reviewed(folder):
    """A run with an audit that ben and eve have decided; they differ on one candidate."""
    db = open_empty(folder / "t.db")
    statuses = ["accepted"] * 8 + ["rejected"] * 2 + ["undecided"] * 2
    asked = []
    for n, status in enumerate(statuses):
        proposed = Proposed(f"Add one to {n}.", (status,), strategy="secret-strategy")
        asked.append((f"What is {n} + 1?", str(n + 1), [proposed]))
    run = add_run(db, "r", asked)
    audit, _ = open_audit(db, run, size=12, seed=1)
    ids = [member.candidate_id for member in audit.members if member.status == "accepted"]
    with db.write() as session:
        made = [Decision(id, "accepted", "", "ben", audit.id) for id in ids[1:]]
        record_reviews(session, [*made, Decision(ids[0], "rejected", "no", "ben", audit.id)])
        record_reviews(session, [Decision(id, "accepted", "", "eve", audit.id) for id in ids])
        rates = audit_rates(session, audit)
    assert rates["disputed"] == [ids[0]]
    db.close()


@pytest.fixture
def path(copied):
    return copied(reviewed)


def opened(path, review=True, **address):
    return open_page("review", path, review=review, **address)


@pytest.mark.sqlite  # names the file
def test_without_a_run_the_page_says_how_to_get_one(tmp_path):
    with open_empty(tmp_path / "t.db") as database, database.write() as session:
        store_set(session, "mine", [Member(0, make_question("What is 1 + 1?", "2"))], {"content_hash": ""})
    command = f"tagrpo rephrase run mine --name NAME proposer=rules --db {tmp_path / 't.db'}"
    assert command in [one.value for one in opened(tmp_path / "t.db").code]


def test_blind_review_asks_for_a_name_and_shows_neither_verdict_nor_strategy(path):
    app = opened(path)
    assert "Who reviews?" in said(app)
    assert "Add one to" not in said(app)
    app = opened(path, reviewer="ada")
    assert "0 of 12 decided by ada" in said(app)
    assert "Add one to" in said(app)
    assert "strategy" not in said(app)
    assert "by the test" not in said(app)  # the reason of the verdict
    seen = opened(path, reviewer="ada", blind="0")
    assert "secret-strategy" in said(seen)
    assert "by the test" in said(seen)


def test_results_of_an_audit(path):
    app = opened(path, reviewer="ben", audit="1", view="Results")
    shown = numbers(app)
    assert shown["reviewed"] == "8 of 12"
    assert shown["by ben"] == "8"
    assert shown["false accepts"] == "0.0%"  # the newest decision counts, which is eve's
    assert shown["false rejects"] == "no data yet"
    assert headings(app) == ["By verdict", "Agreement between reviewers", "Disagreements"]
    agreement = tables(app)[1]
    assert list(agreement["both decided"]) == ["8"]
    assert list(agreement["agreed"]) == ["7"]
    assert list(agreement["Cohen's kappa"]) == ["0.000"]


def test_what_the_verdict_got_wrong_is_listed_with_what_reviewers_say(path):
    with Database.open(path) as db, db.write() as session:
        audit = get_audit(session, 1)
        drawn = {status: [m.candidate_id for m in audit.members if m.status == status] for status in VERDICTS}
        wrong, refused = drawn["accepted"][2], drawn["rejected"][0]
        record_reviews(session, [Decision(wrong, "rejected", "another answer", "zed", 1)])
        record_reviews(session, [Decision(refused, "accepted", "", "zed", 1)])
        rest = [one.candidate_id for one in audit.members if one.status != "accepted"]
        left = [one for one in rest if one != refused]
    app = opened(path, reviewer="ben", audit="1", view="Results")
    assert "False accepts" not in headings(app)  # who still reviews must not know
    assert "appear after all candidates are reviewed" in said(app)
    with Database.open(path) as db, db.write() as session:
        record_reviews(session, [Decision(one, "rejected", "no", "zed", 1) for one in left])
    app = opened(path, reviewer="ben", audit="1", view="Results")
    assert headings(app)[:3] == ["By verdict", "False accepts", "False rejects"]
    accepts, rejects, disputed = tables(app)[1], tables(app)[2], tables(app)[-1]
    assert "zed: rejected (another answer)" in accepts["decided"][0]
    assert rejects["decided"][0].endswith("zed: accepted")
    assert accepts["decided"][0] in list(disputed["decided"])
    app = opened(path, reviewer="ben", audit="1", view="Results", candidate=wrong)
    labels = [link.proto.label.replace("\\", "") for link in app.get("page_link")]
    assert labels.count(f"Candidate {wrong} next to its question") == 2  # a false accept, and disputed
    assert said(app).count("zed: rejected (another answer)") == 2


def test_results_of_an_audit_of_groups(path):
    with Database.open(path) as db:
        with db.read() as session:
            run = find_run(session, "r")
        audit, _ = open_audit(db, run, kind="groups", size=4, seed=2)
        ids = [member.candidate_id for member in audit.members]
        with db.write() as session:
            made = [Decision(id, "accepted", "", "ben", audit.id) for id in ids[1:3]]
            record_reviews(session, [Decision(ids[0], "rejected", "no", "ben", audit.id), *made])
    app = opened(path, reviewer="ben", audit=str(audit.id))
    assert not app.warning
    assert "Shows the accepted neighbors of a question one after another." in said(app)
    results = opened(path, audit=str(audit.id), view="Results")
    shown = numbers(results)
    assert shown["groups reviewed"] == "3 of 4"
    assert shown["groups open"] == "1"
    assert shown["groups with a broken neighbor"] == "33.3%"
    assert shown["broken neighbors"] == "1 of 3"
    # Clopper and Pearson: 1 of 4 from .0063, 2 of 4 to .9324.
    assert "25.0% to 50.0% are broken (exact 95% interval 0.6% to 93.2%" in said(results).replace("\\", "")
    assert "By verdict" not in headings(results)
    assert "false rejects" not in shown


def test_the_text_on_the_screen_is_mended_as_another_candidate(path):
    app = opened(path, reviewer="ada")
    old = next(area.label for area in app.text_area).split()[2].replace("\\", "").rstrip(";")
    field = app.text_area[0]
    assert field.value.startswith("Add one to")
    field.set_value("Which number is one more than that?").run()
    next(button for button in app.button if button.label == "Store as a new candidate").click().run()
    assert not app.exception
    assert f"tagrpo resume r --db {path}" in [code.value for code in app.code]
    with Database.open(path) as db, db.read() as session:
        run = find_run(session, "r")
        (mended,) = [status for status in read_candidates(session, run.id) if status.mended_from]
    assert (mended.mended_from, mended.mended_by, mended.status) == (old, "ada", "unverified")
    next(button for button in app.button if button.label == "Store as a new candidate").click().run()
    assert "has this text as c_" in said(app)
    assert not opened(path, review=False).text_area


def test_what_was_decided_otherwise_than_the_verdict_is_listed_but_not_what_an_audit_found(path):
    with Database.open(path) as db, db.write() as session:
        members = [one for one in get_audit(session, 1).members if one.status == "accepted"]
        record_reviews(session, [Decision(members[1].candidate_id, "rejected", "in an audit", "zed", 1)])
        record_reviews(session, [Decision(members[2].candidate_id, "rejected", "seen alone", "zed")])
    app = opened(path, reviewer="ben", view="Results")
    assert "Decisions that differ from the verdict" in headings(app)
    decided = [row for table in tables(app) if "decided" in table for row in table["decided"]]
    assert any("seen alone" in row for row in decided)
    with Database.open(path) as db, db.read() as session:
        run = get_audit(session, 1).run_id
        assert run_agreement(session, run)["against_verdict"] == [members[2].candidate_id]


def test_results_of_a_run_lead_to_its_audits(path):
    app = opened(path, reviewer="ben", view="Results")
    assert numbers(app) == {"decided by ben": "8 of 12", "accepted": "7", "rejected": "1"}
    assert headings(app)[:2] == ["Error rates", "Agreement between reviewers and the verdict"]
    assert list(tables(app)[0]["agreed"]) == ["7", "7", "8"]


ORDER = ["c_1", "c_2", "c_3"]


def make(order=ORDER, keys=REVIEW_KEYS, audit_id=None):
    return Queue(list(order), "ada", audit_id, keys)


def test_a_key_on_another_item_is_refused_with_all_behind_it():
    queue, stored = make(), []
    events = [Event(1, "c_2", "A"), Event(2, "c_1", "A"), Event(3, "c_1", "D")]
    queue.handle_keys("tab", events, stored.extend)
    assert (stored, queue.at, queue.refused, queue.heard) == ([], 0, 3, {"tab": 3})
    queue.handle_keys("tab", [Event(4, "c_1", "Q"), Event(5, "c_1", "A")], stored.extend)
    assert (stored, queue.refused) == ([], 5)
    queue.handle_keys("tab", [Event(6, "c_1", "A")], stored.extend)
    assert [one.decision for one in stored] == ["accepted"]


def test_a_failed_write_leaves_everything_to_be_heard_again():
    queue, stored = make(), []

    def fail(_decisions):
        raise OSError("disk full")

    with pytest.raises(OSError):
        queue.handle_keys("tab", [Event(1, "c_1", "A")], fail)
    assert (queue.at, queue.marks, queue.heard) == (0, {}, {})
    queue.handle_keys("tab", [Event(1, "c_1", "A")], stored.extend)
    assert len(stored) == 1


def test_what_a_browser_sends_is_read_with_care():
    events = [{"seq": 1, "item": "c_1", "letter": "A"}, {"seq": 2.0, "item": "", "letter": "W", "words": "x"}]
    read = [Event(1, "c_1", "A"), Event(2, "", "W", "x")]
    assert read_events({"client": "t", "events": events}) == ("t", read)
    for value in (None, [], {"client": 3, "events": []}, {"client": "t"}, {"client": "", "events": events}):
        assert read_events(value) == ("", [])
    bad = [None, {"seq": True}, {"seq": 1.5}, {"seq": float("inf")}, {"seq": 1, "item": 3}, {"seq": "1"}]
    assert read_events({"client": "t", "events": bad}) == ("t", [])


@given(pressed=st.lists(st.sampled_from("ADSU"), max_size=30), cuts=st.lists(st.integers(0, 30), max_size=6))
def test_however_keys_are_bundled_and_repeated_the_result_is_the_same(pressed, cuts):
    """A browser plays keys on its own place; the queue gets them in bundles, some sent again."""
    order = [f"c_{n}" for n in range(12)]
    at, events = 0, []
    for letter in pressed:
        if (letter == "U" and at == 0) or (letter != "U" and at == len(order)):
            continue
        events.append(Event(len(events) + 1, order[at] if at < len(order) else "", letter))
        at += -1 if letter == "U" else 1
    at_once, bundled = make(order), make(order)
    first, second = [], []
    at_once.handle_keys("tab", events, first.extend)
    sent = 0
    for cut in [*sorted(min(cut, len(events)) for cut in cuts), len(events)]:
        bundled.handle_keys("tab", events[max(0, sent - 3) : cut], second.extend)
        sent = cut
    assert first == second
    assert (at_once.at, at_once.marks, at_once.refused) == (bundled.at, bundled.marks, 0)
    assert bundled.refused == 0
    assert at_once.at == at
