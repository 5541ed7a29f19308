"""The contract with verl and Ray: complete for our code, met by what is installed, and able to fail."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer_adapter.verl.contract import differences, installed_folders, recipe_support
from trainer_adapter.verl.hooks import CPU, CPU_SPEED, HOOKS, IMAGES, RESCUE, TIER_1, TIER_2, Hook

OURS = Path(__file__).parents[2] / "trainer_adapter" / "verl"
PACKAGES = ("verl", "ray", "tensordict", "transfer_queue")
MODULES = {"base", "replica"}
"""Imported whole; what is used of them has hooks of its own."""

MOST_INTERNALS = {"tier 1": 10, "rescue": 1, "tier 2": 27, "images": 5, "CPU": 10, "CPU, faster": 5}
"""Distinct places in verl, by what needs them; these numbers only go down."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(OURS.rglob("*.py")):
        yield str(path.relative_to(OURS)), ast.parse(path.read_text(encoding="utf-8"))


def calls_of_super(module: ast.Module) -> set[str]:
    return {
        node.func.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Call)
        and getattr(node.func.value.func, "id", "") == "super"
    }


def test_the_installed_verl_and_ray_have_every_hook():
    folders = installed_folders()
    if "verl" not in folders:
        pytest.skip("needs verl (extra `train`)")
    assert set(folders) >= {"verl", "ray", "tensordict", "transfer_queue"}
    assert differences(folders) == []


def test_no_more_internals_of_verl_are_used():
    names = ("tier 1", "rescue", "tier 2", "images", "CPU", "CPU, faster")
    groups = dict(zip(names, (TIER_1, RESCUE, TIER_2, IMAGES, CPU, CPU_SPEED), strict=True))
    assert sum(map(len, groups.values())) == len(HOOKS)
    places = {
        name: {hook.place for hook in hooks if hook.package == "verl"} for name, hooks in groups.items()
    }
    assert {name: len(held) for name, held in places.items()} == MOST_INTERNALS


def test_every_import_of_verl_has_a_hook():
    known = {hook.name for hook in HOOKS}
    missing = [
        f"{file}: from {node.module} import {name.name}"
        for file, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES
        for name in node.names
        if name.name not in MODULES and name.name not in known
    ]
    assert missing == []


def test_one_file_calls_the_queue():
    imports = re.compile(r"^\s*(from|import) transfer_queue\b", re.M)
    files = [path.name for path in OURS.rglob("*.py") if imports.search(path.read_text(encoding="utf-8"))]
    assert files == ["transfer.py"]


@pytest.mark.slow
def test_every_method_of_verl_that_is_overridden_or_called_by_super_has_a_hook():
    known = {hook.name.rpartition(".")[2] for hook in HOOKS}
    called = [(file, name) for file, module in sources() for name in sorted(calls_of_super(module))]
    missing = [f"{file}: {name}" for file, name in called if name != "__init__" and name not in known]
    assert missing == []


def test_no_hook_outlives_its_use():
    paths = [path for path in OURS.rglob("*.py") if path.name != "hooks.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    stale = [hook.place for hook in HOOKS if hook.text[0] != "`" and hook.name.rpartition(".")[2] not in code]
    assert stale == []


SOURCE = """
VALUE: dict = {}
class Base:
    def __init__(self, config):
        self.buffer = config
    def fit(self, manager, *, steps=1):
        ...
    async def run(self, params, **kwargs):
        ...
def register(name, kind):
    ...
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("VALUE", None),
        ("Base", None),
        ("Base.buffer", None),
        ("Base.other", "does not exist"),
        ("Base.fit(manager, steps)", None),
        ("Base.fit(manager)", None),
        ("Base.run(params, anything)", None),
        ("Base.fit(manager, epochs)", "does not accept epochs"),
        ("Base.fit()", "also requires manager"),
        ("register(name)", "also requires kind"),
        ("VALUE()", "is not a function"),
        ("`self.buffer = config", None),
        ("`self.queue = config", "has no such line"),
    ],
)
def test_what_differs_is_named(tmp_path, text, problem):
    (tmp_path / "base.py").write_text(SOURCE, encoding="utf-8")
    hook = Hook("verl", "base.py", text)
    expected = [f"{hook.place}: {problem}"] if problem else []
    assert differences({"verl": tmp_path}, (hook,)) == expected
    gone = hook._replace(file="gone.py")
    assert differences({"verl": tmp_path}, (gone,)) == [f"{gone.place}: there is no such file"]
    assert differences({}, (gone,)) == [f"{gone.place}: the package is not installed"]


def test_recipes_of_tier_1_run_without_the_parts_that_only_the_trainer_needs(tmp_path):
    folders = installed_folders()
    assert {each.runs for each in recipe_support(folders)} == {"yes"}
    del folders["transfer_queue"]
    support = {each.recipe: each for each in recipe_support(folders)}
    runs = {name: (support[name].tier, support[name].runs) for name in ("ta_grpo", "dapo", "cw_grpo")}
    assert runs == {"ta_grpo": (1, "run.trainer=verl"), "dapo": (1, "run.trainer=verl"), "cw_grpo": (2, "no")}
    assert support["cw_grpo"].reason.startswith("transfer_queue/__init__.py, kv_batch_get: the package")
    support = {each.recipe: each for each in recipe_support({**folders, "verl": tmp_path})}
    assert {each.runs for each in support.values()} == {"no"}
