"""Settings: options, their defaults and the keys of a settings file follow from the fields of a class."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from command_line import CommandLine, Done, words
from openai_server import server_process
from typer import Argument, Option
from typer.testing import CliRunner

from service.errors import InputError
from ui.cli import output
from ui.cli.eval.settings import EvalRequests
from ui.cli.output import Terminal
from ui.cli.settings import SettingsFile, command_group


@dataclass(frozen=True)
class Asking:
    panel: ClassVar[str] = "How it is asked"

    max_usd: Annotated[float | None, Option(min=0, help="Cap.")] = None
    batch: Annotated[bool, Option(help="In jobs.")] = False
    price: Annotated[tuple[str, ...], Option(help="May be repeated.")] = ()


@dataclass(frozen=True)
class AskingLonger(Asking):
    timeout: Annotated[float, Option(help="Seconds.")] = 5.0


def ask(
    question: Annotated[str, Argument(help="What is asked.")],
    *,
    name: Annotated[str, Option(help="Needed.")],
    asking: AskingLonger,
    settings: SettingsFile,
    terminal: Terminal,
) -> None:
    """Ask."""
    record = {"question": question, "name": name, **vars(asking)}
    terminal.emit(record, output.say, f"asked {name}", "twice")


GROUP = command_group("Ask things.", "ask ask", {"ask": ask, "other": lambda: None})


def asked(*arguments: object) -> dict[str, object]:
    done = CliRunner().invoke(GROUP, ["ask", *map(str, arguments), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    record: dict[str, object] = json.loads(done.stdout)
    return record


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(GROUP, ["ask", *map(str, arguments)])
    assert done.exit_code == 2
    return words(done.output)


def test_fields_are_options_with_their_defaults() -> None:
    assert asked("why?", "--name", "a") == {
        "question": "why?",
        "name": "a",
        "max_usd": None,
        "batch": False,
        "price": [],
        "timeout": 5.0,
    }
    given = asked("why?", "--name", "a", "--max-usd", 2, "--batch", "--price", "x", "--price", "y")
    assert (given["max_usd"], given["batch"], given["price"]) == (2.0, True, ["x", "y"])


def test_options_are_checked_and_flags_have_no_other_form() -> None:
    assert "--max-usd" in refused("why?", "--name", "a", "--max-usd", "-1")
    assert "No such option: --no-batch" in refused("why?", "--name", "a", "--no-batch")
    assert "Missing option '--name'" in refused("why?")


def test_text_is_printed_where_json_is_not_wanted() -> None:
    done = CliRunner().invoke(GROUP, ["ask", "why?", "--name", "a"])
    assert done.stdout == "asked a\ntwice\n"


def test_the_help_groups_options_by_their_class() -> None:
    shown = words(CliRunner().invoke(GROUP, ["ask", "--help"]).output)
    assert "How it is asked --max-usd" in shown
    assert shown.index("--name") < shown.index("How it is asked") < shown.index("Output --json")


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("command", "variable"),
    [(("db", "check"), "TAGRPO_DB"), (("rephrase", "review"), "TAGRPO_REVIEWER")],
    ids=" ".join,
)
def test_the_help_names_the_variables_that_give_options(
    cli: CommandLine, command: tuple[str, ...], variable: str
) -> None:
    assert f"[env var: {variable}]" in words(cli(*command, "--help").out)


def test_a_file_gives_options_and_the_command_line_wins(tmp_path: Path) -> None:
    file = settings_file(
        tmp_path, 'name = "filed"\nmax-usd = 50\nbatch = true\nprice = ["x", "y"]\ntimeout = 1.5\n'
    )
    assert asked("why?", "--config", file) == {
        "question": "why?",
        "name": "filed",
        "max_usd": 50.0,
        "batch": True,
        "price": ["x", "y"],
        "timeout": 1.5,
    }
    given = asked("why?", "--config", file, "--name", "a", "--price", "z")
    assert (given["name"], given["price"], given["max_usd"]) == ("a", ["z"], 50.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_usd = 1", "ask has no option 'max_usd'. Did you mean 'max-usd'?"),
        ("zzz = 1", "Available: batch, json, max-usd, name, price, question, quiet, timeout, verbose"),
        ("config = 'other.toml'", "no option 'config'"),
        ("max-usd", "not valid TOML"),
    ],
)
def test_a_file_with_other_keys_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"settings\.toml") as refusal:
        asked("why?", "--name", "a", "--config", settings_file(tmp_path, text))
    assert message in str(refusal.value)
    assert not str(refusal.value).endswith("?.")


def test_a_file_is_checked_like_the_command_line(tmp_path: Path) -> None:
    low = settings_file(tmp_path, "max-usd = -1")
    assert "--max-usd" in refused("why?", "--name", "a", "--config", low)
    with pytest.raises(InputError, match="cannot read the settings"):
        asked("why?", "--name", "a", "--config", tmp_path / "absent.toml")


def test_a_file_beside_the_database_gives_options_and_endpoints(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, object] = {}

    def model_settings(
        kind: str, model: str, requests: EvalRequests, engine: object, *, base_url: tuple[str, ...]
    ) -> None:
        seen.update(model=model, base=base_url, cap=requests.max_usd, at_once=requests.max_concurrency)
        raise InputError("seen")

    monkeypatch.setattr("ui.cli.eval.running.model_settings", model_settings)
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "tagrpo.toml").write_text(
        "[eval.run]\nmax-usd = 5.0\nmax-concurrency = 8\n"
        '[endpoint.lab]\nmodel = "hosted_vllm/m"\napi-base = "http://lab/v1"\nmax-concurrency = 16\n'
    )
    (tmp_path / "more.toml").write_text("max-concurrency = 32\n")
    asked = ["eval", "run", "x.jsonl", "--db", "team/tagrpo.db", "endpoint=lab"]
    assert "seen" in command_line(*asked).err
    assert seen == {"model": "hosted_vllm/m", "base": ("http://lab/v1",), "cap": 5.0, "at_once": 16}
    command_line(*asked, "--config", "more.toml")
    assert seen["at_once"] == 32
    command_line(*asked, "--config", "more.toml", "--max-concurrency", 64, "--max-usd", 1)
    assert (seen["at_once"], seen["cap"]) == (64, 1.0)
    (tmp_path / "more.toml").write_text('api-base = ["http://a/v1", "http://b/v1"]\n')
    command_line(*asked, "--config", "more.toml")
    assert seen["base"] == ("http://a/v1", "http://b/v1")
    unknown = command_line(*asked[:-1], "other")
    assert (unknown.code, "[endpoint.other] does not exist. Available: lab." in unknown.err) == (2, True)
    (tmp_path / "team" / "tagrpo.toml").write_text("[endpoint]\nlab = 1\n")
    refused = command_line(*asked)
    assert (refused.code, "endpoint.lab is not a table" in refused.err) == (2, True)
    assert "[endpoint.NAME]" in command_line("eval", "run", "--help").out
    (tmp_path / "team" / "tagrpo.toml").write_text("[eval.run]\nmax_usd = 5.0\n")
    refused = command_line(*asked)
    assert (refused.code, "tagrpo.toml: eval run has no option 'max_usd'" in refused.err) == (2, True)
    (tmp_path / "team" / "tagrpo.toml").write_text("[eval.runs]\nmax-usd = 5.0\n")
    refused = command_line("sets", "list", "--db", "team/tagrpo.db")
    assert (refused.code, "[eval.runs] is not the name of a command" in refused.err) == (2, True)


@pytest.mark.slow
def test_an_endpoint_names_the_variable_of_its_key_and_never_holds_the_key(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "lab-credential-4711"
    file = tmp_path / "tagrpo.toml"
    (tmp_path / "x.jsonl").write_text('{"question": "What is 1 + 1?", "answer": "2"}\n')
    monkeypatch.setenv("TEST_SERVER_KEY", secret)
    with server_process() as url:
        monkeypatch.delenv("TEST_SERVER_KEY")
        asked = [
            "eval",
            "run",
            "x.jsonl",
            "--n",
            "1",
            "--model",
            "hosted_vllm/test-model",
            "endpoint=lab",
        ]
        asked += ["--db", "tagrpo.db"]

        def profile(line: str) -> Done:
            file.write_text(f'[endpoint.lab]\napi-base = "{url}"\n{line}\n')
            return command_line(*asked)

        refusals = {
            f'api_key = "{secret}"': 'name the variable: `export LAB_KEY=...` and api-key-env = "LAB_KEY"',
            f'api-key-env = "{secret}"': "looks like a key itself",
            'api-key-env = "hf_abcdefghijklm"': "looks like a key itself",
            'api-key-env = "LAB_CREDENTIAL"': "--api-key-env LAB_CREDENTIAL: the variable is not set",
        }
        for line, message in refusals.items():
            refused = profile(line)
            assert (refused.code, message in words(refused.err)) == (2, True), refused.err
            assert secret not in refused.err
        monkeypatch.setenv("LAB_CREDENTIAL", "another-credential")
        wrong = profile('api-key-env = "LAB_CREDENTIAL"')
        assert (wrong.code, "another-credential" in wrong.err) == (2, False), wrong.err
        monkeypatch.setenv("LAB_CREDENTIAL", secret)
        assert profile('api-key-env = "LAB_CREDENTIAL"').code == 0
    assert secret.encode() not in (tmp_path / "tagrpo.db").read_bytes()
