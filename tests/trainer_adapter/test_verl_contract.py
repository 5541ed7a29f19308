"""The contract with verl and Ray: complete for our code, met by what is installed, and able to fail."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trainer_adapter.verl.contract import differences, installed_folders
from trainer_adapter.verl.hooks import HOOKS, Hook

OURS = Path(__file__).parents[2] / "trainer_adapter" / "verl"
PACKAGES = ("verl", "ray", "tensordict", "transfer_queue")
MODULES = {
    *("base", "distributed", "fsdp_utils", "replay_buffer", "replica", "tensordict_utils", "trainer_base"),
}
"""Imported whole; what is used of them has hooks of its own."""

MOST_INTERNALS = 123
"""Hooks of verl; this number only goes down."""


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


def test_the_installed_verl_and_ray_have_every_hook() -> None:
    folders = installed_folders()
    if "verl" not in folders:
        pytest.skip("needs verl: pip install 'tagrpo[train]'")
    assert set(folders) >= {"verl", "ray", "tensordict", "transfer_queue"}
    assert [str(each) for each in differences(folders)] == []


def test_no_more_internals_of_verl_are_used() -> None:
    assert len([hook for hook in HOOKS if hook.package == "verl"]) <= MOST_INTERNALS


def test_every_import_of_verl_has_a_hook() -> None:
    known = {(hook.used_in, hook.name) for hook in HOOKS}
    missing = [
        f"{file}: from {node.module} import {name.name}"
        for file, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES
        for name in node.names
        if name.name not in MODULES and (file, name.name) not in known
    ]
    assert missing == []


def test_one_file_calls_the_queue() -> None:
    files = {
        file
        for file, module in sources()
        for node in ast.walk(module)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if name.partition(".")[0] == "transfer_queue"
    }
    assert files == {"transfer.py"}


@pytest.mark.slow
def test_every_method_of_verl_that_is_overridden_or_called_by_super_has_a_hook() -> None:
    known = {(hook.used_in, hook.name.rpartition(".")[2]) for hook in HOOKS}
    missing = [
        f"{file}: {name}"
        for file, module in sources()
        for name in sorted(calls_of_super(module))
        if name != "__init__" and (file, name) not in known
    ]
    assert missing == []


def test_no_hook_outlives_its_use() -> None:
    texts = {str(path.relative_to(OURS)): path.read_text(encoding="utf-8") for path in OURS.rglob("*.py")}
    stale = [
        str(hook.place)
        for hook in HOOKS
        if hook.used_in not in texts
        or (hook.use != "line" and hook.name.rpartition(".")[2] not in texts[hook.used_in])
    ]
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
    ("name", "use", "parameters", "problem"),
    [
        ("VALUE", "reads", (), None),
        ("Base", "reads", (), None),
        ("Base.buffer", "reads", (), None),
        ("Base.other", "reads", (), "does not exist"),
        ("Base.fit", "overrides", ("manager", "steps"), None),
        (
            "Base.fit",
            "overrides",
            ("manager",),
            "has the parameters (manager, steps), but the override has (manager)",
        ),
        ("Base.run", "overrides", ("params", "**kwargs"), None),
        ("Base.run", "calls", ("params", "anything"), None),
        ("Base.fit", "calls", ("manager",), None),
        ("Base.fit", "calls", ("manager", "epochs"), "does not accept epochs"),
        ("register", "calls", ("name",), "also requires kind"),
        ("VALUE", "calls", (), "is not a function"),
        ("self.buffer = config", "line", (), None),
        ("self.queue = config", "line", (), "has no such line"),
    ],
)
def test_what_differs_is_named(
    tmp_path: Path, name: str, use: str, parameters: tuple[str, ...], problem: str | None
) -> None:
    (tmp_path / "base.py").write_text(SOURCE, encoding="utf-8")
    hook = Hook("verl", "base.py", name, "plugin/trainer.py", use, parameters)  # type: ignore[arg-type]
    assert [each.problem for each in differences({"verl": tmp_path}, (hook,))] == (
        [problem] if problem else []
    )
    gone = replace(hook, file="gone.py")
    assert [each.problem for each in differences({"verl": tmp_path}, (gone,))] == ["there is no such file"]
    assert differences({}, (gone,)) == []
