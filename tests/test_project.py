"""Rules that hold for the whole project: sizes, pins, paths, versions, and what every script offers."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from rephraser.proposing.strategies import SHIPPED
from service.database.base import Base
from service.database.schema import TABLES
from trainer_adapter.verl.hooks import TESTED_VERSIONS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("service", "evaluator", "rephraser", "trainer_adapter", "sandbox", "ui")
MOST_LINES = 57_564
EMPTY_NAMES = {"found", "kit", "once", "one", "remains", "said", "shown", "told", "work"}
"""They say that something is there, not what it is."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNTRACKED = {"__pycache__", "build", "dist", "site", "outputs", "tagrpo-demo", "tagrpo-demo-quick"}

# Put together from words, so that this file does not hold what it forbids.
MACHINE_PATHS = re.compile(r"(?<![\w.~*])/(?:" + "|".join(("work", "root", "home", "opt", "Users")) + r")/\w")
REGISTRIES = re.compile(
    "(?:" + "|".join(("pypi", "pythonhosted", "artifactory", "devpi")) + r")[\w-]*\.[a-z]{2,}\b"
)
KEYS = re.compile(r"\b(?:" + "|".join(("sk-[A-Za-z0-9]{32,}", "hf_[A-Za-z0-9]{30,}")) + r")\b")


def tracked_files() -> list[Path]:
    """Return the files that git tracks, or all that would be where this is no clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [path for path in map(ROOT.joinpath, listed.stdout.decode().split("\0")) if path.is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") or part in UNTRACKED for part in path.relative_to(ROOT).parts[:-1])
        and not path.name.endswith((".db", ".db-wal", ".db-shm"))
    ]


def sources() -> list[Path]:
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.fixture(scope="module")
def project():
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def normal(requirement: str) -> str:
    """Return the normalised name (PEP 503) of a requirement."""
    match = NAME.match(requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def test_the_product_does_not_grow():
    """Lower the total after each change that makes the product smaller."""
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources())
    assert lines <= MOST_LINES


def test_no_two_classes_share_a_name():
    texts = [re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.S) for path in sources()]
    names = Counter(name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.M))
    assert [name for name, count in names.items() if count > 1] == []


def empty_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each variable and parameter that says nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY_NAMES:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in EMPTY_NAMES:
            yield node.lineno, node.arg


def test_variables_and_parameters_are_named_for_what_they_hold():
    example = "def f(one):\n    found: int = one\n    return [told for told in (found,)]\n"
    assert sorted(empty_names(example)) == [(1, "one"), (2, "found"), (3, "told")]
    named = {
        f"{path.relative_to(ROOT)}:{line}": name
        for path in sources()
        for line, name in empty_names(path.read_text(encoding="utf-8"))
    }
    assert named == {}


def test_the_patterns_find_what_they_forbid():
    assert MACHINE_PATHS.search("open({!r})".format("/".join(("", "home", "ada", "x"))))
    assert not MACHINE_PATHS.search("see homework/exercise and ./home/x")
    assert REGISTRIES.search("https://files." + ".".join(("pythonhosted", "org")))
    assert not REGISTRIES.search("install it from PyPI, as usual.")
    assert KEYS.search("-".join(("sk", "a1" * 20)))


def test_no_tracked_file_names_a_machine_a_registry_or_a_key():
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", "replace")
        for pattern in (MACHINE_PATHS, REGISTRIES, KEYS):
            found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert found == []


def test_no_source_file_leaves_work_for_later():
    later = re.compile(r"\b(TODO|FIXME|XXX)\b|raise NotImplementedError")
    assert [str(path) for path in sources() if later.search(path.read_text(encoding="utf-8"))] == []


CPU_EXTRAS = ("ui", "serve", "train", "local", "dev")
GPU_EXTRAS = ("ui", "serve", "train", "local", "vllm")


@pytest.mark.parametrize(("file", "extras"), [("cpu", CPU_EXTRAS), ("gpu", GPU_EXTRAS)])
def test_every_dependency_is_pinned_to_a_version_it_allows(project, file, extras):
    lines = (ROOT / f"constraints-{file}.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    pinned = {normal(name): version for name, version in pins.items()}
    wanted = [Requirement(each) for each in project["dependencies"]]
    wanted += [Requirement(each) for extra in extras for each in project["optional-dependencies"][extra]]
    assert len(pinned) > 50
    assert [str(each) for each in wanted if normal(each.name) not in pinned] == []
    versions = {each: pinned[normal(each.name)].partition("+")[0] for each in wanted}
    assert {each: pin for each, pin in versions.items() if not each.specifier.contains(pin)} == {}


def test_the_pins_for_gpus_have_what_verl_trains_and_draws_with():
    lines = (ROOT / "constraints-gpu.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    assert pins["verl"] in TESTED_VERSIONS
    # extra `vllm` and extra `flash-attn-cu130torch211` of verl 0.9.1
    assert (pins["torch"], pins["vllm"], pins["flash-attn"]) == ("2.11.0", "0.24.0", "2.8.3")
    assert {"nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "triton"} <= pins.keys()


def test_the_base_install_stays_light(project):
    heavy = {"torch", "verl", "ray", "vllm", "transformers", "streamlit", "altair"}
    assert not heavy & {normal(requirement) for requirement in project["dependencies"]}


def test_the_version_stands_in_one_place_and_has_its_changes(project):
    script = "from ui.cli.app import main; import sys; sys.argv = ['tagrpo', '--version']; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"tagrpo {project['version']}\n"
    stands = re.compile(rf"^\W*version\W+{re.escape(project['version'])}\b|^__version__\b", re.M)
    files = [path for path in tracked_files() if path.suffix in (".py", ".toml", ".cff", ".yml")]
    names = [path.name for path in files if stands.search(path.read_text(encoding="utf-8"))]
    assert names == ["pyproject.toml"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_names_the_paper_and_no_version_of_its_own():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert "version" not in citation
    (paper,) = citation["references"]
    assert paper["url"] == "https://arxiv.org/abs/2601.22478"
    assert len(paper["authors"]) == 7


def test_every_room_is_typed_and_has_its_tests_and_every_prompt_is_shipped():
    for room in ROOMS:
        assert (ROOT / room / "py.typed").is_file()
        assert list((ROOT / "tests" / room).glob("test_*.py"))
    assert {path.stem for path in (ROOT / "rephraser" / "proposing" / "prompts").iterdir()} == set(SHIPPED)


def test_the_glossary_has_every_word_and_table_once_and_its_places_are_there():
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    words = [word for row in rows for word in row[0].split(", ")]
    assert len(set(words)) == len(words) > 25
    for module in TABLES:
        import_module(module)
    tables, places = ([code for row in rows for code in re.findall("`([^`]+)`", row[n])] for n in (2, 3))
    assert sorted(tables) == sorted(Base.metadata.tables)
    assert len(places) == len(rows)
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_path_that_contributors_are_sent_to_is_there():
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    paths = re.findall(rf"`((?:{'|'.join(ROOMS)}|tests|benchmarks|docs)/[^` ]*)`", page)
    assert len(paths) > 30
    assert [path for path in paths if not list(ROOT.glob(path))] == []
