"""`tagrpo rephrase review` and `audit` as a user meets them: output, exit codes, help."""

import json
import re

import pytest
from candidates import ADD, HALVED, ODD, SUM, WRONG
from command_line import CommandLine, squeezed
from json_rows import read_rows, write_rows


@pytest.fixture
def cli(neighbors):
    return neighbors


def status(cli: CommandLine, identity: str) -> tuple[str, str, bool]:
    _, out, _ = cli("show", identity, "--json")
    (standing,) = json.loads(out)["runs"]
    return standing["status"], standing["reason"], standing["reviewed"]


def test_a_single_review(cli, run):
    code, out, _ = cli("review", ODD[:14], "--reject", "--reason", "garbled")
    assert (code, "recorded 1" in squeezed(out)) == (0, True)
    assert status(cli, ODD) == ("rejected", "garbled", True)
    assert "unchanged 1" in squeezed(cli("review", ODD, "--reject", "--reason", "garbled")[1])

    out = cli("review", ODD, "--accept", "--reviewer", "bob", "--json")[1]
    assert json.loads(out)["recorded"] == 1
    assert status(cli, ODD) == ("accepted", "", True)
    reviews = cli.json("show", ODD)["reviews"]
    decided = [(each["decision"], each["reviewer"], each["reason"]) for each in reviews]
    assert decided == [("rejected", "ada", "garbled"), ("accepted", "bob", "")]
    assert "accepted yes perspectives" in " ".join(cli("list", "--question", SUM.id)[1].split())

    out = cli("review", ODD, "--withdraw", "--reviewer", "bob")[1]
    assert {"decision accepted", "reviewer bob"} <= {*squeezed(out)}
    assert status(cli, ODD) == ("rejected", "garbled", True)
    assert cli.json("show", ODD)["reviews"][1]["withdrawn_at"]
    assert "bob has no decision outside" in cli.refused("review", ODD, "--withdraw", "--reviewer", "bob")
    assert cli.json("review", ODD, "--withdraw")["reason"] == "garbled"
    assert status(cli, ODD)[2] is False


def test_reviews_that_make_no_sense(cli, run):
    cli.refuses(
        {
            "review": "name a candidate",
            f"review {ADD}": "give one of --accept, --reject and --withdraw",
            f"review {ADD} --accept --reject": "give one of --accept, --reject and --withdraw",
            f"review {ADD} --reject": "needs a reason",
            f"review {ADD} --accept --audit 3": "there is no audit 3",
            f"review {ADD} --accept --reviewer ' '": "the reviewer has no name",
            "review c_zz --accept": "no candidate has an id",
            "review --sheet nowhere.jsonl": "cannot be read",
            "review --sheet nowhere.jsonl --accept": "none with --sheet",
        }
    )
    assert status(cli, ADD)[2] is False


def test_reviews_from_a_file_are_all_or_nothing(cli, run, tmp_path):
    path = tmp_path / "decisions.jsonl"
    rejected = {"candidate": ADD, "decision": "reject", "reason": "no"}
    good = [rejected, {"candidate": ODD, "decision": "accept"}, {"candidate": WRONG}]
    bad = [{"candidate": HALVED, "decision": "reject"}, {"candidate": "c_zz", "decision": "accept"}]
    write_rows(path, *good, *bad)
    refused = cli.refused("review", "--sheet", str(path))
    assert all(each in refused for each in (f"{path}:4: ", "needs a reason", f"{path}:5: no candidate has"))
    assert status(cli, ADD)[2] is False

    write_rows(path, *good)
    out = cli.ok("review", "--sheet", str(path)).out
    assert {"recorded 2", "without decision 1"} <= {*squeezed(out)}
    assert status(cli, ADD) == ("rejected", "no", True)
    assert {"recorded 0", "unchanged 2"} <= {*squeezed(cli("review", "--sheet", str(path))[1])}


def decide(cli: CommandLine, audit: int, *decisions: tuple[str, str]) -> None:
    """Record decisions in an audit: candidates and words of `--accept` or `--reject`."""
    for candidate, word in decisions:
        reason = ("--reason", "no") if word == "--reject" else ()
        cli.ok("review", candidate, word, *reason, "--audit", audit)


def test_an_audit_from_the_draw_to_the_rates(cli, run):
    _, out, err = cli.warned("audit", "run", "--sample", "50", "--seed", "7")
    assert {"audit 1", "run run", "sample 50", "seed 7", "new yes", "drawn 4"} <= {*squeezed(out)}
    assert not re.search("c_[0-9a-f]", out)
    assert "audit 1 has 4 of 4 candidates without a decision" in err
    open_ = cli.json("audit", "--seed", "7", code=3)
    assert (open_["audit"], open_["new"], open_["complete"]) == (1, False, False)
    assert all(set(member) == {"candidate_id"} for member in open_["members"])
    elsewhere = json.dumps({key: value for key, value in open_.items() if key != "members"})
    assert not re.search("c_[0-9a-f]", elsewhere)  # nothing tells the verdict of a candidate
    order = [member["candidate_id"] for member in open_["members"]]

    decide(cli, 1, (order[0], "--accept"), (order[1], "--reject"))
    _, out, err = cli.warned("audit", "run", "--seed", "7")
    assert "2 of 4 candidates without" in err

    decide(cli, 1, (order[2], "--accept"), (order[3], "--accept"))
    code, out, err = cli("audit", "run", "--seed", "7")
    assert (code, err) == (0, "")
    done = cli.json("audit", "--seed", "7")
    verdicts = {member["candidate_id"]: member["status"] for member in done["members"]}
    assert verdicts == {ADD: "accepted", WRONG: "rejected", ODD: "undecided", HALVED: "accepted"}
    false_accepts = int(verdicts[order[1]] == "accepted")
    assert done["false_accept"]["count"] == false_accepts
    assert done["false_accepts"] == [order[1]] * false_accepts
    low, high = (0.0126, 0.9874) if false_accepts else (0.0, 0.8419)
    assert (done["false_accept"]["low"], done["false_accept"]["high"]) == pytest.approx((low, high), abs=1e-4)


def test_an_audit_of_groups(cli, run, tmp_path):
    _, out, err = cli.warned("audit", "run", "--groups", "--out", str(tmp_path / "sheet.jsonl"))
    assert "audit 1 has 2 of 2 candidates without a decision" in err
    assert {"kind groups", "sample 50", "seed 0", "drawn 2", "reviewed 0"} <= {*squeezed(out)}
    rows = read_rows(tmp_path / "sheet.jsonl")
    assert {row["candidate"] for row in rows} == {ADD, HALVED}
    cli("review", rows[0]["candidate"], "--reject", "--reason", "no", "--audit", "1")
    half = cli.json("audit", "run", "--groups", code=3)
    assert (half["complete"], half["groups"]["complete"], half["groups"]["open"]) == (False, 1, 1)
    assert "broken_groups" not in half["groups"]  # who still reviews must not know
    # One of two: .0126; two of two: 1.
    assert (half["groups"]["low"], half["groups"]["high"]) == pytest.approx((0.0126, 1.0), abs=1e-4)
    assert half["broken_neighbors"] == {"count": 1, "reviewed": 1}
    assert not {"strata", "broken", "false_accept", "false_reject"} & set(half)
    cli("review", rows[0]["candidate"], "--withdraw", "--audit", "1")
    decide(cli, 1, (rows[0]["candidate"], "--accept"), (rows[1]["candidate"], "--reject"))
    code, out, err = cli("audit", "run", "--groups")
    assert (code, err) == (0, "")
    done = cli.json("audit", "run", "--groups")
    groups = done["groups"]
    assert (done["kind"], groups["drawn"], groups["complete"]) == ("groups", groups["size"], groups["size"])
    assert groups["broken"]["count"] == 1
    assert (groups["broken"]["share"], len(groups["broken_groups"])) == (1 / groups["size"], 1)
    assert done["broken_neighbors"] == {"count": 1, "reviewed": 2}


def test_an_audit_by_sheet_and_two_reviewers(cli, run, tmp_path):
    sheet = tmp_path / "sheet.jsonl"
    assert f"4 rows written to {sheet}" in cli.warned("audit", "--out", str(sheet)).out
    cli.refused("audit", "--out", str(sheet))
    rows = read_rows(sheet)

    for reviewer, reject in (("ada", {WRONG}), ("bob", {WRONG, ODD})):
        for row in rows:
            refused = row["candidate"] in reject
            row["decision"], row["reason"] = ("reject", "no") if refused else ("accept", "")
        write_rows(sheet, *rows)
        cli.ok("review", "--sheet", str(sheet), "--reviewer", reviewer)

    out = cli.ok("audit", "--json").out
    done = json.loads(out)
    [pair] = done["agreements"]
    names = ("first", "second", "agreed", "shared", "kappa")
    assert [pair[name] for name in names] == ["ada", "bob", 3, 4, pytest.approx(0.5)]
    assert done["disputed"] == [ODD]
    ada = done["reviewers"][0]
    assert (ada["reviewer"], ada["reviewed"], ada["false_accept"]["count"]) == ("ada", 4, 0)
    assert status(cli, ODD)[:2] == ("rejected", "no")


def test_a_candidate_is_edited_and_its_origin_shown(cli, run):
    _, out, _err = cli.ok("edit", WRONG[:14], "--text", "Add 2 to 3.")
    identity = out.split()[1]
    assert {f"candidate {identity}", f"mended from {WRONG}", "mended by ada"} <= {*squeezed(out)}
    standing = cli.json("show", identity)["runs"][0]
    assert (standing["proposer"], standing["mended_from"], standing["strategy"]) == ("human", WRONG, "format")
    assert status(cli, WRONG)[0] == "rejected"
    cli.refused("edit", WRONG, "--text", "Add 2 to 3.")
    assert "--text" in cli.refused("edit", ODD)


def test_a_comment_on_accepting_is_exported_with_reviews(cli, run, tmp_path):
    cli("review", ADD, "--accept", "--reason", "by command")
    cli("review", ODD, "--accept", "--reason", "answered when asked")
    write_rows(tmp_path / "sheet.jsonl", {"candidate": HALVED, "decision": "accept", "reason": "in a sheet"})
    cli("review", "--sheet", tmp_path / "sheet.jsonl")
    comments = {ADD: "by command", ODD: "answered when asked", HALVED: "in a sheet"}
    rows = cli.json("list", "--reviews")["reviews"]
    assert {row["candidate"]: row["reason"] for row in rows} == comments
    assert {row["decision"] for row in rows} == {"accepted"}
    for candidate, comment in comments.items():
        assert status(cli, candidate) == ("accepted", comment, True)
    cli("review", HALVED, "--withdraw")
    rows = cli.json("list", "--reviews", "--run", "run")["reviews"]
    withdrawn = [(row["candidate"], row["counts"]) for row in rows if row["withdrawn_at"]]
    assert withdrawn == [(HALVED, False)]
    assert "in a sheet" in cli("list", "--reviews")[1]
