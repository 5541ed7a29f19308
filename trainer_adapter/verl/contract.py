"""The parts of verl and Ray that tagrpo needs, and a check of an installed or unpacked version.

Sources are read, not imported. Paths are relative to the package's folder.
"""

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.verl.hooks import HOOKS, Hook, hooks_of


def differences(folders: Mapping[str, Path], hooks: tuple[Hook, ...] = HOOKS) -> list[str]:
    """Return every hook that the packages in these folders do not have as tagrpo uses it."""
    return [
        f"{hook.place}: {problem}"
        for hook in hooks
        if (problem := _problem(hook, folders.get(hook.package))) is not None
    ]


class RecipeSupport(NamedTuple):
    """Whether a recipe runs with the installed verl."""

    recipe: str  # its name
    tier: int  # 1 if verl's registered extension points are enough, 2 if it needs tagrpo's trainer
    # yes; run.trainer=verl if only with verl's own trainer; no
    runs: Literal["yes", "run.trainer=verl", "no"]
    reason: str  # why not, or not with tagrpo's trainer; "" if it runs


def recipe_support(folders: Mapping[str, Path]) -> list[RecipeSupport]:
    """Return for every recipe whether it runs with the packages in these folders."""
    supports = []
    for name, recipe in RECIPES.items():
        tier = 2 if recipe.whole_batch_axes else 1
        missing = differences(folders, hooks_of(recipe))
        without_trainer = tier == 1 and not differences(folders, hooks_of(recipe, trainer=False))
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        supports.append(
            RecipeSupport(
                name,
                tier,
                "yes" if not missing else "run.trainer=verl" if without_trainer else "no",
                f"{missing[0]}{more}" if missing else "",
            )
        )
    return supports


def installed_folders() -> dict[str, Path]:
    """Return the folders of the packages of the contract that are installed; none of them is imported."""
    folders = {}
    for package in dict.fromkeys(hook.package for hook in HOOKS):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            folders[package] = Path(spec.origin).parent
    return folders


def _problem(hook: Hook, folder: Path | None) -> str | None:
    if folder is None:
        return "the package is not installed"
    file = folder / hook.file
    if not file.is_file():
        return "there is no such file"
    if hook.text.startswith("`"):
        return None if hook.text[1:] in _text(file) else "has no such line"
    defined, (_, bracket, listed) = _definitions(file), hook.text.partition("(")
    if hook.name not in defined:
        return "does not exist"
    if not bracket:
        return None
    function = defined[hook.name]
    if function is None:
        return "is not a function"
    given = listed.removesuffix(")").split(", ")
    places, named = [*function.posonlyargs, *function.args], function.kwonlyargs
    needed = [each.arg for each in places[: len(places) - len(function.defaults)] if each.arg != "self"]
    needed += [each.arg for each, default in zip(named, function.kw_defaults, strict=True) if default is None]
    known = {each.arg for each in (*places, *named)}
    unknown = [name for name in given if name and name not in known and function.kwarg is None]
    if unknown:
        return f"does not accept {', '.join(unknown)}"
    more = sorted(set(needed) - {*given, "cls"})
    return f"also requires {', '.join(more)}" if more else None


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def _definitions(file: Path) -> Mapping[str, ast.arguments | None]:
    """Return what a module defines, `Class.method` and `Class.attribute` too; functions with parameters."""
    return dict(_walk(ast.parse(_text(file)), ""))


def _walk(node: ast.AST, within: str) -> Iterator[tuple[str, ast.arguments | None]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + each.name, each.args
            if within:
                stored = (part for part in ast.walk(each) if isinstance(part, ast.Attribute))
                yield from ((within + part.attr, None) for part in stored if isinstance(part.ctx, ast.Store))
        elif isinstance(each, ast.ClassDef):
            yield within + each.name, None
            yield from _walk(each, f"{each.name}.")
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            yield from ((within + target.id, None) for target in targets if isinstance(target, ast.Name))
        elif isinstance(each, ast.Import | ast.ImportFrom):
            yield from ((within + (name.asname or name.name), None) for name in each.names)
        elif isinstance(each, ast.If | ast.Try | ast.With):
            yield from _walk(each, within)
