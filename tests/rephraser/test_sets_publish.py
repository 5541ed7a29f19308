import pytest
from runs import Asked, Proposed, add_review, add_run, make_spec, neighbor_texts

from rephraser import sets
from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions import make_question

SUM = make_question("What is 2+3?", "5")
ASKED: list[Asked] = [
    (
        "What is 2+3?",
        "5",
        [
            Proposed("Again: add 2 to 3.", round=1),
            Proposed("Add 2 and 3."),
            Proposed("Add 2 and 4.", ("rejected",)),
            Proposed("Sum up 2 and 3.", strategy="format"),
            Proposed("2 and 3 make?", ("undecided",)),
        ],
    ),
    ("Halve 8.", "4", [Proposed("What is half of 8?", ("undecided", "accepted"), model="other/model")]),
    ("Is 7 prime?", "yes", [Proposed("Is 7 a prime number?", ("unverified",)), Proposed("Prime: 7?", ())]),
    ("Double 8.", "16", []),
]


def test_the_n_accepted_that_lie_furthest_apart(db: Database) -> None:
    add_run(db, "run", ASKED)

    published = sets.publish(db, "math", run="run", n=2)

    assert (published.created, published.header.ref) == (True, "math@1")
    assert neighbor_texts(db, "math") == {
        "What is 2+3?": ["Sum up 2 and 3.", "Again: add 2 to 3."],
        "Halve 8.": ["What is half of 8?"],
        "Is 7 prime?": [],
        "Double 8.": [],
    }


def test_without_n_all_that_fit(db: Database) -> None:
    add_run(db, "run", ASKED)

    sets.publish(db, "math", run="run")

    assert neighbor_texts(db, "math")["What is 2+3?"] == [
        "Sum up 2 and 3.",
        "Again: add 2 to 3.",
        "Add 2 and 3.",
    ]


def test_counts_cover_the_members_and_the_run(db: Database) -> None:
    add_run(db, "run", ASKED)

    counts = sets.publish(db, "math", run="run", n=2).header.counts

    assert counts["questions"] == 4
    assert counts["neighbors"] == 3
    assert counts["questions_by_neighbors"] == {"0": 2, "1": 1, "2": 1}
    assert counts["neighbors_by_verdict"] == {"accepted": 3, "undecided": 0, "unverified": 0, "rejected": 0}
    assert counts["neighbors_by_strategy"] == {"format": 1, "perspectives": 2}
    assert counts["reviewed"] == 0
    assert counts["questions_left_out"] == 0
    by_origin = {(record["strategy"], record["model"]): record for record in counts["proposals"]}
    assert set(by_origin) == {
        ("format", "test/proposer"),
        ("perspectives", "test/proposer"),
        ("perspectives", "other/model"),
    }
    usual = by_origin["perspectives", "test/proposer"]
    assert {key: usual[key] for key in ("accepted", "rejected", "undecided", "unverified", "pending")} == {
        "accepted": 2,
        "rejected": 1,
        "undecided": 1,
        "unverified": 1,
        "pending": 1,
    }


def test_unverified_ones_need_to_be_asked_for_and_stand_behind_accepted_ones(db: Database) -> None:
    asked: list[Asked] = [
        (
            "What is 2+3?",
            "5",
            [Proposed("Add 2 and 3.", ("unverified",)), Proposed("2 plus 3?"), Proposed("3+2?", ())],
        )
    ]
    add_run(db, "run", asked)

    plain = sets.publish(db, "plain", run="run").header
    both = sets.publish(db, "both", run="run", include=("accepted", "unverified")).header

    assert neighbor_texts(db, "plain") == {"What is 2+3?": ["2 plus 3?"]}
    assert neighbor_texts(db, "both") == {"What is 2+3?": ["2 plus 3?", "Add 2 and 3."]}
    assert plain.counts["neighbors_by_verdict"]["unverified"] == 0
    assert both.counts["neighbors_by_verdict"]["unverified"] == 1


def test_a_run_without_solver_says_how_to_publish_unverified_ones(db: Database) -> None:
    asked: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?", ("unverified",))])]
    add_run(db, "rules", asked, spec=make_spec(solvers=()))

    with pytest.raises(InputError, match=r"1 unverified.*--include unverified"):
        sets.publish(db, "math", run="rules")
    with db.read() as session:
        assert sets.list_sets(session) == []

    header = sets.publish(db, "math", run="rules", include=["accepted", "unverified"]).header
    assert header.spec["publish"]["include"] == ["accepted", "unverified"]
    (rate,) = sets.accept_rates(header.counts["proposals"])
    assert (rate.rate, rate.judged, rate.unverified) == (None, 0, 1)


def test_filters(db: Database) -> None:
    add_run(db, "run", ASKED)

    sets.publish(db, "by-strategy", run="run", strategies=["format"])
    sets.publish(db, "by-model", run="run", models=["other/model"])

    assert neighbor_texts(db, "by-strategy")["What is 2+3?"] == ["Sum up 2 and 3."]
    assert neighbor_texts(db, "by-strategy")["Halve 8."] == []
    assert neighbor_texts(db, "by-model") == {
        "What is 2+3?": [],
        "Halve 8.": ["What is half of 8?"],
        "Is 7 prime?": [],
        "Double 8.": [],
    }


def test_reviews_override_verdicts(db: Database) -> None:
    add_run(db, "run", ASKED)
    add_review(db, SUM, "Add 2 and 3.", "rejected")
    add_review(db, SUM, "2 and 3 make?", "accepted")

    header = sets.publish(db, "math", run="run").header

    with db.read() as session:
        entry = sets.load_set(session, "math").entries[0]
    assert [(item.text, item.verdict, item.reviewed) for item in entry.neighbors] == [
        ("Sum up 2 and 3.", "accepted", False),
        ("Again: add 2 to 3.", "accepted", False),
        ("2 and 3 make?", "accepted", True),
    ]
    assert header.counts["reviewed"] == 1


def test_only_with_neighbors_leaves_the_others_out_and_counts_them(db: Database) -> None:
    add_run(db, "run", ASKED)

    header = sets.publish(db, "math", run="run", only_with_neighbors=True).header

    assert list(neighbor_texts(db, "math")) == ["What is 2+3?", "Halve 8."]
    assert (header.counts["questions"], header.counts["questions_left_out"]) == (2, 2)


def test_the_spec_holds_the_whole_run_the_selection_and_the_packages(db: Database) -> None:
    run = add_run(db, "run", ASKED)

    spec = sets.publish(db, "math", run=run.id[:12], n=1).header.spec

    assert spec["runs"][0]["id"] == run.id
    assert spec["runs"][0]["spec"] == make_spec().to_json()
    assert spec["runs"][0]["versions"] == {"tagrpo": "0.0.test"}
    assert spec["publish"] == {
        "n": 1,
        "include": ["accepted"],
        "strategies": [],
        "models": [],
        "only_with_neighbors": False,
        "min_distance": 0.0,
        "prefer": "any",
        "adaptive": None,
    }
    assert {"python", "tagrpo"} <= set(spec["packages"])


def test_the_same_content_again_makes_no_version(db: Database) -> None:
    add_run(db, "run", ASKED)
    first = sets.publish(db, "math", run="run", n=2)

    # The selection reads differently, what it takes is the same.
    again = sets.publish(db, "math", run="run", n=2, models=["test/proposer", "other/model"])

    assert (again.created, again.header) == (False, first.header)
    with db.read() as session:
        assert [header.ref for header in sets.list_sets(session)] == ["math@1"]


def test_other_content_makes_the_next_version_with_its_parent(db: Database) -> None:
    add_run(db, "run", ASKED)
    first = sets.publish(db, "math", run="run", n=2).header
    second = sets.publish(db, "math", run="run", n=1).header
    back = sets.publish(db, "math", run="run", n=2)
    other = sets.publish(db, "other", run="run", n=2).header

    assert (second.ref, second.parent_id) == ("math@2", first.id)
    assert second.content_hash != first.content_hash
    # Going back is a step forward: the newest version is what `math` means.
    assert (back.created, back.header.ref, back.same_as) == (True, "math@3", "math@1")
    assert (other.content_hash, other.parent_id) == (first.content_hash, None)
    assert other.id != first.id


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("no spaces", {}, "is not a valid name"),
        ("a@b", {}, "is not a valid name"),
        ("math", {"n": 0}, "at least 1"),
        ("math", {"include": ("good",)}, "cannot include good"),
        ("math", {"include": ()}, "cannot include nothing"),
        ("math", {"min_distance": 1.5}, "between 0 and 1"),
        ("math", {"strategies": ("absent",)}, "no candidate of run 'run' qualifies"),
    ],
)
def test_bad_usage_is_refused_and_publishes_nothing(
    db: Database, name: str, options: dict[str, object], message: str
) -> None:
    add_run(db, "run", ASKED)

    with pytest.raises(InputError, match=message):
        sets.publish(db, name, run="run", **options)  # type: ignore[arg-type]

    with db.read() as session:
        assert sets.list_sets(session) == []


def test_an_unknown_run_is_named_with_the_known_ones(db: Database) -> None:
    add_run(db, "run", ASKED)

    with pytest.raises(NotFoundError, match="no run 'other', only: run"):
        sets.publish(db, "math", run="other")
