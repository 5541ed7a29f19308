"""`tagrpo doctor`: what is installed, reachable and missing, and how to get it."""

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from service.errors import DatabaseError, InputError, PrerequisiteError
from ui.cli import output
from ui.cli.lazy import lazy_imports
from ui.cli.output import terminal, value_table
from ui.cli.settings import db

with lazy_imports():
    from service.asks import money, redaction
    from service.config import reading
    from service.database import sqlite
    from service.enclosure import running
    from service.engines import opening
    from service.models import access
    from trainer_adapter.verl import contract, hooks

Check: TypeAlias = dict[str, Any]

TRAIN = "install the extra `train` (docs/install.md)"
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "pages in the browser": (("streamlit", "altair"), "install the extra `ui` (docs/install.md)"),
    "training with verl": (("torch", "verl", "ray", "tensordict", "transformers", "TransferQueue"), TRAIN),
    "offline vLLM engine": (("vllm",), "on a machine with a GPU, install the extra `vllm` (docs/install.md)"),
}
BASE = ("litellm", "datasets", "math-verify", "sqlalchemy", "scipy", "rapidfuzz")
LOW_DISK_GB = 2.0


def doctor(model: str | None = None, base_url: list[str] | None = None, training: bool = False) -> None:
    """Report what is installed, reachable or missing, and how to install it.

    Example: tagrpo doctor --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1

    Args:
        model: Also try to reach this model, named as in litellm.
        base_url: Address of the model's server. Repeat the option for several servers.
        training: Also compare verl and Ray with the tested versions, and list the recipes that run with them.
    """
    checks = [*_machine()]
    if model is not None:
        bases, together = base_url or [], ""
        if len(bases) > 1:
            checks += [_endpoint(f"server {base}", model, [base]) for base in bases]
            together = f" at {len(bases)} servers"
        checks.append(_endpoint(f"model {model}{together}", model, bases))
    record: dict[str, Any] = {"checks": checks}
    table = None
    if training:
        checks += _contract()
        if _version("verl"):
            rows = contract.recipe_support(contract.installed_folders())
            record["recipes"] = [row._asdict() for row in rows]
            table = value_table(["recipe", "tier", "runs with this verl", "why not"], rows)
    lines = (
        f"{check['state']:9}{check['what']}: {check['detail']}"
        + (f" ({check['way_out']})" if check["way_out"] else "")
        for check in checks
    )
    terminal.emit(record, *lines, "" if table else None, table)
    if wrong := [check["what"] for check in checks if check["state"] == "problem"]:
        raise output.needs_attention(f"{', '.join(wrong)}: see above.")


def _check(
    what: str, ok: object, detail: str, way_out: str = "", *, needed: bool = False, otherwise: str = "missing"
) -> Check:
    """Return a line of the report. If `needed` is not in order, the exit code is 3."""
    state = "ok" if ok else "problem" if needed else otherwise
    return {"what": what, "state": state, "detail": detail, "way_out": "" if ok else way_out}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[Check]:
    """Yield what is installed, and what commands need on this machine."""
    tested = (3, 11) <= sys.version_info[:2] < (3, 13)
    way_out = "tagrpo is tested with Python 3.11 and 3.12"
    yield _check("Python", tested, platform.python_version(), way_out, needed=True)
    yield _check("tagrpo", True, _version("tagrpo") or "source tree")
    for what, (packages, way_out) in {"base packages": (BASE, "see docs/install.md"), **EXTRAS}.items():
        missing = [package for package in packages if _version(package) is None]
        detail = f"not installed: {', '.join(missing)}"
        if not missing:
            detail = ", ".join(f"{package} {_version(package)}" for package in packages)
        yield _check(what, not missing, detail, way_out, needed=packages is BASE)
    yield _database()
    folder = db.place.resolve().parent if isinstance(db.place, Path) else Path.cwd()
    free, detail = 0.0, f"{folder} does not exist"
    way_out = "create it, or choose another with --db"
    if folder.exists():
        free, way_out = shutil.disk_usage(folder).free / 1e9, "free some space"
        detail = f"{free:.1f} GB free in {folder}"
    yield _check("disk", free >= LOW_DISK_GB, detail, way_out, needed=True)
    names = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    way_out = "export OPENAI_API_KEY=...; your own vLLM server needs none"
    yield _check("API keys", names, ", ".join(names) or "none set", way_out)
    yield _check("Hugging Face token", os.environ.get("HF_TOKEN"), "only gated datasets need HF_TOKEN")
    refused = running.refusal()
    yield _check("isolation of programs", not refused, *(refused or ("by bubblewrap",)))


def _database() -> Check:
    place, where = db.place, ""
    try:
        if isinstance(place, Path):
            if kind := sqlite.network_file_system(place):
                where = f", on {kind}, one process at a time"
            sqlite.check_place(place)
            if not place.exists():
                start = "tagrpo questions import FILE --name NAME"
                return _check("database", False, f"{place}: does not exist yet", start)
        with db.open(read_only=True) as database:
            problems = database.integrity_report()
    except DatabaseError as error:
        return _check("database", False, str(error), needed=True)
    detail = f"{place}: {'; '.join(problems[:3])}" if problems else f"{place}, no problems found{where}"
    way_out = "run tagrpo db check, then restore a backup"
    return _check("database", not problems, detail, way_out, needed=True)


def _contract() -> Iterator[Check]:
    version = _version("verl")
    if version is None:
        yield _check("hooks for training", False, "verl is not installed", TRAIN, needed=True)
        return
    tested = hooks.TESTED_VERSIONS
    known = "tested" if version in tested else f"not tested; tested: {', '.join(tested)}"
    way_out = f"pip install 'verl=={tested[-1]}'"
    for what, group in hooks.GROUPS.items():
        rule: dict[str, Any] = {"needed": "GPU" not in what and "CPU" not in what, "otherwise": "differs"}
        changed = contract.differences(contract.installed_folders(), group)
        count = f"{len(group) - len(changed)} of {len(group)} as tested"
        detail = f"verl {version} ({known}), Ray {_version('ray')}: {count}"
        yield _check(f"hooks of {what}", not changed, detail, **rule)
        yield from (_check(f"hook of {what}", False, each, way_out, **rule) for each in changed)


def _endpoint(what: str, model: str, bases: Sequence[str]) -> Check:
    given = reading.Reading(access.Model)
    given.add({"model": model, "sampler": "remote", "base_url": bases})

    async def look() -> bool:
        async with opening.OpenModels(Path()) as models:
            return (await models.open(given.build())).takes("response_format")

    try:
        structured = "" if asyncio.run(look()) else "no "
    except (InputError, PrerequisiteError) as error:
        return _check(redaction.redact(what), False, str(error), needed=True)
    price = "known" if money.find_price(model) else "unknown: set the model's price to use --max-usd"
    return _check(redaction.redact(what), True, f"reachable, {structured}structured output, price {price}")
