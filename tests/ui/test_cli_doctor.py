"""`tagrpo doctor`: what is there, what is missing, and what makes the exit code 1."""

import json
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import CommandLine
from world_runs import world_server

from ui.cli import doctor


def checks(out: str) -> dict[str, dict[str, Any]]:
    return {check["what"]: check for check in json.loads(out)["checks"]}


def test_a_fresh_folder_is_in_order(cli: CommandLine) -> None:
    done = cli("doctor", "--json")
    assert (done.code, done.err) == (0, "")
    found = checks(done.out)
    assert found["Python"]["state"] == "ok"
    assert "litellm" in found["base packages"]["detail"]
    assert found["database"]["state"] == "missing"
    assert "tagrpo questions import" in found["database"]["way_out"]
    assert found["Hugging Face token"]["state"] == "missing"
    assert not list(Path().iterdir())  # looking makes no database


def test_programs_need_bubblewrap(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.enclosure.running._CAN_RUN", Event())
    monkeypatch.setenv("PATH", "/nowhere")
    done = cli.ok("doctor", "--json")
    found = checks(done.out)["isolation of programs"]
    assert found["state"] == "missing"
    assert "apt-get install bubblewrap" in found["way_out"]


def test_training_holds_verl_against_what_is_extended(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = cli.ok("doctor", "--training", "--json")
    assert "(tested)" in checks(done.out)["hooks of tier 1"]["detail"]
    assert {(each["recipe"], each["tier"], each["runs"]) for each in json.loads(done.out)["recipes"]} >= {
        ("ta_grpo", 1, "yes"),
        ("cw_grpo", 2, "yes"),
    }
    monkeypatch.setattr("trainer_adapter.verl.contract.installed_folders", lambda: {"verl": tmp_path})
    done = cli.warned("doctor", "--training")
    assert "ta_rescue 2 no verl/" in " ".join(done.out.replace("│", "").split())
    assert "trainer_base.py, PPOTrainer._compute_advantage: there is no such file" in " ".join(
        done.out.split()
    )


def test_problems_need_attention(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello")
    done = cli.warned("doctor", "--db", "text.db", "--json")
    assert "warning: database: see above" in done.err
    assert checks(done.out)["database"]["state"] == "problem"
    done = cli("doctor", "--db", "absent/t.db", "--json")
    assert (done.code, checks(done.out)["disk"]["state"]) == (3, "problem")


def test_little_disk_an_old_python_and_missing_packages_are_problems(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LOW_DISK_GB", 1e9)
    monkeypatch.setattr(doctor, "BASE", ("litellm", "no-such-package"))
    monkeypatch.setattr(doctor, "EXTRAS", {"magic": (("no-such-package",), "pip install magic")})
    done = cli("doctor", "--json")
    found = checks(done.out)
    assert done.code == 3
    assert "base packages, disk" in done.err
    assert found["base packages"]["detail"] == "not installed: no-such-package"
    assert (found["magic"]["state"], found["magic"]["way_out"]) == ("missing", "pip install magic")


def test_keys_are_named_and_never_shown(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    out = cli("doctor", "--json").out
    assert "OPENAI_API_KEY" in checks(out)["API keys"]["detail"]
    assert checks(out)["Hugging Face token"]["state"] == "ok"
    assert "secret" not in out


def test_a_model_is_reached_or_the_reason_said(cli: CommandLine) -> None:
    with world_server("--model", "test-model") as url:
        done = cli("doctor", "--model", "openai/test-model", "--base-url", url, "--json")
        other = cli("doctor", "--model", "openai/other", "--base-url", url, "--json")
    assert done.code == 0
    assert "reachable, structured output" in checks(done.out)["model openai/test-model"]["detail"]
    assert "set the model's price" in checks(done.out)["model openai/test-model"]["detail"]
    assert other.code == 3
    assert "does not serve the model 'other'" in checks(other.out)["model openai/other"]["detail"]
    assert (
        "cannot be reached"
        in cli.warned("doctor", "--model", "openai/test-model", "--base-url", url, "--json").out
    )
    assert "knows no provider" in cli.warned("doctor", "--model", "frobnicate", "--json").out


def test_a_database_on_a_network_file_system_is_a_problem(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = SimpleNamespace(mountpoint="/", fstype="lustre")
    monkeypatch.setattr("psutil.disk_partitions", lambda all: [mount])
    done = cli("doctor", "--db", tmp_path / "t.db", "--json")
    database = checks(done.out)["database"]
    assert (done.code, database["state"]) == (3, "problem")
    assert "(lustre)" in database["detail"]
