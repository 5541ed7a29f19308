"""`tagrpo train`: what is listed, shown and planned, and how a run is told of; the page of recipes."""

import json
import os
import random
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import squeezed, words
from eval_runs import add_eval_run
from fake_verl import put_in_place
from runs import Proposed, add_run
from tiny_model import save_tiny_tokenizer

from evaluator.config import EvalConfig
from rephraser.sets.problems import load_neighbors
from rephraser.sets.publish import publish
from service.database import Database
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.record.runs import list_train_runs
from trainer_adapter.verl.plugin.settings import PlugInSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recipes.md"
SMALL = ("verl.data.train_batch_size=4", "verl.actor_rollout_ref.actor.ppo_mini_batch_size=4", "responses=2")


@pytest.fixture
def place(cli, tmp_path, monkeypatch):
    """A folder with a set math@1 of twelve questions with two neighbors each, and a pilot over it."""
    for name in ("FAKE_VERL", "VERL_USE_EXTERNAL_MODULES", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("evaluator.signal.shapes.REPLICATES", 4)
    rng = random.Random(1)
    asked = [(f"{q}+1=?", str(q + 1), [Proposed(f"Add 1 to {q}."), Proposed(f"1+{q}=?")]) for q in range(12)]
    with Database.open(tmp_path / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "math", run="source")
        placed = load_neighbors(EvalConfig(neighbors="math@1", model="m"), database).placed
        counts = [(8, rng.choice((0, 0, 8, 8, 8, 3)), 0) for _ in placed]
        add_eval_run(database, "pilot", counts, problems=placed)
    return tmp_path


def test_recipes_are_listed_and_shown_with_the_source_of_each_value(cli):
    done = cli("train", "recipes")
    for name in RECIPES:
        assert re.search(rf"^{name}\s", done.out, re.M)
    listed = cli.json("train", "recipes")["recipes"]
    assert listed == [recipe.to_json() for recipe in RECIPES.values()]
    done = cli.ok("train", "recipes", "ta_grpo", "--model", "Qwen/Qwen3-1.7B", "--gpus", 4, "anchor=own")
    assert "ta_grpo[anchor=own]: ta_grpo with anchor=own" in done.out
    assert "N=3, G=8: 32 responses per question" in done.out
    assert re.search(r"^actor_rollout_ref\.actor\.optim\.lr +1e-06 +Table 2", done.out, re.M)
    assert re.search(r"^\+data\.apply_chat_template_kwargs\.enable_thinking +false +model", done.out, re.M)
    assert "machine: tagrpo's estimate for the machine; not tested on GPUs" in done.out
    shown = cli.json("train", "recipes", "ta_grpo", "--cpu", "verl.trainer.save_freq=5")
    by_key = {each["key"]: each for each in shown["overrides"]}
    assert by_key["trainer.save_freq"]["source"] == "user"
    assert by_key["actor_rollout_ref.rollout.name"]["value"] == "transformers"
    assert (shown["machine"]["cpu"], "+tagrpo=cpu" in shown["arguments"]) == (True, True)


@pytest.mark.slow
def test_what_cannot_be_is_refused(cli, place):
    cli.refuses(
        {
            "train recipes a_grae --preset cw": "--preset cw sets responses=12 reward=",
            "train run grpo --model m --data b prompt_file=w": "prompt_file: only for",
            "train run grpo --model m --data b answer_kind=choice": "only for --set",
            "train run grpo --data b": "Pass --model with a folder",
            "train run grpo dapo --model m": "grpo, dapo: give one recipe",
            "train run grpo --model m --set a tolerance=1%": "answer kind tolerance",
            "train recipes grpoo": "no recipe 'grpoo'. Did you mean grpo?",
            "train recipes grpo verl.actor_rollout_ref.rollout.n=4": "recipe grpo sets this",
            "train recipes grpo advantage=mymod:fn": "module mymod cannot be imported",
            "train recipes grpo respones=2": "respones: unknown setting. Did you mean responses?",
            "train recipes grpo anchor=theirs": "anchor is 'theirs'; give one of: question, own",
            "train recipes grpo trainer.save_freq=5": "start with `verl.`: verl.trainer.save_freq=5",
            "train recipes grpo verl.tagrpo_run.seed=5": "or a setting (run.seed=7)",
            "train recipes grpo run.seed=-1": "run.seed is -1; give an integer, at least 0",
            "train run grpo --model m --set a --cpu --gpus 2": "Remove --gpus and --nodes.",
            "train recipes grpo nodes=2": "need a Ray cluster",
            "train plan grpo --model Qwen3-4B": "--questions",
            "train plan grpo --model m --questions 9 --assume training_tflops=0": "give a number, more than",
            "train plan grpo --model Qwen3-4B --questions 10": "10 questions do not fill a batch of 256",
            "train plan grpo --model Qwen3-4B --questions 512 --assume shift_sd=1": "--pilot",
            "train plan grpo --model Qwen3-4B --data nowhere": "not an export for verl",
            "train run grpo --model m --set a --data b": "--set",
            "train run grpo --model m --cpu": "there is no training data",
        }
    )
    assert not (place / "runs").exists()


def test_a_plan_sets_the_recipe_beside_grpo_and_says_if_it_does_not_fit(cli):
    words = ["train", "plan", "ta_grpo", "--model", "Qwen/Qwen3-4B", "--gpus", 4, "--questions", 7498]
    done = cli.ok(*words)
    lines = squeezed(done.out)
    assert {"model Qwen/Qwen3-4B", "parameters 4,022,468,096", "gpu gib 80"} <= {*lines}
    assert "machine gpus=4, nodes=1, cpu=no" in lines
    assert re.search(r"^ta_grpo +32 +2 +58 +116 +475,136 ", done.out, re.M)
    assert re.search(r"^grpo, equal epochs +8 +2 +58 +116 +118,784 ", done.out, re.M)
    assert re.search(r"^grpo, equal responses +8 +8 +232 +464 +475,136 ", done.out, re.M)
    assert "the time estimate is incomplete; add --assume tokens_per_second=N" in done.out
    assert "8 T V" in done.out
    speeds = ("tokens_per_second=2000", "training_tflops=100", "mean_tokens=500")
    known = cli.json(*words, *(word for speed in speeds for word in ("--assume", speed)))
    assert known["methods"][0]["generation_hours"] == pytest.approx(475_136 * 500 / 8000 / 3600)
    assert known["methods"][0]["at_most"] is False
    assert known["memory"]["fits"] is True
    small = ("--questions", 512, "--assume", "gpu_memory_gib=40")
    error = cli.warned("train", "plan", "ta_grpo", "--model", "Qwen3-4B", *small).err
    assert re.search(r"the update needs \d+ GiB, but a GPU has 40 GiB. .*ppo_max_token_len_per_gpu", error)


def test_a_plan_takes_the_settings_of_a_paper(cli):
    words = ["cw_grpo", "--model", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "--preset", "cw"]
    planned = cli.json("train", "plan", *words, "--questions", 7000, "--compare", "grpo")
    methods = [(each["method"], each["responses_per_question"], each["steps"]) for each in planned["methods"]]
    assert (planned["preset"], methods) == ("cw", [("cw_grpo", 12, 100), ("grpo", 12, 100)])
    shown = cli("train", "recipes", "cw_grpo", "--preset", "cw").out
    assert "preset cw: CW-GRPO (arXiv 2605.11538)" in shown
    assert "CW Table 5: arXiv 2605.11538, Table 5" in shown


@pytest.mark.slow
def test_a_plan_writes_a_script_that_trains_evaluates_and_reports(cli, place, monkeypatch):
    cli.ok("sets", "export", "math@1", "--format", "verl", "--out", "verl")
    plan: list[object] = ["train", "plan", "ta_rescue", *SMALL[:2], "loss.kl_coef=0"]
    plan += ["--model", "Qwen/Qwen3-4B"]
    plan += ["--data", "verl", "--compare", "grpo,ta_grpo", "--responses", 256, "--script", "go.sh"]
    done = cli.ok(*plan)
    assert "Try it with --dry-run first" in done.err
    text = Path("go.sh").read_text(encoding="utf-8")
    # 256 responses are 8 steps of 4 questions with 8 responses, 2 of 32; 12 questions make 3 steps an epoch
    changed = "ta_rescue-loss.kl_coef-0"
    assert f'train {changed} ta_rescue 8 3 "$seed" loss.kl_coef=0 verl.data.train_batch_size=4' in text
    assert 'train ta_grpo ta_grpo 2 1 "$seed" verl.data.train_batch_size=4' in text
    assert 'run.seed="$seed" verl.data.seed="$seed"' in text
    assert "global_step_8/actor/huggingface" in text
    cli.refused(*plan)

    (place / "sums.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n', encoding="utf-8")
    command = place / "bin" / "tagrpo"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done >> calls\necho >> calls\n')
    command.chmod(0o755)
    environment = {"PATH": f"{command.parent}:{os.environ['PATH']}", "SEEDS": "1"}
    environment |= {"BENCHMARKS": "sums.jsonl", "PRESET": "default"}
    subprocess.run(["bash", "go.sh", "--dry-run"], env={**os.environ, **environment}, check=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # else it is asked six times
    calls = [call.splitlines() for call in Path("calls").read_text(encoding="utf-8").split("\n\n")[:-1]]
    tried = [cli(*call) for call in calls]
    assert [call[:2] for call in calls] == [["train", "run"]] * 3 + [["eval", "run"]]
    assert {done.code for done in tried} == {0}, tried
    assert all("verl.trainer.main_ppo" in done.out for done in tried[:3])
    assert "Qwen3-4B-base.sums" in tried[3].out
    lora = "verl.actor_rollout_ref.model.lora_rank=8"
    assert "evaluates whole models" in cli.refused(*plan[:-1], "lora.sh", lora)
    assert not Path("lora.sh").exists()
    assert "--data and --compare" in cli.refused(
        "train", "plan", "grpo", "--model", "Qwen3-4B", "--questions", 512, "--script", "x.sh"
    )


def test_verl_merges_a_checkpoint(cli, tmp_path, monkeypatch):
    shards = Path("runs/x/checkpoints/global_step_2/actor")
    assert "contains no verl checkpoint" in words(cli("train", "merge", "runs", "--out", "m").err)
    shards.mkdir(parents=True)
    (shards / "model_world_size_1_rank_0.pt").touch()
    tool = Path("fake/verl/model_merger/__main__.py")
    tool.parent.mkdir(parents=True)
    (tool.parent / "__init__.py").touch()
    (tool.parents[1] / "__init__.py").touch()
    tool.write_text("import pathlib, sys\npathlib.Path(sys.argv[-1]).mkdir()\nprint(*sys.argv[1:])\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    done = cli("train", "merge", shards.parent, "--out", "merged")
    assert (done.code, done.out) == (0, "model  merged\n")
    assert "merged already exists" in cli.refused("train", "merge", shards.parent, "--out", "merged")
    tool.write_text("raise SystemExit(3)")
    failed = cli("train", "merge", shards.parent, "--out", "other")
    assert (failed.code, "verl's tool ended with exit code 3" in failed.err) == (1, True)


@pytest.mark.slow
def test_a_pilot_gives_the_forecast_of_the_recipes_groups(cli, place):
    words = ["--model", "Qwen3-1.7B", "--questions", 512, "--pilot", "pilot"]
    plan = cli.json("train", "plan", "ta_grpo", "neighbors=2", *words)
    forecast = cli.json("diagnose", "pilot", "--only", "forecast", "--g", 8, "--n", 2)
    shares = {row["group"]: row["share"] for row in forecast["forecast"]}
    joint, alone = plan["methods"][0]["no_gradient"], plan["methods"][1]["no_gradient"]
    assert joint == pytest.approx(next(v for k, v in shares.items() if "joint" in k))
    assert 0 < joint < alone < 1
    assert plan["pilot"]["run"] == "pilot"
    dry = cli.warned("train", "plan", "grpo_ds", *words)
    assert "dynamic sampling will sample" in dry.err


@pytest.fixture
def command(place, monkeypatch):
    """Return the command of a training, with a stand-in for verl's entry point."""
    put_in_place(monkeypatch, place / "fake")
    model = save_tiny_tokenizer(place / "model")
    return ["train", "run", "ta_grpo", "--set", "math", "--model", model, "--cpu", "--name", "x", *SMALL]


@pytest.mark.slow
def test_a_dry_run_prints_the_command(cli, place, command):
    done = cli.ok(*command, "--dry-run")
    modules = "trainer_adapter.verl.cpu.registration,trainer_adapter.verl.plugin"
    assert f"VERL_USE_EXTERNAL_MODULES={modules}" in done.out
    assert "12 of 12 questions have fewer than 3 neighbors" in done.err
    assert not (place / "runs").exists()
    as_json = cli.json(*command, "--dry-run")
    assert as_json["command"][1:5] == ["-W", "ignore", "-m", "trainer_adapter.verl.cpu"]


@pytest.mark.slow
def test_a_run_shows_the_log_and_says_what_came_of_it(cli, place, command, monkeypatch):
    monkeypatch.setenv("FAKE_VERL_METRICS", '{"tagrpo/correct/mean": 0.0}')
    done = cli.ok(*command)
    assert "no response in this step is correct" in done.out
    assert "-m trainer_adapter.verl.cpu" in done.err
    assert "step:2 - actor/pg_loss" in done.err
    assert "checkpoint 2" in squeezed(done.out)
    words = place / "words.txt"
    words.write_text("Box it.", encoding="utf-8")
    config = json.loads((place / "runs" / "x" / "config.json").read_text(encoding="utf-8"))
    assert (config["preset"], config["spec"]["preset"]) == ("ta", "ta")
    assert "another preset or prompt_file" in cli.refused(*command, f"prompt_file={words}")
    assert "another answer_kind or tolerance" in cli.refused(*command, "answer_kind=integer")
    micro_batch = "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    again = cli(*command, "--hide-log", "--json", f"{micro_batch}=8192")
    assert json.loads(again.out)["number"] == 2
    more = cli("resume", "x", "--json", f"{micro_batch}=4096")
    assert (more.code, json.loads(more.out)["number"] >= 2) == (0, True)
    cli.refuses(
        {
            "resume x anchor=own": "anchor=own: this setting affects the results",
            "resume x run.seed=7": "run.seed=7: this setting affects the results",
            "resume x verl.data.seed=7": "data.seed (42 stored, 7 given)",
        }
    )
    # a run of training is none of neighbors: there is one of those, which needs no name
    cli.ok("rephrase", "list")
    assert "recipe ta_grpo[responses=2]" in squeezed(cli("runs", "show", "x").out)
    assert "run 'x' is of kind train, not propose" in cli.refused("rephrase", "list", "--run", "x")


@pytest.mark.slow
def test_what_it_draws_is_read_meanwhile_and_a_damaged_file_is_named(cli, place, command, monkeypatch):
    monkeypatch.setenv("FAKE_VERL_RECORD", str(ROOT / "tests" / "support"))
    seen: list[int] = []

    def look(line: Any, **more: Any) -> None:
        if line == "hanging" and not seen:
            with Database.open("tagrpo.db", read_only=True) as database, database.read() as session:
                [training] = list_train_runs(session)
            seen.append(training.numbers.rollouts)
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setenv("FAKE_VERL", "hang")
        patch.setattr("ui.cli.output.write_line", look)
        done = cli(*command)
    assert (done.code, seen[0] > 0) == (130, True)
    assert done.err.count("Resume from") == 1  # and not once more by whoever sees the exit code
    assert "stopped by SIGINT, verl ended. Resume from the checkpoint of step 1 with" in done.err
    step = place / "runs" / "x" / "rollouts" / "step-00000001.parquet"
    step.unlink()
    step.write_bytes(b"broken")  # as a copy that was cut off leaves it
    done = cli("train", "rollouts", "x", "--step", 2, "--json")
    assert f"{step}: is empty, cut short or still being copied" in done.err
    assert json.loads(done.out)["rollouts"]


@pytest.mark.slow
def test_a_failed_run_exits_with_1_and_the_last_errors(cli, command, monkeypatch):
    monkeypatch.setenv("FAKE_VERL", "fail")
    done = cli(*command)
    assert done.code == 1
    assert "verl ended with exit code 1; the last errors in" in done.err
    assert "RuntimeError: CUDA out of memory" in done.err
    assert "the GPU ran out of memory" in done.err
    assert "with `tagrpo resume x`." in done.err
    assert "with `tagrpo resume x --hide-log`." in cli(*command, "--hide-log").err
    monkeypatch.delenv("FAKE_VERL")
    resumed = cli.ok("resume", "x", "--hide-log")
    assert "verl's output in logs/" in resumed.err
    assert "step:2 - " not in resumed.err


def test_a_file_holds_all_namespaces_and_words_win_over_it(cli, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "m"\nanchor = "own"\n[recipe]\nname = "ta_grpo"\n[loss]\nkl_coef = 0\n[run]\nseed = 7\n'
        '[verl]\ntrainer.save_freq = 5\ndata.seed = 3\n"+trainer.mine" = "a b"\n',
        encoding="utf-8",
    )
    shown = cli.json("train", "recipes", "-c", file, "verl.data.seed=9", "run.waves=true")
    assert shown["recipe"]["name"] == "ta_grpo[anchor=own,loss.kl_coef=0]"
    assert (shown["plug_in"]["seed"], shown["plug_in"]["waves"]) == (7, True)
    values = {each["key"]: each["value"] for each in shown["overrides"] if each["source"] == "user"}
    assert values == {"trainer.save_freq": 5, "+trainer.mine": "a b", "data.seed": 9}
    assert "+trainer.mine='a b'" in shown["arguments"]
    file.write_text('modle = "m"\n[loss]\nkl_coef = "0"\n[run]\nwaves = 1\n', encoding="utf-8")
    refused = cli("train", "recipes", "grpo", "-c", file)
    assert refused.code == 2
    for line in (
        f"{file}:1: modle: unknown setting. Did you mean model?",
        f"{file}:3: loss.kl_coef is '0'; give a number.",
        f"{file}:5: run.waves is 1; give true or false.",
    ):
        assert line in refused.err


def test_the_page_of_recipes_names_every_axis_and_setting():
    page = PAGE.read_text(encoding="utf-8")
    recipe = RECIPES["grpo"].to_json()
    keys = [key for key in recipe if key not in ("name", "summary", "loss")]
    for key in [*keys, *(f"loss.{key}" for key in recipe["loss"])]:
        assert f"`{key}`" in page, key
    for key in PlugInSettings.model_fields:
        assert f"`run.{key}`" in page, key
