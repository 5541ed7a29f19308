"""`tagrpo train rollouts` and `train metrics`: what a user of a training run types."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here, squeezed, words
from rescues import write_rescues
from rollout_shards import make_record, write_run
from seeded_trainings import seeded_trainings

from trainer_adapter.record import RolloutWriter

TRAIN, RUNS = run_here.within("train"), run_here.within("runs")
run = run_here.within("train", "rollouts")


@pytest.fixture(autouse=True)
def _folder(command_line, tmp_path):
    write_run(tmp_path / "ta")


def listed() -> list[dict[str, Any]]:
    return list(RUNS.json("list", "--kind", "train")["runs"])


def test_a_folder_is_added_and_its_new_place_too():
    assert "nowhere: the rollout folder cannot be read" in run.refused("nowhere", "--add")
    Path("empty").mkdir()
    assert "empty: contains no rollouts" in run.refused("empty", "--add")
    assert not Path("tagrpo.db").exists()
    assert {"run ta", "steps 2", "rollouts 32"} <= {*squeezed(run.ok("ta", "--add").out)}
    assert run.json("again=ta", "--add")["folder"] == str(Path("ta").resolve())
    runs = sorted((one["run"], one["recipe"], one["steps"], one["rollouts"]) for one in listed())
    assert runs == [("again", "ta_grpo", 2, 32), ("ta", "ta_grpo", 2, 32)]
    assert "Choose one: again, ta" in run.refused("--limit", "1")
    Path("ta").rename("moved")
    said = run.refused("ta")
    assert f"{Path('ta').resolve()}: run 'ta' had its rollouts here" in said
    assert "`tagrpo train rollouts ta=FOLDER --add`" in said
    run.ok("moved", "--add")
    assert len(run.json("ta")["rollouts"]) == 25


def test_a_run_shows_its_alarms():
    with RolloutWriter(Path("odd"), "odd", spec={"recipe": "ta_grpo"}, versions={}) as writer:
        for step, correct in ((1, 0.5), (2, 0.0), (3, 0.0)):
            writer.write(step, [make_record(step)])
            writer.write_metrics(step, {"tagrpo/correct/mean": correct})
    run.ok("odd", "--add")
    text = RUNS.ok("show", "odd").out
    assert text.count("no response in this step is correct") == 1
    [alarm] = RUNS.json("show", "odd")["alarms"]
    assert (alarm["step"], alarm["metric"], alarm["value"]) == (2, "tagrpo/correct/mean", 0.0)


def test_a_damaged_file_is_named_and_the_rest_is_shown():
    run.ok("ta", "--add")
    Path("ta/step-00000002.parquet").write_bytes(b"PAR1")
    done = run.ok("ta", "--json")
    assert "step-00000002.parquet: is damaged or still being copied" in words(done.err)
    assert {row["step"] for row in json.loads(done.out)["rollouts"]} == {1}
    Path("ta/texts-00000001.parquet").unlink()
    assert "texts-00000001.parquet: is missing" in words(run.ok("ta", "--text", "boxed").err)
    assert "texts-00000001.parquet: is missing" in run.refused("ta:1:0")


def test_rollouts_are_filtered_and_paged():
    run.ok("ta", "--add")
    first = run.json("--limit", "20")
    rest = run.json("--limit", "20", "--after", str(first["after"]))
    assert (len(first["rollouts"]), len(rest["rollouts"]), rest["after"]) == (20, 12, None)
    wrong = run.json("ta", "--step", "1", "--variant", "0", "--grade", "wrong")["rollouts"]
    assert {(row["step"], row["variant"], row["grade"], row["reward"]) for row in wrong} == {
        (1, 0, "wrong", 0)
    }
    assert len(run.json("--question", first["rollouts"][-1]["question_id"])["rollouts"]) == 16
    assert run.json("--question", "%")["rollouts"] == []  # a beginning of an id, not a pattern
    assert len(run.json("--question", "q_", "--limit", "99")["rollouts"]) == 32
    for steps, count in (("2:", 16), ("1:2", 32), ("9", 0)):
        assert len(run.json("--step", steps, "--limit", "99")["rollouts"]) == count
    assert "more: --after" in run.ok("--limit", "3").out
    assert "not a grade" in run.refused("--grade", "good")
    assert "'x' is not a range" in run.refused("--step", "x")


def test_responses_are_searched_page_by_page(monkeypatch):
    run.ok("ta", "--add")
    every = run.json("ta", "--limit", "40")["rollouts"]
    text = run.json(every[5]["id"])["response"]
    found = run.json("ta", "--text", text.upper(), "--limit", "40")
    assert every[5]["id"] in [row["id"] for row in found["rollouts"]]
    page = run.json("ta", "--text", text, "--limit", "1")
    rest = run.json("ta", "--text", text, "--limit", "40", "--after", str(page["after"]))
    assert page["rollouts"] + rest["rollouts"] == found["rollouts"]
    monkeypatch.setattr("trainer_adapter.record.listing.TEXTS_READ", 4)
    monkeypatch.setattr("trainer_adapter.record.listing.TEXTS_TOGETHER", 2)
    part = run.json("ta", "--text", "nowhere to be read")
    assert (part["rollouts"], part["after"]) == ([], every[3]["id"])  # four texts were read


def test_one_rollout_is_shown_without_control_characters():
    with RolloutWriter(Path("ta"), "ta") as writer:
        writer.write(3, [make_record(3, response="\x1b[31mred" + "x" * 9000, sampling_log_prob=None)])
    run.ok("ta", "--add")
    shown = run.ok("ta:3:0").out
    assert "␛[31mred" in shown
    assert "What is 0 + 1? (0)" in shown
    assert run.json("ta:3:0")["response"].endswith("xxx")
    assert run.json("3:0") == run.json("ta:3:0")  # of the only training
    assert "no rollout 3:9" in run.refused("3:9")


def test_rescued_questions_are_listed():
    write_rescues(Path("staged"))
    run.ok("staged", "--add")
    everything = run.json("--rescued", "all")
    outcomes = {question["question_id"]: question["outcome"] for question in everything["questions"]}
    assert sorted(outcomes.values()) == ["never rescued", "rescued"]
    assert everything["totals"]["revived_share"] == 0.5
    for option, outcome in (("yes", "rescued"), ("never", "never rescued")):
        [question] = run.json("--rescued", option)["questions"]
        assert question["outcome"] == outcome
    shown = run.ok("--rescued", "all", "--limit", "1").out
    assert "neighbors were sampled" in shown
    assert "more: --after" in shown
    run.ok("ta", "--add")
    assert "Only recipes with sampling=rescue" in run.refused("ta", "--rescued", "all")


def test_pruning_shows_what_goes_and_removes_it_with_yes():
    run.ok("ta", "--add")
    prune = ("ta", "--prune", "2:0")
    shown = squeezed(run.ok(*prune).out)
    assert {"rollouts 16", "steps 1", "Nothing was removed. Add --yes to remove these files."} <= {*shown}
    assert Path("ta/step-00000001.parquet").exists()
    assert run.json("ta", "--prune", "2")["steps"] == []  # the last ten stay
    assert run.json(*prune, "--yes")["steps"] == [1]
    assert [path.name for path in Path("ta").glob("step-*")] == ["step-00000002.parquet"]
    assert listed()[0]["rollouts"] == 32  # counts stay
    assert {row["step"] for row in TRAIN.json("metrics", "--metric", "*")["metrics"]} == {1, 2}
    assert "Step 1 was pruned" in run.refused("ta:1:0")


def test_metrics_of_a_run():
    run.ok("ta", "--add")
    rows = TRAIN.json("metrics", "--metric", "tagrpo/*", "--metric", "actor/lr")["metrics"]
    of_step = [[(row["metric"], row["value"]) for row in rows if row["step"] == step] for step in (1, 2)]
    assert of_step == [[("tagrpo/reward/mean", mean), ("actor/lr", 1e-6)] for mean in (0.1, 0.2)]
    table = [line.split() for line in TRAIN.ok("metrics", "ta", "--metric", "*").out.splitlines()]
    assert table[0] == ["run", "step", "actor/lr", "tagrpo/reward/mean"]
    assert table[-1] == ["ta", "2", "1e-06", "0.2"]
    assert "--metric '*' shows all" in TRAIN.ok("metrics").out  # none of the main ones was logged
    assert "no metric 'actor/lrr'. Similar: actor/lr" in TRAIN.refused("metrics", "--metric", "actor/lrr")


def test_metrics_of_several_runs_with_seeds_as_mean_and_band(tmp_path):
    db = str(seeded_trainings(tmp_path))
    words = ("metrics", "s0", "s1", "s2", "faster", "--metric", "actor/*", "--db", db)
    assert len(TRAIN.json(*words)["metrics"]) == 11
    rows = TRAIN.json(*words, "--seeds")["metrics"]
    assert [(row["label"], row["step"], row["value"], row["low"], row["high"], row["n"]) for row in rows] == [
        ("s0 + s1 + s2", 1, 3.0, 1.0, 6.0, 3),
        ("s0 + s1 + s2", 2, 4.0, 2.0, 6.0, 3),
        *(("faster", step, 9.0, 9.0, 9.0, 1) for step in (1, 2, 3)),
    ]
    assert "4 (2 to 6)" in TRAIN.ok(*words, "--seeds", "--chart", "lr.svg").out
    assert "lowest to highest" in Path("lr.svg").read_text()
    several = TRAIN.refused("metrics", "s0", "--metric", "*", "--chart", "other.svg", "--db", db)
    assert "--chart plots one metric" in several
