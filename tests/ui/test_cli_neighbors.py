"""`tagrpo neighbors list, show, review, audit` as a user meets them: output, exit codes, help."""

import builtins
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from runs import Asked, Proposed, add_run, make_spec, open_empty
from sqlalchemy import insert, select, update

from rephraser.tables import ProposalRow, VerdictRow, candidate_id
from service.database import Database
from service.models.settings import Sampling
from service.questions import make_question
from service.runs.cells import CellPlan, Receipt, add_cells, fill_cell
from service.runs.store import Run
from service.runs.tables import CellRow

SUM, HALF = make_question("What is 2+3?", "5"), make_question("Halve 8.", "4")
ASKED: list[Asked] = [
    (
        SUM.text,
        SUM.answer,
        [
            Proposed("Add 2 and 3.", ("unverified", "accepted"), 0.99),
            Proposed("Add 2 and [b]4[/b].", ("rejected",), strategy="format"),
            Proposed("2 and 3 make \x1b[2Jwhat?", ("undecided",), 0.5),
        ],
    ),
    (HALF.text, HALF.answer, [Proposed("What is half of 8?"), Proposed("8 halves?", ())]),
]
ADD, WRONG, ODD = (candidate_id(SUM.id, item.text) for item in ASKED[0][2])
HALVED, PENDING = (candidate_id(HALF.id, item.text) for item in ASKED[1][2])
EVIDENCE = {
    "counts": {
        "classes": ["5", "6"],
        "original": [28, 3],
        "candidate": [9, 2],
        "gold": 0,
        "original_unparsed": 1,
        "candidate_unparsed": 1,
        "unknown_pairs": 2,
    },
    "by_solver": {"test/solver": {"original": 32, "candidate": 12}},
    "overlap": 11,
    "new_top": 0,
    "original_top": 28,
    "log_bayes_factor": 4.25,
    "solvers": ["solver_1"],
    "versions": {"grader": "1", "checks": "1"},
}


@pytest.fixture
def db(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "t.db"
    monkeypatch.setenv("TAGRPO_DB", str(path))
    monkeypatch.setenv("TAGRPO_REVIEWER", "ada")
    open_empty(path).close()
    return path


@pytest.fixture
def run(db: Path) -> Run:
    with Database.open(db) as database:
        return add_run(database, "run", ASKED, spec=make_spec(sampling=Sampling(1.0, 1.0, 100)))


@pytest.fixture
def cli(command_line: CommandLine, db: Path) -> CommandLine:
    return command_line.within("neighbors")


def listed(cli: CommandLine, *arguments: str) -> list[str]:
    code, out, _ = cli("list", *arguments, "--json")
    assert code == 0
    return [candidate["candidate"] for candidate in json.loads(out)["candidates"]]


def status(cli: CommandLine, identity: str) -> tuple[str, str, bool]:
    _, out, _ = cli("show", identity, "--json")
    (standing,) = json.loads(out)["runs"]
    return standing["status"], standing["reason"], standing["reviewed"]


def add_evidence(db: Path, run: Run, identity: str, evidence: dict[str, Any], verdict: str) -> None:
    with Database.open(db) as database, database.write() as session:
        row = {"candidate_id": identity, "run_id": run.id, "status": verdict, "posterior": 0.9859}
        more = {"reason": "11 of 11 shared.", "final": True, "created_at": "2030-01-01T00:00:00Z"}
        session.execute(insert(VerdictRow).values(**row, **more, evidence=evidence))


def test_a_list_by_pages(cli: CommandLine, run: Run) -> None:
    every = listed(cli)
    assert len(every) == 5
    assert [identity for identity in every if identity in {ADD, WRONG, ODD}] == [ADD, WRONG, ODD]

    code, out, _ = cli("list", "--run", "run", "--limit", "2")
    assert code == 0
    assert f"5 in all; go on with --after {every[1]}" in out
    assert listed(cli, "--limit", "2", "--after", every[1]) == every[2:4]
    assert listed(cli, "--after", every[3][:14]) == every[4:]
    assert "no more candidate of run matches" in cli("list", "--after", every[4])[1]


def test_a_list_by_filters(cli: CommandLine, run: Run, db: Path) -> None:
    finding = {"name": "number_added", "severity": "fatal", "detail": "4"}
    add_evidence(db, run, WRONG, {"findings": [finding]}, "rejected")
    decoy = {"findings": [{**finding, "name": "too_long", "detail": '"name": "number_added"'}]}
    add_evidence(db, run, ADD, decoy, "accepted")

    assert sorted(listed(cli, "--status", "accepted")) == sorted([ADD, HALVED])
    assert listed(cli, "--status", "pending") == [PENDING]
    assert listed(cli, "--strategy", "format") == [WRONG]
    assert listed(cli, "--question", HALF.id[:9]) == [HALVED, PENDING]
    assert listed(cli, "--finding", "number_added") == [WRONG]
    assert listed(cli, "--finding", "number_added", "--status", "accepted") == []
    assert cli("list", "--strategy", "format", "--status", "accepted")[1] == "no candidate of run matches\n"

    for arguments, said in (
        (("--finding", "number_ded"), "try: number_added"),
        (("--strategy", "rename"), "it has: format, perspectives"),
        (("--run", "nope"), "there is no run 'nope'"),
        (("--after", "c_zz"), "near it"),
    ):
        code, _, err = cli("list", *arguments)
        assert (code, said in err) == (2, True), err


def test_texts_of_models_cannot_write_to_the_terminal(cli: CommandLine, run: Run) -> None:
    for command in (("list",), ("show", ODD)):
        _, out, _ = cli(*command)
        assert "\x1b" not in out
        assert "␛[2Jwhat?" in out
    assert "Add 2 and [b]4[/b]." in cli("show", WRONG)[1]


def test_the_run_must_be_named_where_there_are_several_or_none(cli: CommandLine, db: Path) -> None:
    assert "there is no run yet" in cli("list")[2]
    with Database.open(db) as database:
        add_run(database, "one", ASKED[1:])
        add_run(database, "two", ASKED[:1])
    code, _, err = cli("list")
    assert code == 2
    assert "name one: one, two" in err
    assert listed(cli, "--run", "one") == [HALVED, PENDING]
    code, _, err = cli("list", "--run", "one", "--after", ADD)
    assert (code, f"{ADD} is not a candidate of run 'one'" in err) == (2, True)


def test_show_has_texts_verdicts_and_the_answers_side_by_side(cli: CommandLine, run: Run, db: Path) -> None:
    add_evidence(db, run, ADD, EVIDENCE, "accepted")
    code, out, _ = cli("show", ADD)
    assert code == 0
    for expected in ("--- original ---\nWhat is 2+3?", "--- candidate ---\nAdd 2 and 3.", "gold answer: 5"):
        assert expected in out
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "answer original candidate" in rows
    assert "5 28 9 gold" in rows
    assert "6 3 2" in rows
    assert "no answer found 1 1" in rows
    numbers = [
        row for row in rows if row.startswith("overlap 11, largest new answer 0, original's largest 28")
    ]
    assert numbers[0].endswith("log Bayes factor 4.25, posterior 0.9859")
    assert "solver test/solver: 32 answers to the original, 12 to the candidate" in rows
    assert "2 pairs of answers could not be compared" in rows
    assert "proposed by: test/proposer, strategy perspectives v5" in out

    found = json.loads(cli("show", ADD, "--json")[1])
    assert found["question"]["id"] == SUM.id
    assert [verdict["status"] for verdict in found["runs"][0]["verdicts"]] == [
        "unverified",
        "accepted",
        "accepted",
    ]
    assert found["runs"][0]["verdicts"][2]["evidence"] == EVIDENCE
    assert found["runs"][0]["cost"] is None


def test_show_raw_has_the_prompt_the_answer_and_the_cost(cli: CommandLine, run: Run, db: Path) -> None:
    body = json.dumps({"choices": [{"message": {"content": "<b>Add 2 and 3.</b>"}, "finish_reason": "stop"}]})
    plans = [
        CellPlan(run.id, "propose", SUM.id, 0, 0, 0, {"count": 1, "seed": 3}),
        CellPlan("solver_1", "answer", ADD, 0, 0, 0, {"start": 0, "count": 4, "seed": 3}),
    ]
    with Database.open(db) as database, database.write() as session:
        add_cells(session, run.id, plans)
        asked, answered = session.scalars(select(CellRow.id).order_by(CellRow.id)).all()
        fill_cell(session, asked, body, Receipt("test/proposer", 120, 30, 0.25, 2, 1.0))
        fill_cell(session, answered, "{}", Receipt("test/solver", 40, 400, None, 1, 1.0))
        of_two = ProposalRow.candidate_id.in_([ADD, ODD])
        session.execute(update(ProposalRow).where(of_two).values(cell_id=asked))

    out = cli("show", ADD, "--raw")[1]

    assert "cost of proposing: 2 requests, 120 + 30 tokens, $0.2500, for 2 candidates" in out
    assert "1 requests, 40 + 400 tokens, $0.0000 and 1 without a known price" in out
    assert "--- prompt, system ---\nSay it in other words." in out
    assert "<problem>\nWhat is 2+3?\n</problem>" in out
    assert "--- answer ---\n<b>Add 2 and 3.</b>" in out
    assert f"--- answer as sent ---\n{body}" in out
    exchange = json.loads(cli("show", ADD, "--raw", "--json")[1])["runs"][0]["exchange"]
    assert (exchange["text"], exchange["body"]) == ("<b>Add 2 and 3.</b>", body)
    assert "exchange" not in json.loads(cli("show", ADD, "--json")[1])["runs"][0]
    assert "no request to a model stands behind it" in cli("show", HALVED, "--raw")[1]


def test_a_single_review(cli: CommandLine, run: Run) -> None:
    code, out, _ = cli("review", ODD[:14], "--reject", "--reason", "garbled")
    assert (code, out) == (0, f"{ODD}: rejected by ada\n")
    assert status(cli, ODD) == ("rejected", "garbled", True)
    assert "this was recorded before" in cli("review", ODD, "--reject", "--reason", "garbled")[1]

    out = cli("review", ODD, "--accept", "--reviewer", "bob", "--json")[1]
    assert json.loads(out)["recorded"] == 1
    assert status(cli, ODD) == ("accepted", "", True)
    shown = cli("show", ODD)[1]
    assert "status: accepted by review" in shown
    assert "rejected by ada: garbled" in shown
    assert "accepted (review)" in cli("list", "--question", SUM.id)[1]

    out = cli("review", ODD, "--withdraw", "--reviewer", "bob")[1]
    assert out == f"{ODD}: accepted by bob is withdrawn\n"
    assert status(cli, ODD) == ("rejected", "garbled", True)
    assert re.search(r"accepted by bob \(withdrawn 2\S+Z\)", cli("show", ODD)[1])
    code, _, err = cli("review", ODD, "--withdraw", "--reviewer", "bob")
    assert (code, "bob has no decision outside of audits" in err) == (2, True)
    assert json.loads(cli("review", ODD, "--withdraw", "--json")[1])["reason"] == "garbled"
    assert status(cli, ODD)[2] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a candidate"),
        ((ADD, "--interactive"), "name a candidate"),
        ((ADD,), "give one of --accept, --reject and --withdraw"),
        ((ADD, "--accept", "--reject"), "give one of --accept, --reject and --withdraw"),
        ((ADD, "--reject"), "needs a reason"),
        ((ADD, "--accept", "--run", "run"), "belong to --interactive"),
        ((ADD, "--accept", "--audit", "3"), "there is no audit 3"),
        ((ADD, "--accept", "--reviewer", " "), "name is empty"),
        (("c_zz", "--accept"), "near it"),
        (("--interactive", "--accept"), "belong to one named candidate"),
        (("--interactive", "--audit", "1", "--run", "run"), "an audit names its candidates"),
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
    assert "0 decisions recorded, 2 were recorded before" in cli("review", "--sheet", str(path))[1]


def test_interactive_reviewing_shows_what_the_verdict_says(cli: CommandLine, run: Run) -> None:
    code, out, _ = cli("review", "--run", "run", "--interactive", typed="x\nr\n\nr\nnot the same\n")
    assert code == 0
    assert "1 to review as ada" in out
    assert "undecided; test/proposer, strategy perspectives" in out
    assert "undecided by the test" in out
    assert "rejecting needs a reason" in out
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
    assert "the run had only 4 candidates with a final verdict" in out
    assert "tagrpo neighbors review --audit 1 --interactive" in out
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
    assert "what the audit shows: tagrpo neighbors audit run --sample 50 --seed 7" in out
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
    assert "2 neighbors, 0 reviewed; of 2 groups 0 reviewed whole" in out
    assert "0 have a broken neighbor so far and 2 are open: 0.0% to 100.0% are broken" in out
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
    assert "audit 1 of run run, neighbors of a question together: 2 to review as ada" in out
    assert "what the audit shows: tagrpo neighbors audit run --groups --sample 50 --seed 0" in out
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


def test_an_audit_needs_final_verdicts(cli: CommandLine, db: Path) -> None:
    with Database.open(db) as database:
        add_run(database, "empty", [("Halve 8.", "4", [])])
    code, _, err = cli("audit")
    assert (code, "nothing to audit" in err) == (2, True)
