"""`tagrpo rollouts`: what a user of a training run types."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, run_here, words
from rollout_shards import make_record, write_run
from seeded_trainings import seeded_trainings

from trainer_adapter.record import RolloutWriter


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAGRPO_DB", raising=False)
    write_run(tmp_path / "ta")


def run(*arguments: str, code: int = 0) -> Done:
    done = run_here("rollouts", *arguments)
    assert done.code == code, done
    return done


def refused(*arguments: str) -> str:
    return words(run(*arguments, code=2).err)


def read(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").out)
    return found


def listed() -> list[dict[str, Any]]:
    done = run_here("runs", "list", "--kind", "train", "--json")
    runs: list[dict[str, Any]] = json.loads(done.out)["runs"]
    return runs


def test_a_folder_is_added_and_its_new_place_too() -> None:
    assert "nowhere: the rollout folder cannot be read" in refused("add", "nowhere")
    assert not Path("tagrpo.db").exists()
    assert run("add", "ta").out == "ta: 32 rollouts in 2 steps, 1 to 2\n"
    assert read("add", "ta", "--name", "again")["folder"] == str(Path("ta").resolve())
    assert sorted(one["run"] for one in listed()) == ["again", "ta"]
    Path("ta").rename("moved")
    said = refused("list", "ta")
    assert f"{Path('ta').resolve()}: run 'ta' had its rollouts in this folder" in said
    assert "`tagrpo rollouts add FOLDER --name ta`" in said
    assert "the folder is missing" in run_here("runs", "show", "ta").out
    run("add", "moved")
    assert len(read("list", "ta")["rollouts"]) == 25
    assert "tagrpo rollouts add FOLDER --name again" in run_here("runs", "list", "--kind", "train").err


def test_a_run_shows_its_alarms() -> None:
    with RolloutWriter(Path("odd"), "odd", spec={"recipe": "ta_grpo"}, versions={}) as writer:
        for step, correct in ((1, 0.5), (2, 0.0), (3, 0.0)):
            writer.write(step, [make_record(step)])
            writer.write_metrics(step, {"tagrpo/correct/mean": correct})
    run("add", "odd")
    text = run_here("runs", "show", "odd").out
    assert "alarm at step 2: tagrpo/correct/mean is 0: no response of the step is correct" in text
    assert text.count("alarm at") == 1
    as_json = run_here("runs", "show", "odd", "--json").out
    [alarm] = json.loads(as_json)["alarms"]
    assert (alarm["step"], alarm["metric"], alarm["value"]) == (2, "tagrpo/correct/mean", 0.0)


def test_a_folder_without_a_record_is_refused_and_a_damaged_file_is_named() -> None:
    Path("empty").mkdir()
    assert "empty: contains no rollouts" in refused("add", "empty")
    run("add", "ta")
    Path("ta/step-00000002.parquet").write_bytes(b"PAR1")
    done = run("list", "ta", "--json")
    assert f"{Path('ta').resolve()}/step-00000002.parquet: is damaged or still being copied" in words(
        done.err
    )
    assert {row["step"] for row in json.loads(done.out)["rollouts"]} == {1}
    Path("ta/texts-00000001.parquet").unlink()
    done = run("list", "ta", "--text", "boxed")
    assert "texts-00000001.parquet: is missing" in words(done.err)
    assert "texts-00000001.parquet: is missing" in refused("show", "ta:1:0")


def test_runs_and_steps() -> None:
    run("add", "ta")
    (row,) = listed()
    assert {name: row[name] for name in ("recipe", "steps", "first_step", "last_step", "rollouts")} == {
        "recipe": "ta_grpo",
        "steps": 2,
        "first_step": 1,
        "last_step": 2,
        "rollouts": 32,
    }
    found = read("steps")["steps"]
    assert found[1] == {
        "step": 2,
        "rollouts": 16,
        "metrics": {"tagrpo/reward/mean": 0.2, "actor/lr": 1e-06},
    }
    assert read("steps", "--metric", "tagrpo/*")["steps"][0]["metrics"] == {"tagrpo/reward/mean": 0.1}
    assert "actor/lr" in run("steps", "ta", "--metric", "actor/lr").out
    assert "no metric 'actor/lrr'. Similar: actor/lr" in refused("steps", "--metric", "actor/lrr")


def test_list_filters_and_pages() -> None:
    run("add", "ta")
    first = read("list", "--limit", "20")
    assert len(first["rollouts"]) == 20
    rest = read("list", "--limit", "20", "--after", str(first["after"]))
    assert len(rest["rollouts"]) == 12
    assert rest["after"] is None
    assert read("list", "--limit", "32")["after"] is None
    wrong = read("list", "ta", "--step", "1", "--variant", "0", "--grade", "wrong")["rollouts"]
    assert {(one["step"], one["variant"], one["grade"], one["reward"]) for one in wrong} == {
        (1, 0, "wrong", 0)
    }
    question = first["rollouts"][-1]["question_id"]
    assert len(read("list", "--question", question)["rollouts"]) == 16
    assert len(read("list", "--least-reward", "0.5", "--ended", "--limit", "99")["rollouts"]) == 10
    assert "more: --after" in run("list", "--limit", "3").out
    assert run("list", "--step", "9").out == "no such rollouts\n"
    assert "not a grade" in refused("list", "--grade", "good")


def test_show_prints_prompt_and_text_without_control_characters() -> None:
    with RolloutWriter(Path("ta"), "ta") as writer:
        writer.write(3, [make_record(3, response="\x1b[31mred" + "x" * 3000, sampling_log_prob=None)])
    run("add", "ta")
    number = read("list", "--step", "3")["rollouts"][0]["id"]
    assert number == "ta:3:0"
    shown = run("show", number).out
    assert "␛[31mred" in shown
    assert "What is 0 + 1? (0)" in shown
    assert "1,008 more characters; --full" in shown
    assert "sampling -, reference -" in shown
    assert "more characters; --full" not in run("show", number, "--full").out
    assert read("show", number)["response"].endswith("xxx")
    assert read("show", "3:0") == read("show", number)  # of the only training
    assert "no rollout 3:9" in refused("show", "3:9")
    assert "is not the id of a rollout" in refused("show", "999")


def test_without_a_run_it_says_how_to_get_one() -> None:
    run("add", "ta")
    run("add", "ta", "--name", "second")
    assert "name one: second, ta" in refused("list")


def test_any_metric_of_several_runs_with_seeds_as_mean_and_band(tmp_path: Path) -> None:
    db = str(seeded_trainings(tmp_path))
    words = ("curves", "s0", "s1", "s2", "faster", "--metric", "actor/*", "--db", db)
    assert len(read(*words)["curves"]) == 11
    rows = read(*words, "--seeds")["curves"]
    assert [(row["label"], row["step"], row["value"], row["low"], row["high"], row["n"]) for row in rows] == [
        ("s0 + s1 + s2", 1, 3.0, 1.0, 6.0, 3),
        ("s0 + s1 + s2", 2, 4.0, 2.0, 6.0, 3),
        *(("faster", step, 9.0, 9.0, 9.0, 1) for step in (1, 2, 3)),
    ]
    run(*words, "--seeds", "--out", "lr.csv", "--chart", "lr.svg")
    assert Path("lr.csv").read_text().startswith("label,metric,step,value,low,high,n\n")
    assert "lowest to highest" in Path("lr.svg").read_text()
    assert "the run has no metric" in refused("curves", "s0", "--metric", "actor/lrr", "--db", db)
    assert "--chart draws one metric" in refused(
        "curves", "s0", "--metric", "*", "--chart", "other.svg", "--db", db
    )


def test_responses_are_searched_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", "ta")
    listed = read("list", "ta", "--limit", "40")["rollouts"]
    texts = {row["id"]: read("show", row["id"])["response"] for row in listed[:6]}
    number, text = max(texts.items())
    every = read("list", "ta", "--text", text.upper(), "--limit", "40")
    assert number in [row["id"] for row in every["rollouts"]]
    assert every["after"] is None
    page = read("list", "ta", "--text", text, "--limit", "1")
    rest = read("list", "ta", "--text", text, "--limit", "40", "--after", str(page["after"]))["rollouts"]
    assert page["rollouts"] + rest == every["rollouts"]
    assert read("list", "ta", "--text", "nowhere to be read") == {"run": "ta", "rollouts": [], "after": None}
    monkeypatch.setattr("trainer_adapter.record.listing.TEXTS_READ", 4)
    monkeypatch.setattr("trainer_adapter.record.listing.TEXTS_TOGETHER", 2)
    part = read("list", "ta", "--text", "nowhere to be read")
    assert (part["rollouts"], part["after"]) == ([], listed[3]["id"])  # four texts were read


def test_prune_says_what_goes_and_asks_first() -> None:
    run("add", "ta")
    there = "ta: 16 rollouts of 1 step, 2 files with 0.0 MiB would be removed"
    assert there in run("prune", "ta", "--keep-every", "2", "--keep-last", "0", "--dry-run").out
    assert Path("ta/step-00000001.parquet").exists()
    assert "no step would be removed" in run("prune", "ta", "--keep-every", "2").out  # the last ten stay
    asked = ("prune", "ta", "--keep-every", "2", "--keep-last", "0")
    assert "Give --yes to confirm" in refused(*asked)
    assert read(*asked, "--yes")["steps"] == [1]
    assert [path.name for path in Path("ta").glob("step-*")] == ["step-00000002.parquet"]
    assert [each["rollouts"] for each in read("steps")["steps"]] == [16, 16]  # counts stay
    assert "Step 1 was pruned" in refused("show", "ta:1:0")
