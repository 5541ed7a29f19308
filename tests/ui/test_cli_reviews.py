"""`tagrpo rephrase review` and `audit` as a user meets them: output, exit codes, help."""

import builtins
import json
import re
from pathlib import Path

import pytest
from candidates import ADD, HALVED, ODD, SUM, WRONG
from command_line import CommandLine

from rephraser.reviews.store import record_changes
from service.database import Database
from service.runs.store import Run
from ui.pages.review.keys import REVIEW_KEYS, Event, Queue


@pytest.fixture
def cli(neighbors: CommandLine) -> CommandLine:
    return neighbors


def status(cli: CommandLine, identity: str) -> tuple[str, str, bool]:
    _, out, _ = cli("show", identity, "--json")
    (standing,) = json.loads(out)["runs"]
    return standing["status"], standing["reason"], standing["reviewed"]


def test_a_single_review(cli: CommandLine, run: Run) -> None:
    code, out, _ = cli("review", ODD[:14], "--reject", "--reason", "garbled")
    assert (code, out) == (0, f"{ODD}: rejected by ada\n")
    assert status(cli, ODD) == ("rejected", "garbled", True)
    assert "this was already recorded" in cli("review", ODD, "--reject", "--reason", "garbled")[1]

    out = cli("review", ODD, "--accept", "--reviewer", "bob", "--json")[1]
    assert json.loads(out)["recorded"] == 1
    assert status(cli, ODD) == ("accepted", "", True)
    shown = cli("show", ODD)[1]
    assert "status: accepted by review" in shown
    assert "rejected by ada: garbled" in shown
    assert "accepted (review)" in cli("list", "--question", SUM.id)[1]

    out = cli("review", ODD, "--withdraw", "--reviewer", "bob")[1]
    assert out == f"{ODD}: accepted by bob withdrawn\n"
    assert status(cli, ODD) == ("rejected", "garbled", True)
    assert re.search(r"accepted by bob \(withdrawn 2\S+Z\)", cli("show", ODD)[1])
    code, _, err = cli("review", ODD, "--withdraw", "--reviewer", "bob")
    assert (code, "bob has no decision outside of audits" in err) == (2, True)
    assert json.loads(cli("review", ODD, "--withdraw", "--json")[1])["reason"] == "garbled"
    assert status(cli, ODD)[2] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a candidate"),
        ((ADD, "--interactive"), "name a candidate"),
        ((ADD,), "give one of --accept, --reject and --withdraw"),
        ((ADD, "--accept", "--reject"), "give one of --accept, --reject and --withdraw"),
        ((ADD, "--reject"), "needs a reason"),
        ((ADD, "--accept", "--run", "run"), "require --interactive"),
        ((ADD, "--accept", "--audit", "3"), "there is no audit 3"),
        ((ADD, "--accept", "--reviewer", " "), "name is empty"),
        (("c_zz", "--accept"), "similar ids"),
        (("--interactive", "--accept"), "require a candidate"),
        (("--interactive", "--audit", "1", "--run", "run"), "an audit has its own candidates"),
        (("--sheet", "nowhere.jsonl"), "cannot be read"),
    ],
)
def test_reviews_that_make_no_sense(
    cli: CommandLine, run: Run, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = cli("review", *arguments)
    assert code == 2
    assert said in " ".join(re.sub(r"[│╭╮╰╯─]", " ", err).split())
    assert status(cli, ADD)[2] is False


def test_reviews_from_a_file_are_all_or_nothing(cli: CommandLine, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    good = [
        {"candidate": ADD, "decision": "reject", "reason": "no"},
        {"candidate": ODD, "decision": "accept"},
        {"candidate": WRONG},
    ]
    bad = {"candidate": HALVED, "decision": "reject"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*good, bad]))
    code, _, err = cli("review", "--sheet", str(path))
    assert (code, f"{path}:4: " in err, "needs a reason" in err) == (2, True, True)
    assert status(cli, ADD)[2] is False

    path.write_text("".join(json.dumps(row) + "\n" for row in good))
    code, out, _ = cli("review", "--sheet", str(path))
    assert (code, out) == (0, "2 decisions recorded\n1 rows have no decision yet\n")
    assert status(cli, ADD) == ("rejected", "no", True)
    assert "0 decisions recorded, 2 already recorded" in cli("review", "--sheet", str(path))[1]


def test_interactive_reviewing_shows_what_the_verdict_says(cli: CommandLine, run: Run) -> None:
    code, out, _ = cli("review", "--run", "run", "--interactive", typed="x\nr\n\nr\nnot the same\n")
    assert code == 0
    assert "1 to review as ada" in out
    assert "undecided; test/proposer, strategy perspectives" in out
    assert "undecided by the test" in out
    assert "a rejection needs a reason" in out
    assert "0 accepted, 1 rejected, 0 skipped, 0 left to review" in out
    assert status(cli, ODD) == ("rejected", "not the same", True)
    assert "0 to review" in cli("review", "--run", "run", "--interactive")[1]


def test_interactive_reviewing_can_be_blind(cli: CommandLine, run: Run) -> None:
    out = cli("review", "--interactive", "--blind", "--status", "accepted", typed="s\ns\n")[1]
    assert "Add 2 and 3." in out
    assert "What is half of 8?" in out
    assert "test/proposer" not in out
    assert "perspectives" not in out
    assert "by the test" not in out
    assert "2 skipped, 2 left to review" in out


@pytest.mark.parametrize("typed", ["a\nfine\nq\n", "a\nfine\n", "a\nfine\nr\n", "a\nfine\na\n"])
def test_a_session_that_ends_early_keeps_what_was_decided(cli: CommandLine, run: Run, typed: str) -> None:
    code, out, _ = cli("review", "--interactive", "--status", "accepted", typed=typed)
    assert code == 0
    assert "1 accepted, 0 rejected, 0 skipped, 1 left to review" in out
    reviewed = [status(cli, identity) for identity in (ADD, HALVED)]
    assert sorted(reviewed) == [("accepted", "accepted by the test", False), ("accepted", "fine", True)]


def test_ctrl_c_keeps_what_was_decided(cli: CommandLine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["a", "fine"])

    def typing() -> str:
        for line in lines:
            return line
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "input", typing)
    code, out, _ = cli("review", "--interactive", "--status", "accepted")
    assert code == 130
    assert "1 accepted, 0 rejected, 0 skipped, 1 left to review" in out
    assert sum(status(cli, identity)[2] for identity in (ADD, HALVED)) == 1


def test_interactive_json_keeps_stdout_for_the_counts(cli: CommandLine, run: Run) -> None:
    _, out, err = cli("review", "--interactive", "--json", typed="a\n\n")
    assert json.loads(out) == {"accepted": 1, "rejected": 0, "skipped": 0, "left": 0}
    assert "[a]ccept" in err


def test_an_audit_from_the_draw_to_the_rates(cli: CommandLine, run: Run) -> None:
    code, out, err = cli("audit", "run", "--sample", "50", "--seed", "7")
    assert code == 3
    assert "audit 1 of run run, sample 50, seed 7: drawn" in out
    assert "the run has only 4 candidates with a final verdict" in out
    assert "tagrpo rephrase review --audit 1 --interactive" in out
    assert "audit 1 has 4 of 4 candidates without a decision" in err
    open_ = json.loads(cli("audit", "--seed", "7", "--json")[1])
    assert (open_["audit"], open_["new"], open_["complete"]) == (1, False, False)
    assert all(set(member) == {"candidate_id"} for member in open_["members"])
    elsewhere = json.dumps({key: value for key, value in open_.items() if key != "members"})
    assert not re.search("c_[0-9a-f]", elsewhere)  # nothing tells the verdict of a candidate
    order = [member["candidate_id"] for member in open_["members"]]

    out = cli("review", "--audit", "1", "--interactive", typed="a\n\nr\nno\n")[1]
    shown = re.findall(r"=== \d of 4: (\S+) ===", out)
    assert shown == order[:3]
    assert not re.search("test/proposer|perspectives|format|undecided|by the test", out)

    code, out, err = cli("audit", "run", "--seed", "7")
    assert (code, "2 of 4 candidates without" in err) == (3, True)
    assert "provisional: 2 of 4" in out

    out = cli("review", "--audit", "1", "--interactive", typed="a\n\n" * 2)[1]
    assert "result of the audit: tagrpo rephrase audit run --sample 50 --seed 7" in out
    code, out, err = cli("audit", "run", "--seed", "7")
    assert (code, err) == (0, "")
    done = json.loads(cli("audit", "--seed", "7", "--json")[1])
    verdicts = {member["candidate_id"]: member["status"] for member in done["members"]}
    assert verdicts == {ADD: "accepted", WRONG: "rejected", ODD: "undecided", HALVED: "accepted"}
    false_accepts = int(verdicts[order[1]] == "accepted")
    assert done["false_accept"]["count"] == false_accepts
    assert done["false_accepts"] == [order[1]] * false_accepts
    low, high = (0.0126, 0.9874) if false_accepts else (0.0, 0.8419)
    assert (done["false_accept"]["low"], done["false_accept"]["high"]) == pytest.approx((low, high), abs=1e-4)
    percent = "1.3% to 98.7%" if false_accepts else "0.0% to 84.2%"
    assert f"{false_accepts} of 2, {false_accepts / 2:.1%} (exact 95% interval {percent})" in out


def test_an_audit_of_groups(cli: CommandLine, run: Run, tmp_path: Path) -> None:
    code, out, err = cli("audit", "run", "--groups", "--out", str(tmp_path / "sheet.jsonl"))
    assert (code, "audit 1 has 2 of 2 candidates without a decision" in err) == (3, True)
    assert "audit 1 of run run, 50 questions with all their accepted neighbors, seed 0: drawn" in out
    assert "2 neighbors, 0 reviewed; 0 of 2 groups fully reviewed" in out
    assert "0 have a broken neighbor so far and 2 are not yet decided: 0.0% to 100.0% are broken" in out
    rows = [json.loads(line) for line in (tmp_path / "sheet.jsonl").read_text().splitlines()]
    assert {row["candidate"] for row in rows} == {ADD, HALVED}
    cli("review", rows[0]["candidate"], "--reject", "--reason", "no", "--audit", "1")
    half = json.loads(cli("audit", "run", "--groups", "--json")[1])
    assert (half["complete"], half["groups"]["complete"], half["groups"]["open"]) == (False, 1, 1)
    assert "broken_groups" not in half["groups"]  # who still reviews must not know
    # One of two: .0126; two of two: 1.
    assert (half["groups"]["low"], half["groups"]["high"]) == pytest.approx((0.0126, 1.0), abs=1e-4)
    assert half["broken_neighbors"] == {"count": 1, "reviewed": 1}
    assert not {"strata", "broken", "false_accept", "false_reject"} & set(half)
    cli("review", rows[0]["candidate"], "--withdraw", "--audit", "1")
    out = cli("review", "--audit", "1", "--interactive", typed="a\n\nr\nno\n")[1]
    assert "audit 1 of run run, grouped by question: 2 to review as ada" in out
    assert "result of the audit: tagrpo rephrase audit run --groups --sample 50 --seed 0" in out
    code, out, err = cli("audit", "run", "--groups")
    assert (code, err) == (0, "")
    done = json.loads(cli("audit", "run", "--groups", "--json")[1])
    groups = done["groups"]
    assert (done["kind"], groups["drawn"], groups["complete"]) == ("groups", groups["size"], groups["size"])
    assert groups["broken"]["count"] == 1
    assert f"groups with a broken neighbor: 1 of {groups['size']}, {1 / groups['size']:.1%} (exact 95%" in out
    assert "broken neighbors: 1 of 2 reviewed" in out
    assert "are open" not in out
    assert f"groups with a broken neighbor: {groups['broken_groups'][0]}" in out


def test_an_audit_by_sheet_and_two_reviewers(cli: CommandLine, run: Run, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.jsonl"
    code, out, _ = cli("audit", "--out", str(sheet))
    assert (code, f"4 rows written to {sheet}" in out) == (3, True)
    assert cli("audit", "--out", str(sheet))[0] == 2
    rows = [json.loads(line) for line in sheet.read_text().splitlines()]

    for reviewer, reject in (("ada", {WRONG}), ("bob", {WRONG, ODD})):
        for row in rows:
            refused = row["candidate"] in reject
            row["decision"], row["reason"] = ("reject", "no") if refused else ("accept", "")
        sheet.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert cli("review", "--sheet", str(sheet), "--reviewer", reviewer)[0] == 0

    code, out, _ = cli("audit")
    assert code == 0
    assert "ada and bob agree on 3 of 4; Cohen's kappa 0.50" in out
    assert f"disputed: {ODD}" in out
    assert "ada, 4 reviewed: false accepts 0 of 2" in out
    assert status(cli, ODD)[:2] == ("rejected", "no")


def test_a_candidate_is_edited_and_its_origin_shown(cli: CommandLine, run: Run) -> None:
    code, out, err = cli("edit", WRONG[:14], "--text", "Add 2 to 3.")
    assert code == 0, err
    identity = out.split(":")[0]
    assert out.splitlines()[0] == f"{identity}: edited from {WRONG} by ada"
    assert f"edited from {WRONG} by ada" in cli("show", identity)[1]
    standing = json.loads(cli("show", identity, "--json")[1])["runs"][0]
    assert (standing["proposer"], standing["mended_from"], standing["strategy"]) == ("human", WRONG, "format")
    assert status(cli, WRONG)[0] == "rejected"
    assert cli("edit", WRONG, "--text", "Add 2 to 3.")[0] == 2
    code, _, err = cli("edit", ODD)
    assert (code, "--text" in err) == (2, True)


def test_a_comment_on_accepting_is_exported_with_the_reviews(
    cli: CommandLine, run: Run, db: Path, tmp_path: Path
) -> None:
    cli("review", ADD, "--accept", "--reason", "by command")
    cli("review", "--run", "run", "--interactive", typed="a\nanswered when asked\n")
    sheet = tmp_path / "sheet.jsonl"
    row = {"candidate": HALVED, "decision": "accept", "reason": "in a sheet"}
    sheet.write_text(json.dumps(row) + "\n")
    cli("review", "--sheet", sheet)
    page = Queue([WRONG], "ada", None, REVIEW_KEYS)
    with Database.open(db) as database, database.write() as session:
        page.handle_keys(
            "tab", [Event(1, WRONG, "N", "on the page")], lambda new: record_changes(session, new)
        )
    comments = {
        ADD: "by command",
        ODD: "answered when asked",
        HALVED: "in a sheet",
        WRONG: "on the page",
    }
    rows = json.loads(cli("list", "--reviews", "--json")[1])["reviews"]
    assert {row["candidate"]: row["reason"] for row in rows} == comments
    assert {row["decision"] for row in rows} == {"accepted"}
    for candidate, comment in comments.items():
        assert status(cli, candidate) == ("accepted", comment, True)
    cli("review", HALVED, "--withdraw")
    rows = json.loads(cli("list", "--reviews", "--run", "run", "--json")[1])["reviews"]
    withdrawn = [(row["candidate"], row["counts"]) for row in rows if row["withdrawn_at"]]
    assert withdrawn == [(HALVED, False)]
    assert "in a sheet" in cli("list", "--reviews")[1]
