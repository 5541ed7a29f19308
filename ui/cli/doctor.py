"""`tagrpo doctor`: what is installed, reachable and missing, and how to get it."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ui.cli import exits
from ui.cli.output import terminal
from ui.cli.settings import db

if TYPE_CHECKING:
    from service.database import Place

State = Literal["ok", "missing", "problem"]

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "pages in the browser": (("streamlit", "altair"), "pip install 'tagrpo[ui]'"),
    "training with verl": (
        ("torch", "verl", "ray", "tensordict", "transformers", "TransferQueue"),
        "pip install torch==2.13.0 (PyTorch's CPU index without a GPU), then pip install 'tagrpo[train]'",
    ),
    "offline vLLM engine": (("vllm",), "pip install 'tagrpo[vllm]' on a machine with a GPU"),
}
BASE = ("litellm", "datasets", "math-verify", "sqlalchemy", "scipy", "rapidfuzz")
LOW_DISK_GB = 2.0


class Check(NamedTuple):
    """One line of the report. `needed` problems make the exit code 3; the rest is only information."""

    what: str
    state: State
    detail: str
    way_out: str = ""
    needed: bool = False


def doctor(model: str | None = None, base_url: list[str] | None = None, training: bool = False) -> None:
    """Report what is installed, reachable or missing, and how to install it.

    Example: tagrpo doctor --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1

    Args:
        model: Also try to reach this model, named as in litellm.
        base_url: Address of the model's server. Repeat the option for several servers.
        training: Also compare verl and Ray with the tested versions, and list the recipes that run with them.
    """
    from service.enclosure.running import refusal

    checks = [*_packages(), _database(db.place), _disk(db.place), *_keys()]
    why = refusal()
    programs = Check("isolation of programs", "missing", *why) if why else None
    checks.append(programs or Check("isolation of programs", "ok", "by bubblewrap"))
    if model is not None:
        checks += _endpoints(model, base_url or [])
    record: dict[str, Any] = {}
    lines: list[str] = []
    if training:
        from trainer_adapter.verl import contract

        folders = contract.installed_folders()
        checks += _contract(folders)
        rows = contract.recipe_support(folders) if "verl" in folders else []
        record["recipes"] = [row._asdict() for row in rows]
        lines = [
            "",
            "recipe, tier, whether it runs with this verl",
            *(" ".join(map(str, row)) for row in rows),
        ]
    record = {"checks": [check._asdict() for check in checks], **record}
    results = (f"{c.state:9}{c.what}: {c.detail}" + (f" ({c.way_out})" if c.way_out else "") for c in checks)
    terminal.emit(record, *results, *lines)
    wrong = [check.what for check in checks if check.needed and check.state != "ok"]
    if wrong:
        raise exits.needs_attention(f"{', '.join(wrong)}: see above.")


def _version(package: str) -> str | None:
    from importlib import metadata  # brings in the email package: a tenth of the time of --help

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> Iterator[Check]:
    good = (3, 11) <= sys.version_info[:2] < (3, 13)
    way_out = "" if good else "tagrpo is tested with Python 3.11 and 3.12"
    yield Check("Python", "ok" if good else "problem", platform.python_version(), way_out, needed=True)
    yield Check("tagrpo", "ok", _version("tagrpo") or "source tree")
    for what, (packages, way_out) in {"base packages": (BASE, "pip install tagrpo"), **EXTRAS}.items():
        versions = {package: _version(package) for package in packages}
        if lacking := [package for package, version in versions.items() if version is None]:
            state: State = "problem" if packages is BASE else "missing"
            yield Check(what, state, f"not installed: {', '.join(lacking)}", way_out, packages is BASE)
        else:
            yield Check(
                what, "ok", ", ".join(f"{package} {version}" for package, version in versions.items())
            )


def _contract(folders: Mapping[str, Path]) -> Iterator[Check]:
    from trainer_adapter.verl.contract import differences
    from trainer_adapter.verl.hooks import GROUPS, TESTED_VERSIONS

    version = _version("verl")
    if version is None:
        way_out = EXTRAS["training with verl"][1]
        yield Check("hooks for training", "problem", "verl is not installed", way_out, needed=True)
        return
    known = "tested" if version in TESTED_VERSIONS else f"not tested; tested: {', '.join(TESTED_VERSIONS)}"
    way_out = f"pip install 'verl=={TESTED_VERSIONS[-1]}'"
    for what, hooks in GROUPS.items():
        needed = "GPU" not in what and "CPU" not in what
        lacking = differences(folders, hooks)
        count = f"{len(hooks) - len(lacking)} of {len(hooks)}"
        detail = f"verl {version} ({known}), Ray {_version('ray')}: {count}"
        yield Check(f"hooks of {what}", "problem" if lacking else "ok", detail, "", needed)
        yield from (Check("differs", "problem", each, way_out, needed) for each in lacking)


def _database(place: "Place") -> Check:
    from service.database import Database
    from service.database.filesystem import check_place, network_file_system
    from service.errors import DatabaseError

    where = ""
    try:
        if isinstance(place, Path):
            if kind := network_file_system(place):
                where = f", on {kind}, one process at a time"
            check_place(place)
            if not place.exists():
                start = "tagrpo questions import FILE --name NAME"
                return Check("database", "missing", f"{place}: does not exist yet", start)
        with Database.open(place, read_only=True) as database:
            problems = database.integrity_report()
    except DatabaseError as error:
        return Check("database", "problem", str(error), needed=True)
    if problems:
        way_out = "run tagrpo db check, then restore a backup"
        return Check("database", "problem", f"{place}: {'; '.join(problems[:3])}", way_out, needed=True)
    return Check("database", "ok", f"{place}, no problems found{where}")


def _disk(place: "Place") -> Check:
    folder = place.resolve().parent if isinstance(place, Path) else Path.cwd()
    if not folder.exists():
        way_out = "create it, or choose another with --db"
        return Check("disk", "problem", f"{folder} does not exist", way_out, needed=True)
    free = shutil.disk_usage(folder).free / 1e9
    low = free < LOW_DISK_GB
    way_out = "free some space" if low else ""
    return Check("disk", "problem" if low else "ok", f"{free:.1f} GB free in {folder}", way_out, needed=True)


def _keys() -> Iterator[Check]:
    names = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    way_out = "" if names else "export OPENAI_API_KEY=...; your own vLLM server needs none"
    yield Check("API keys", "ok" if names else "missing", ", ".join(names) or "none set", way_out)
    token: State = "ok" if os.environ.get("HF_TOKEN") else "missing"
    yield Check("Hugging Face token", token, "only gated datasets need HF_TOKEN")


def _endpoints(model: str, bases: Sequence[str]) -> list[Check]:
    """Look at each server by itself, then whether several serve the same."""
    from service.asks.redaction import redact

    if len(bases) < 2:
        return [_endpoint(f"model {model}", model, bases)]
    checks = [_endpoint(redact(f"server {base}"), model, [base]) for base in bases]
    return [*checks, _endpoint(f"model {model} at {len(checks)} servers", model, bases)]


def _endpoint(what: str, model: str, bases: Sequence[str]) -> Check:
    import asyncio

    from service.asks.money import find_price
    from service.asks.remote import RemoteEndpoint
    from service.errors import PrerequisiteError

    async def look() -> bool:
        endpoint = RemoteEndpoint(model, bases)
        try:
            await endpoint.open()
            return endpoint.takes("response_format")
        finally:
            await endpoint.close()

    try:
        structured = "" if asyncio.run(look()) else "no "
    except PrerequisiteError as error:
        return Check(what, "problem", str(error), needed=True)
    price = "known" if find_price(model) else "unknown: set the model's price to use --max-usd"
    detail = f"reachable, {structured}structured output, price {price}"
    return Check(what, "ok", detail)
