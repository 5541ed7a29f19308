"""`tagrpo doctor`: what is installed, what is missing, and what makes the exit code 3."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

from command_line import CommandLine, words
from world_runs import world_server

from ui.cli import doctor


def checks(cli: CommandLine, *arguments: object, code: int = 0) -> dict[str, dict[str, Any]]:
    return {check["what"]: check for check in cli.json("doctor", *arguments, code=code)["checks"]}


def test_a_fresh_folder_is_fine_and_no_key_is_shown(cli, monkeypatch):
    found = checks(cli)
    assert found["Python"]["state"] == "ok"
    assert "litellm" in found["base packages"]["detail"]
    assert found["database"]["state"] == found["Hugging Face token"]["state"] == "missing"
    assert "tagrpo questions import" in found["database"]["way_out"]
    assert not list(Path().iterdir())  # looking makes no database
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with_keys = checks(cli)
    assert "OPENAI_API_KEY" in with_keys["API keys"]["detail"]
    assert with_keys["Hugging Face token"]["state"] == "ok"
    assert "secret" not in str(with_keys)
    monkeypatch.setattr("service.enclosure.running._CAN_RUN", Event())
    monkeypatch.setenv("PATH", "/nowhere")
    isolation = checks(cli)["isolation of programs"]
    assert (isolation["state"], "apt-get install bubblewrap" in isolation["way_out"]) == ("missing", True)


def test_training_compares_verl_with_what_the_plug_in_extends(cli, monkeypatch, tmp_path):
    record = cli.json("doctor", "--training")
    recipes = {(each["recipe"], each["tier"], each["runs"]) for each in record["recipes"]}
    assert recipes >= {("ta_grpo", 1, "yes"), ("cw_grpo", 2, "yes")}
    assert "(tested)" in checks(cli, "--training")["hooks of tier 1"]["detail"]
    monkeypatch.setattr("trainer_adapter.verl.contract.installed_folders", lambda: {"verl": tmp_path})
    out = words(cli.warned("doctor", "--training").out)
    assert "ta_rescue 2 no verl/" in out
    assert "trainer_base.py, PPOTrainer._compute_advantage: there is no such file" in out
    assert "differs hooks of faster CPU training" in out


def test_problems_need_attention(cli, tmp_path, monkeypatch):
    (tmp_path / "text.db").write_text("hello")
    assert "warning: database: see above" in cli.warned("doctor", "--db", "text.db").err
    assert checks(cli, "--db", "text.db", code=3)["database"]["state"] == "problem"
    assert checks(cli, "--db", "absent/t.db", code=3)["disk"]["state"] == "problem"
    mount = SimpleNamespace(mountpoint="/", fstype="lustre")
    with monkeypatch.context() as patch:
        patch.setattr("psutil.disk_partitions", lambda all: [mount])
        database = checks(cli, "--db", tmp_path / "t.db", code=3)["database"]
    assert (database["state"], "(lustre)" in database["detail"]) == ("problem", True)
    monkeypatch.setattr(doctor, "LOW_DISK_GB", 1e9)
    monkeypatch.setattr(doctor, "BASE", ("litellm", "no-such-package"))
    monkeypatch.setattr(doctor, "EXTRAS", {"magic": (("no-such-package",), "pip install magic")})
    assert "base packages, disk" in cli.warned("doctor").err
    found = checks(cli, code=3)
    assert found["base packages"]["detail"] == "not installed: no-such-package"
    assert (found["magic"]["state"], found["magic"]["way_out"]) == ("missing", "pip install magic")


def test_a_model_is_reached_or_the_reason_is_named(cli):
    with world_server("--model", "test-model") as url:
        at_url = ("--base-url", url, "--model")
        model = checks(cli, *at_url, "openai/test-model")["model openai/test-model"]
        other = checks(cli, *at_url, "openai/other", code=3)["model openai/other"]
    assert "reachable, structured output" in model["detail"]
    assert "set the model's price" in model["detail"]
    assert "does not serve the model 'other'" in other["detail"]
    assert "cannot be used (connection" in cli.warned("doctor", *at_url, "openai/test-model").out
    assert "knows no provider" in cli.warned("doctor", "--model", "frobnicate").out
