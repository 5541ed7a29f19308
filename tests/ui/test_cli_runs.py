"""`tagrpo runs list` and `show` as a user meets them."""

import pytest
from command_line import squeezed
from eval_runs import add_eval_run
from runs import Asked, Proposed, add_ask, add_run, completion, make_spec
from sqlalchemy import update

from service.asks.tables import FAILED, FAILED_TASK, FINAL, OPEN, TaskRow
from service.database import Database
from service.questions.question import make_question
from service.runs.store import find_run, open_run

THREE = [Proposed(f"Sum up 2 and 3, way {number}.") for number in range(3)]
ASKED: list[Asked] = [
    ("What is 2+3?", "5", THREE),
    ("Halve 8.", "4", [Proposed("What is half of 8?"), Proposed("8 halves?", ("rejected",))]),
    ("Double 8.", "16", []),
]


@pytest.fixture
def run(neighbors, db):
    with Database.open(db) as database:
        return add_run(database, "math-run", ASKED)


@pytest.fixture
def cli(neighbors):
    return neighbors.within("runs")


def test_without_runs(cli):
    starts = "`tagrpo rephrase run`, `tagrpo eval run`, `tagrpo eval score --judge`, `tagrpo train run`"
    assert cli("list") == (0, f"no runs yet; start one with {starts}\n", "")
    assert cli.json("list") == {"runs": []}
    assert "there are no runs yet" in cli.refused("show")


def test_the_list_names_sizes_models_and_state(cli, run, db):
    with Database.open(db) as database:
        rules = make_spec(proposer="rules", model="rules", solvers=())
        add_run(database, "by-rules", ASKED[1:], spec=rules, finished=False)
    out = cli.ok("list", "--kind", "propose").out
    with Database.open(db) as database, database.read() as session:
        finished = find_run(session, "math-run").finished_at
    done = "candidates=5, usd=0"
    assert f"math-run propose test-questions test/proposer {done} {finished}" in squeezed(out)
    assert "by-rules propose test-questions rules candidates=2, usd=0 -" in squeezed(out)
    runs = {entry["run"]: entry for entry in cli.json("list")["runs"]}
    assert runs["math-run"]["run_id"] == run.id
    assert (runs["by-rules"]["proposer"], runs["by-rules"]["candidates"]) == ("rules", 2)


def test_show_counts_and_names_what_is_missing(cli, run):
    code, out, err = cli("show", "math-run")
    assert (code, err) == (0, "")
    lines = squeezed(out)
    assert {"complete 1", "wanted 3", "candidates accepted=4, rejected=1"} <= {*lines}
    half, double = make_question("Halve 8.", "4").id, make_question("Double 8.", "16").id
    assert f"{half} 1 1 accepted, 1 rejected" in lines
    assert f"{double} 0 no candidate" in lines
    assert {"model test/solver", "rule overlap"} <= {*lines}


def test_show_in_json_is_whole(cli, db):
    with Database.open(db) as database:
        add_run(database, "bare", [(f"What is {number}+1?", str(number + 1), []) for number in range(25)])
    found = cli.json("show", "bare")
    assert len(found["unfinished"]) == 25
    assert found["spec"]["proposer"] == "llm"
    assert found["versions"] == {"tagrpo": "0.0.test"}
    shown = cli("show", "bare")[1]
    assert shown.count("no candidate") == 20
    assert "and 5 more (--json)" in shown


def test_open_and_failed_tasks_need_attention(cli, db):
    errors = ["429: too many requests"] * 2 + ["content filter: no"]
    with Database.open(db) as database:
        run = add_run(database, "math-run", [*ASKED, ("Add 1 and 9.", "10", [])], finished=False)
        with database.write() as session:
            answered = {"model": "test/proposer", "kind": "propose"}
            add_ask(session, run.id, completion("{}"), tokens=(1200, 34), usd=0.5, **answered)
            for error in errors:
                state = FINAL if "filter" in error else FAILED
                add_ask(session, run.id, None, state=state, error=error, tokens=(0, 0), **answered)
            for position, error in enumerate(errors):
                state = FAILED_TASK if "filter" in error else OPEN
                task = update(TaskRow).where(TaskRow.run_id == run.id, TaskRow.position == position)
                session.execute(task.values(state=state, error=error))

    _, out, err = cli.warned("show")
    said = " ".join(err.split())
    assert "1 request is open and 2 requests failed; resume with `tagrpo resume math-run`" in said
    assert "1 request failed permanently, and the questions continued without" in said
    assert "tagrpo resume math-run retry_final=true" in said
    assert "429: too many requests=2, content filter: no=1" in out
    assert "propose test/proposer 4 1200 34 0.5" in " ".join(out.replace(",", "").split())
    found = cli.json("show", code=3)
    assert [found[f"{state}_questions"] for state in ("open", "failed", "final")] == [1, 2, 1]
    assert sum(line["usd"] for line in found["ledger"]) == 0.5
    assert "usd=0.5" in cli("list")[1]
    assert cli.json("remove", "math-run", "--yes")["usd"] == 0.5


def test_runs_of_all_kinds_are_listed_and_shown(cli, run, db):
    with Database.open(db) as database:
        add_eval_run(database, "base.sums", [(4, 3, 0)])
        with database.write() as session:
            spec = {"recipe": {"name": "ta_grpo"}}
            open_run(session, name="ta", kind="train", spec=spec, question_ids=[], versions={})
    listed = {entry["run"]: entry for entry in cli.json("list")["runs"]}
    kinds = {"math-run": "propose", "base.sums": "eval", "ta": "train"}
    assert {name: entry["kind"] for name, entry in listed.items()} == kinds
    lines = {line.split()[0]: line for line in cli("list")[1].splitlines()[1:]}
    assert "samples=4, graded=4" in lines["base.sums"]
    assert "steps=0, rollouts=0" in lines["ta"]
    assert "tagrpo train rollouts ta=FOLDER --add" in cli("list").err
    assert cli.json("list", "--kind", "train")["runs"] == [listed["ta"]]
    assert cli.json("show", "base")["run"] == "base.sums"  # the only one called base.X
    assert cli.json("show", "ta")["recipe"] == "ta_grpo"
    assert "Choose one: base.sums, math-run, ta" in cli.refused("show")
