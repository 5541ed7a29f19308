"""`tagrpo train rollouts` and `train metrics`: what a user of a training run types."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, run_here, squeezed, words
from rescues import write_rescues
from rollout_shards import make_record, write_run
from seeded_trainings import seeded_trainings

from trainer_adapter.record import RolloutWriter


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAGRPO_DB", raising=False)
    write_run(tmp_path / "ta")


def run(*arguments: str, code: int = 0) -> Done:
    command = () if arguments[0] == "metrics" else ("rollouts",)
    done = run_here("train", *command, *arguments)
    assert done.code == code, done
    return done


def refused(*arguments: str) -> str:
    return words(run(*arguments, code=2).err)


def read(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").out)
    return found


def listed() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(run_here("runs", "list", "--kind", "train", "--json").out)["runs"]
    return runs


def test_a_folder_is_added_and_its_new_place_too() -> None:
    assert "nowhere: the rollout folder cannot be read" in refused("nowhere", "--add")
    Path("empty").mkdir()
    assert "empty: contains no rollouts" in refused("empty", "--add")
    assert not Path("tagrpo.db").exists()
    assert {"run ta", "steps 2", "rollouts 32"} <= {*squeezed(run("ta", "--add").out)}
    assert read("again=ta", "--add")["folder"] == str(Path("ta").resolve())
    assert sorted((one["run"], one["recipe"], one["steps"], one["rollouts"]) for one in listed()) == [
        ("again", "ta_grpo", 2, 32),
        ("ta", "ta_grpo", 2, 32),
    ]
    assert "Choose one: again, ta" in refused("--limit", "1")
    Path("ta").rename("moved")
    said = refused("ta")
    assert f"{Path('ta').resolve()}: run 'ta' had its rollouts here" in said
    assert "`tagrpo train rollouts ta=FOLDER --add`" in said
    run("moved", "--add")
    assert len(read("ta")["rollouts"]) == 25


def test_a_run_shows_its_alarms() -> None:
    with RolloutWriter(Path("odd"), "odd", spec={"recipe": "ta_grpo"}, versions={}) as writer:
        for step, correct in ((1, 0.5), (2, 0.0), (3, 0.0)):
            writer.write(step, [make_record(step)])
            writer.write_metrics(step, {"tagrpo/correct/mean": correct})
    run("odd", "--add")
    text = run_here("runs", "show", "odd").out
    assert text.count("no response in this step is correct") == 1
    [alarm] = json.loads(run_here("runs", "show", "odd", "--json").out)["alarms"]
    assert (alarm["step"], alarm["metric"], alarm["value"]) == (2, "tagrpo/correct/mean", 0.0)


def test_a_damaged_file_is_named_and_the_rest_is_shown() -> None:
    run("ta", "--add")
    Path("ta/step-00000002.parquet").write_bytes(b"PAR1")
    done = run("ta", "--json")
    assert "step-00000002.parquet: is damaged or still being copied" in words(done.err)
    assert {row["step"] for row in json.loads(done.out)["rollouts"]} == {1}
    Path("ta/texts-00000001.parquet").unlink()
    assert "texts-00000001.parquet: is missing" in words(run("ta", "--text", "boxed").err)
    assert "texts-00000001.parquet: is missing" in refused("ta:1:0")


def test_rollouts_are_filtered_and_paged() -> None:
    run("ta", "--add")
    first = read("--limit", "20")
    rest = read("--limit", "20", "--after", str(first["after"]))
    assert (len(first["rollouts"]), len(rest["rollouts"]), rest["after"]) == (20, 12, None)
    wrong = read("ta", "--step", "1", "--variant", "0", "--grade", "wrong")["rollouts"]
    assert {(one["step"], one["variant"], one["grade"], one["reward"]) for one in wrong} == {
        (1, 0, "wrong", 0)
    }
    assert len(read("--question", first["rollouts"][-1]["question_id"])["rollouts"]) == 16
    assert read("--question", "%")["rollouts"] == []  # a beginning of an id, not a pattern
    assert len(read("--question", "q_", "--limit", "99")["rollouts"]) == 32
    for options, count in (
        (("--step", "2:"), 16),
        (("--step", "1:2"), 32),
        (("--step", "9"), 0),
    ):
        assert len(read(*options, "--limit", "99")["rollouts"]) == count
    assert "more: --after" in run("--limit", "3").out
    assert "not a grade" in refused("--grade", "good")
    assert "'x' is not a range" in refused("--step", "x")


def test_responses_are_searched_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    run("ta", "--add")
    every = read("ta", "--limit", "40")["rollouts"]
    text = read(every[5]["id"])["response"]
    found = read("ta", "--text", text.upper(), "--limit", "40")
    assert every[5]["id"] in [row["id"] for row in found["rollouts"]]
    page = read("ta", "--text", text, "--limit", "1")
    rest = read("ta", "--text", text, "--limit", "40", "--after", str(page["after"]))
    assert page["rollouts"] + rest["rollouts"] == found["rollouts"]
    monkeypatch.setattr("trainer_adapter.record.listing.TEXTS_READ", 4)
    monkeypatch.setattr("trainer_adapter.record.listing.TEXTS_TOGETHER", 2)
    part = read("ta", "--text", "nowhere to be read")
    assert (part["rollouts"], part["after"]) == ([], every[3]["id"])  # four texts were read


def test_one_rollout_is_shown_without_control_characters() -> None:
    with RolloutWriter(Path("ta"), "ta") as writer:
        writer.write(3, [make_record(3, response="\x1b[31mred" + "x" * 9000, sampling_log_prob=None)])
    run("ta", "--add")
    shown = run("ta:3:0").out
    assert "␛[31mred" in shown
    assert "What is 0 + 1? (0)" in shown
    assert read("ta:3:0")["response"].endswith("xxx")
    assert read("3:0") == read("ta:3:0")  # of the only training
    assert "no rollout 3:9" in refused("3:9")


def test_rescued_questions_are_listed() -> None:
    write_rescues(Path("staged"))
    run("staged", "--add")
    everything = read("--rescued", "all")
    outcomes = {question["question_id"]: question["outcome"] for question in everything["questions"]}
    assert sorted(outcomes.values()) == ["never rescued", "rescued"]
    assert everything["totals"]["revived_share"] == 0.5
    for option, outcome in (("yes", "rescued"), ("never", "never rescued")):
        [question] = read("--rescued", option)["questions"]
        assert question["outcome"] == outcome
    shown = run("--rescued", "all", "--limit", "1").out
    assert "neighbors were sampled" in shown
    assert "more: --after" in shown
    run("ta", "--add")
    assert "Only recipes with sampling=rescue" in refused("ta", "--rescued", "all")


def test_pruning_shows_what_goes_and_removes_it_with_yes() -> None:
    run("ta", "--add")
    prune = ("ta", "--prune", "2:0")
    shown = squeezed(run(*prune).out)
    assert {"rollouts 16", "steps 1", "Nothing was removed. Add --yes to remove these files."} <= {*shown}
    assert Path("ta/step-00000001.parquet").exists()
    assert read("ta", "--prune", "2")["steps"] == []  # the last ten stay
    assert read(*prune, "--yes")["steps"] == [1]
    assert [path.name for path in Path("ta").glob("step-*")] == ["step-00000002.parquet"]
    assert listed()[0]["rollouts"] == 32  # counts stay
    assert {row["step"] for row in read("metrics", "--metric", "*")["metrics"]} == {1, 2}
    assert "Step 1 was pruned" in refused("ta:1:0")


def test_metrics_of_a_run() -> None:
    run("ta", "--add")
    rows = read("metrics", "--metric", "tagrpo/*", "--metric", "actor/lr")["metrics"]
    assert [(row["step"], row["metric"], row["value"]) for row in rows] == [
        (1, "tagrpo/reward/mean", 0.1),
        (1, "actor/lr", 1e-6),
        (2, "tagrpo/reward/mean", 0.2),
        (2, "actor/lr", 1e-6),
    ]
    table = [line.split() for line in run("metrics", "ta", "--metric", "*").out.splitlines()]
    assert table[0] == ["run", "step", "actor/lr", "tagrpo/reward/mean"]
    assert table[-1] == ["ta", "2", "1e-06", "0.2"]
    assert "--metric '*' shows all" in run("metrics").out  # none of the main ones was logged
    assert "no metric 'actor/lrr'. Similar: actor/lr" in refused("metrics", "--metric", "actor/lrr")


def test_metrics_of_several_runs_with_seeds_as_mean_and_band(tmp_path: Path) -> None:
    db = str(seeded_trainings(tmp_path))
    words = ("metrics", "s0", "s1", "s2", "faster", "--metric", "actor/*", "--db", db)
    assert len(read(*words)["metrics"]) == 11
    rows = read(*words, "--seeds")["metrics"]
    assert [(row["label"], row["step"], row["value"], row["low"], row["high"], row["n"]) for row in rows] == [
        ("s0 + s1 + s2", 1, 3.0, 1.0, 6.0, 3),
        ("s0 + s1 + s2", 2, 4.0, 2.0, 6.0, 3),
        *(("faster", step, 9.0, 9.0, 9.0, 1) for step in (1, 2, 3)),
    ]
    assert "4 (2 to 6)" in run(*words, "--seeds", "--chart", "lr.svg").out
    assert "lowest to highest" in Path("lr.svg").read_text()
    several = refused("metrics", "s0", "--metric", "*", "--chart", "other.svg", "--db", db)
    assert "--chart plots one metric" in several
