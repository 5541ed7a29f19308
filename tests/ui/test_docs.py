"""The docs are true: their commands and options exist and run, and their links work.

The fenced blocks of README.md and docs/ run in order, page by page, in an empty folder. A fence

- ```bash no-run (or console) is only checked: its commands need a network, a key or a GPU;
- ```text output holds lines that the block above prints, apart from numbers; `...` marks omitted lines;
- ```toml prices.toml (a second word with a dot) is a file that the reader writes.

A command ends with exit code 0 unless its comment says `exit code 3`. Models are asked at the test server.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import world
from command_line import run_here, walk_commands
from eval_runs import add_methods
from json_rows import write_rows
from pictures import picture
from rescues import write_rescues
from rollout_shards import write_run
from runs import Proposed, add_run, make_spec
from sqlalchemy import text
from tiny_model import save_tiny_model
from typer.core import TyperCommand, TyperGroup
from world_runs import world_server

from sandbox.__main__ import COMMANDS as SANDBOX
from sandbox.__main__ import parser as sandbox_parser
from service.config import Config
from service.config.fields import find_setting, settings_of
from service.database import Database
from ui.cli.app import SETTINGS
from ui.cli.app import commands as all_commands
from ui.cli.configs import find_verb

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SHELLS = ("bash", "console", "sh")

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMANDS_PAGE, SETTINGS_PAGE = "docs/reference/commands.md", "docs/reference/settings.md"
SERVER, SECOND = "http://localhost:8000/v1", "http://localhost:8001/v1"
PAGES_ABOUT_A_RUN = ("docs/reviews.md", "docs/sets.md")  # they begin with the finished run math-gpt4

OTHER_TOOLS = {  # options of other programs that pages name
    *("--api-key", "--reasoning-parser"),  # vllm serve
    *("--requeue", "--signal"),  # sbatch
    *("--build-arg", "--cap-add", "--security-opt"),  # podman, docker
    "--log_samples",  # lm-evaluation-harness
    "--no-push",  # prime
}

_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_NUMBER = re.compile(r"\d[\d,.]*")
_ID = re.compile(r"([qc])_[0-9a-f]{4,24}")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, and its content."""

    language: str
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page without `tagrpo` or `python -m`, and its expected exit code."""

    words: tuple[str, ...]
    exit_code: int
    runs: bool


def blocks(page: str) -> list[Block]:
    found = []
    for info, inside in FENCE.findall((ROOT / page).read_text(encoding="utf-8")):
        language, *words = info.split() or [""]
        found.append(Block(language, tuple(words), inside))
    return found


def lines(block: Block) -> list[str]:
    """Return the lines of a shell block without prompts, with continued lines joined."""
    joined = block.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").strip() for line in joined]


def command(line: str, *, runs: bool) -> Command | None:
    words = shlex.split(line, comments=True)
    if words[:3] == ["python", "-m", "sandbox"]:
        words = words[1:]
    elif words[:1] != ["tagrpo"]:
        return None
    comment = line.partition(" # ")[2]
    return Command(tuple(words[1:]), 3 if "exit code 3" in comment else 0, runs)


def commands(page: str) -> list[Command]:
    shell = [block for block in blocks(page) if block.language in SHELLS]
    made = [command(line, runs="no-run" not in block.words) for block in shell for line in lines(block)]
    return [found for found in made if found is not None]


def find_command(words: Sequence[str]) -> tuple[TyperCommand, list[str]]:
    """Return the command or group that `words` name, and the words after its name."""
    command, rest = all_commands(), list(words)
    while isinstance(command, TyperGroup) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


def resolve(words: tuple[str, ...]) -> str:
    """Return the name of the command that `words` call; raise where there is none or an option is unknown."""
    if words[0] == "sandbox":
        return f"sandbox {sandbox_parser().parse_args(words[1:]).command}"
    command, rest = find_command(words)
    assert not isinstance(command, TyperGroup), "there is no such command"
    name = " ".join(words[: len(words) - len(rest)])
    for option in {"--config", "--endpoint"} & set(rest):  # read from files that a page has written
        at = rest.index(option)
        del rest[at : at + 2]
    command.make_context(name, rest, **SETTINGS)
    return name


CONFIGS = {"rephrase run": "rephrase", "eval run": "eval", "eval score": "score", "train run": "train"}
CONFIGS |= {"sets export": "export"}
_KEY = re.compile(r"[a-z][\w.]*(?==)")


@pytest.mark.parametrize("page", NAMES)
def test_every_command_of_a_page_exists_with_its_options_and_settings(page):
    """Those of commands that no test runs too."""
    for words in (found.words for found in commands(page)):
        try:
            resolve(words)
        except Exception as error:
            pytest.fail(f"{page}: tagrpo {shlex.join(words)}: {error!r}")
        if verb := CONFIGS.get(" ".join(words[:2])):
            keys = [key[0] for word in words[2:] if (key := _KEY.match(word))]
            assert [key for key in keys if not is_setting(find_verb(verb).kind, key)] == [], words


def is_setting(config: type[Config], key: str) -> bool:
    """Whether a config has this key, a table of this name, or a free mapping that holds the key."""
    names = {key, key.rpartition(".")[0]}
    is_table = any(each.path.startswith(f"{key}.") for each in settings_of(config))
    return is_table or any(find_setting(config, name) is not None for name in names)


def test_every_command_is_on_a_page():
    shown = {resolve(found.words) for page in NAMES for found in commands(page)}
    public = {" ".join(path) for path, _ in walk_commands(all_commands())}
    assert shown == public | {f"sandbox {name}" for name in SANDBOX}


def options(command: TyperCommand) -> set[str]:
    """Return the options of a command, or of all commands of a group."""
    own = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    if isinstance(command, TyperGroup):
        own |= set().union(*(options(each) for each in command.commands.values()))
    return own


def options_of_scripts(source: str, *, depth: int = 2) -> set[str]:
    """Return the options of the modules of benchmarks/ that `source` names, and of what these import."""
    found: set[str] = set()
    source = re.sub(r"from (benchmarks[\w.]*) import (\w+)", r"\1 \1.\2", source)
    for name in set(re.findall(r"\bbenchmarks[./]\w[\w./]*\w", source)):
        script = ROOT / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
        if depth and script.is_file():
            code = script.read_text(encoding="utf-8")
            found |= {*re.findall(r'"(--[a-z][\w-]*)"', code), *options_of_scripts(code, depth=depth - 1)}
    return found


@pytest.mark.parametrize("page", NAMES)
def test_inline_commands_and_options_exist(page):
    """An option in backticks belongs to a command or a script that the page names."""
    content = (ROOT / page).read_text(encoding="utf-8")
    spans = [span.split() for span in _SPAN.findall(FENCE.sub("", content)) if span.strip()]
    known = OTHER_TOOLS | options_of_scripts(content) | {"--help", "--version", "--quiet", "--verbose"}
    if "python -m sandbox" in content:
        known |= set(re.findall(r'"(--[a-z][\w-]*)"', (ROOT / "sandbox" / "__main__.py").read_text()))
    for words in [*(found.words for found in commands(page)), *spans]:
        command, rest = find_command(words[words[0] == "tagrpo" :])
        if command is not all_commands():
            known |= options(command)
    for words in spans:
        shown = f"{page}: `{' '.join(words)}`"
        command, rest = find_command(words[words[0] == "tagrpo" :])
        if isinstance(command, TyperGroup) and (words[0] == "tagrpo" or command is not all_commands()):
            assert not (rest and re.fullmatch(r"[a-z][a-z-]*", rest[0])), f"{shown}: no such command"
        if words[0] == "tagrpo" or command is not all_commands():
            # `resume` takes the options of the command that it continues.
            allowed = options(all_commands() if command.name == "resume" else command)
        elif words[0].startswith("--"):
            allowed = known
        else:
            continue
        named = {word.partition("=")[0].rstrip(".,") for word in rest if re.match("--[a-z][^.]*(=|$)", word)}
        assert named <= allowed, f"{shown}: no command or script on this page has {sorted(named - allowed)}"


def anchors(page: Path) -> set[str]:
    """Return the anchors GitHub gives to the headings of a page."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", NAMES)
def test_links_targets_and_scripts_of_a_page_are_there(page):
    content = (ROOT / page).read_text(encoding="utf-8")
    for link in LINK.findall(FENCE.sub("", content)):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.is_file(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = re.findall(r"^(?:\$ )?make ([a-z-]+)|`make ([a-z-]+)", content, re.M)
    assert {"".join(target) for target in named} <= set(targets)
    for script in re.findall(r"(?<!`)python (\S+\.py)", content):
        assert (ROOT / script).is_file(), f"{page}: {script}"


def test_index_and_site_list_every_page_in_one_order():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = [link for link in LINK.findall(index) if link.endswith(".md")]
    site = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert ["index.md", *listed] == site
    assert sorted(site) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:])


def test_every_picture_is_on_a_page():
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8"))]
    shown = {(page.parent / link).resolve() for page, link in links}
    pictures = [path for suffix in ("svg", "webp", "png") for path in (ROOT / "docs").rglob(f"*.{suffix}")]
    assert [path for path in pictures if path.resolve() not in shown] == []


def test_the_pages_of_commands_and_settings_are_current():
    pages = runpy.run_path(str(ROOT / "docs" / "commands.py"))
    for path, write in ((COMMANDS_PAGE, "commands_page"), (SETTINGS_PAGE, "settings_page")):
        assert (ROOT / path).read_text(encoding="utf-8") == pages[write](), "run `python docs/commands.py`"


@pytest.mark.parametrize("page", NAMES[1:])
def test_the_site_gets_fences_that_it_knows(page):
    adapt = runpy.run_path(str(ROOT / "docs" / "fences.py"))["on_page_markdown"]
    adapted = adapt((ROOT / page).read_text(encoding="utf-8"))
    for line in re.findall(r"^```.*$", adapted, re.M):
        assert re.fullmatch(r'```(\w+( title="[\w.-]+")?)?', line), f"{page}: {line}"


@pytest.fixture(scope="module")
def servers():
    """Run the small world's server twice, with the models of the pages; give their URLs by those of pages."""
    models = ("--model", "gpt-4-turbo", "--model", "Qwen/Qwen3-4B")
    with world_server(*models) as first, world_server(*models) as second:
        yield {SERVER: first, SECOND: second}


def prepare(page: str, folder: Path) -> None:
    """Put there what the page takes for granted: the reader's questions, runs of earlier pages."""
    rows = [{**row, "level": "Level 5", "subject": "algebra"} for row in world.questions(32)]
    for name, part in (("math_train.jsonl", rows[:4]), ("openr1.jsonl", rows[4:])):
        write_rows(folder / name, *part)
    if page == "docs/training-signal.md":  # its script writes the pilot
        [pilot] = [block.text for block in blocks(page) if block.language == "python"]
        exec(pilot)
    if page == "docs/images.md":
        (folder / "pictures").mkdir()
        (folder / "pictures" / "red.png").write_bytes(picture("red"))
        (folder / "pictures" / "blue.jpg").write_bytes(picture("blue", (12, 8), "JPEG"))
    if page == "docs/questions.md":
        run_here("questions", "import", "openr1.jsonl")
    if page == "docs/studies/paper.md":
        with Database.open(Path("tagrpo.db")) as database:
            add_methods(database, "base", "grpo", "grpo-matched", "ta-grpo", "ta-grpo-seed1")
    if page == "docs/evaluate.md":
        save_tiny_model(folder / "checkpoints" / "step_200")
    if page == "docs/reference/metrics.md":
        write_run(folder / "runs" / "ta" / "rollouts", run="ta")
        rescues = write_rescues(folder / "runs" / "rescue" / "rollouts", steps=1)
        run_here.ok("train", "rollouts", str(rescues), "--add")
    if page == "docs/train.md":  # it begins with the run math-gpt4 too, over questions that are asked
        asked = []
        for row in rows[:8]:
            words = row["question"].split()
            proposed = [Proposed(" ".join(order)) for order in (words[::-1], sorted(words))]
            asked.append((row["question"], row["answer"], proposed))
        with Database.open(Path("tagrpo.db")) as database:
            add_run(database, "math-gpt4", asked)
    if page not in PAGES_ABOUT_A_RUN:
        return
    proposed = [Proposed("Add 2 to 3."), Proposed("3+2=?"), Proposed("2-3=?", verdicts=("undecided",))]
    asked = [("2+3=?", "5", proposed), ("Double 8.", "16", [Proposed("8+8?"), Proposed("2 times 8?")])]
    with Database.open(Path("tagrpo.db")) as database:
        add_run(database, "math-gpt4", asked)
        unverified = [(text, gold, [Proposed(f"So: {text}", ("unverified",))]) for text, gold, _ in asked]
        add_run(database, "rules", unverified, spec=make_spec(solvers=()))
        with database.read() as session:
            candidate = session.scalar(text("SELECT min(id) FROM candidates"))
    decision = {"candidate": candidate, "decision": "reject", "reason": "asks for the area"}
    write_rows(folder / "decisions.jsonl", decision)


def existing(match: re.Match[str]) -> str:
    """Return an id that the database has in place of the made-up one of a page."""
    table = {"q": "questions", "c": "candidates"}[match[1]]
    with Database.open(Path("tagrpo.db"), read_only=True) as database, database.read() as session:
        found = session.scalar(text(f"SELECT id FROM {table} ORDER BY id DESC"))
    return str(found)


def at_the_servers(words: tuple[str, ...], urls: dict[str, str]) -> list[str]:
    """Return the command with the test servers' addresses, real ids, and sizes that fit a small world."""
    sizes = {"3749": "2", **urls}
    adapted = [sizes.get(word, _ID.sub(existing, word) if _ID.fullmatch(word) else word) for word in words]
    asks = "--model" in words and (words[0] in ("rephrase", "doctor") or "gpt-4-turbo" in words)
    adapted = [
        word.replace(SERVER, urls[SERVER]).replace(SECOND, urls[SECOND]) if "=" in word else word
        for word in adapted
    ]
    if asks and "--base-url" not in words:
        adapted += ["--base-url", urls[SERVER]]
    if words[:2] == ("sandbox", "questions") and "--train" not in words:
        adapted += ["--heldout", "24"]
    if "proposer.batch=true" in words:
        adapted += ["proposer.batch_poll_s=0.05"]
    if words[:2] == ("train", "run"):
        adapted += ["verl.data.train_batch_size=2", "verl.actor_rollout_ref.actor.ppo_mini_batch_size=2"]
    return adapted


def without_numbers(line: str) -> str:
    """Return a printed line without what may differ between machines: ids, numbers, widths of columns."""
    return " ".join(_NUMBER.sub("0", re.sub(r"\b(\w+_)?[0-9a-f]{8,}\b", "0", line)).split())


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name in NAMES if any(found.runs for found in commands(name))])
def test_the_commands_of_a_page_run(page, servers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TAGRPO_DB", "HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TAGRPO_REVIEWER", "ada")
    # Without a network the Hub's client tries for most of a minute before it gives up.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    prepare(page, tmp_path)
    printed: set[str] = set()
    for block in blocks(page):
        if block.words == ("output",):
            assert set(map(without_numbers, block.text.splitlines())) - {"", "..."} <= printed
        if any("." in word for word in block.words):
            (tmp_path / block.words[0]).write_text(block.text, encoding="utf-8")
        if block.language not in SHELLS or "no-run" in block.words:
            continue
        printed = set()
        for line in lines(block):
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                monkeypatch.setenv(name, value)
                if name == "PYTHONPATH":  # which Python reads as it starts
                    monkeypatch.syspath_prepend(value)
            found = command(line, runs=True)
            if found is not None:
                done = run_here(*at_the_servers(found.words, servers))
                assert done.code == found.exit_code, f"{page}: {line}\n{done.out}\n{done.err}"
                printed |= set(map(without_numbers, done.out.splitlines()))
    for module in tmp_path.glob("*.py"):  # another test may have one of this name
        sys.modules.pop(module.stem, None)


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name in NAMES if "```python" in (ROOT / name).read_text("utf-8")])
def test_the_python_of_a_page_runs_and_prints_what_it_says(page, tmp_path):
    content = (ROOT / page).read_text(encoding="utf-8")
    fences = r"^```python(?: \S+\.py)?\n(.*?)^```\n(?:\nprints\n\n```\n(.*?)^```\n)?"
    found = re.findall(fences, content, re.M | re.S)
    for number, (code, printed) in enumerate(found):
        script = tmp_path / f"block{number}.py"
        script.write_text(code, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        given = {"capture_output": True, "text": True, "timeout": 120}
        done = subprocess.run([sys.executable, script], env=environment, cwd=tmp_path, **given)
        assert done.returncode == 0, done.stderr
        if printed:
            assert done.stdout == printed
