"""`tagrpo doctor`: what is installed, reachable and missing, and how to get it."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ui.cli import exits
from ui.cli.output import terminal
from ui.cli.settings import db

if TYPE_CHECKING:
    from service.database import Place

State = Literal["ok", "missing", "problem"]
MARKS: dict[State, str] = {"ok": "ok", "missing": "-", "problem": "!"}

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "pages in the browser": (("streamlit", "altair"), "pip install 'tagrpo[ui]'"),
    "training with verl": (
        ("torch", "verl", "ray", "tensordict", "transformers", "TransferQueue"),
        "pip install torch==2.13.0 (PyTorch's CPU index without a GPU), then pip install 'tagrpo[train]'",
    ),
    "offline vLLM engine": (("vllm",), "pip install 'tagrpo[vllm]' on a machine with a GPU"),
}
BASE = ("litellm", "datasets", "math-verify", "sqlalchemy", "alembic", "pebble", "scipy", "rapidfuzz")
LOW_DISK_GB = 2.0


@dataclass(frozen=True)
class Check:
    """One line of the report. `needed` problems make the exit code 3; the rest is only information."""

    what: str
    state: State
    detail: str
    way_out: str = ""
    needed: bool = False


def doctor(model: str | None = None, base_url: list[str] | None = None, training: bool = False) -> None:
    """Report what is installed, reachable or missing, and how to install it.

    --training prints a line for each part of verl or Ray that differs from the tested versions, and a table
    of the recipes that run with your version of verl.

    Example: tagrpo doctor --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1

    Args:
        model: Also try to reach this model, named as in litellm.
        base_url: Address of the model's server. Repeat the option for several servers.
        training: Also check every verl and Ray function that tagrpo extends.
    """
    checks = [_python(), *_packages(), _programs(), _database(db.place), _disk(db.place), *_keys()]
    if model is not None:
        checks += _endpoints(model, base_url or [])
    recipes: dict[str, Any] = {}
    if training:
        from trainer_adapter.verl import contract

        folders = contract.installed_folders()
        checks += _contract(folders)
        recipes["recipes"] = [row._asdict() for row in contract.recipe_support(folders) if "verl" in folders]
    terminal.rows(
        "checks",
        checks,
        {
            "": lambda check: MARKS[check.state],
            "what": "what",
            "found": "detail",
            "how to fix it": "way_out",
        },
        **recipes,
    )
    if recipes.get("recipes") and not terminal.as_json:
        columns = {"recipe": "recipe", "tier": "tier", "runs": "runs", "missing in verl": "reason"}
        terminal.rows("recipes", recipes["recipes"], columns)
    wrong = [check.what for check in checks if check.needed and check.state != "ok"]
    if wrong:
        raise exits.needs_attention(f"{', '.join(wrong)}: see above.")


def _python() -> Check:
    good = (3, 11) <= sys.version_info[:2] < (3, 13)
    way_out = "" if good else "tagrpo is tested with Python 3.11 and 3.12"
    return Check("Python", "ok" if good else "problem", platform.python_version(), way_out, needed=True)


def _version(package: str) -> str | None:
    from importlib import metadata  # brings in the email package: a tenth of the time of --help

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> list[Check]:
    checks = [Check("tagrpo", "ok", _version("tagrpo") or "source tree")]
    for what, (packages, way_out) in {"base packages": (BASE, "pip install tagrpo"), **EXTRAS}.items():
        needed = packages is BASE
        versions = {package: _version(package) for package in packages}
        lacking = [package for package, version in versions.items() if version is None]
        if lacking:
            detail = f"not installed: {', '.join(lacking)}"
            checks.append(Check(what, "problem" if needed else "missing", detail, way_out, needed))
        else:
            detail = ", ".join(f"{package} {version}" for package, version in versions.items())
            checks.append(Check(what, "ok", detail))
    return checks


def _programs() -> Check:
    from service.enclosure.running import refusal

    what = "isolation of programs"
    return Check(what, "missing", *why) if (why := refusal()) else Check(what, "ok", "by bubblewrap")


def _contract(folders: Mapping[str, Path]) -> list[Check]:
    from trainer_adapter.verl.contract import differences
    from trainer_adapter.verl.hooks import CPU, CPU_SPEED, IMAGES, RESCUE, TESTED_VERSIONS, TIER_1, TIER_2

    if _version("verl") is None:
        way_out = EXTRAS["training with verl"][1]
        return [Check("hooks for training", "problem", "verl is not installed", way_out, needed=True)]
    version = _version("verl") or ""
    known = "tested" if version in TESTED_VERSIONS else f"not tested; tested: {', '.join(TESTED_VERSIONS)}"
    checks = []
    for what, hooks, needed in (
        ("hooks of tier 1", TIER_1, True),
        ("hooks of tier 2", TIER_2, True),
        ("hooks for rescue sampling", RESCUE, True),
        ("hooks for images", IMAGES, True),
        ("hooks for training without a GPU", CPU, False),
        ("hooks for faster CPU training", CPU_SPEED, False),
    ):
        lacking = differences(folders, hooks)
        detail = (
            f"verl {version} ({known}), Ray {_version('ray')}: {len(hooks) - len(lacking)} of {len(hooks)}"
        )
        checks.append(Check(what, "problem" if lacking else "ok", detail, "", needed))
        way_out = f"pip install 'verl=={TESTED_VERSIONS[-1]}'"
        checks += [Check("differs", "problem", each, way_out, needed) for each in lacking]
    return checks


def _database(place: "Place") -> Check:
    from service.database import Database
    from service.database.filesystem import check_place, network_file_system
    from service.errors import DatabaseError

    where = way_out = ""
    try:
        if isinstance(place, Path):
            if kind := network_file_system(place):
                where = f", on {kind}, one process at a time"
            check_place(place)
            if not place.exists():
                start = "tagrpo questions import FILE --name NAME"
                return Check("database", "missing", f"{place}: does not exist yet", start)
            way_out = "run tagrpo db check, then restore a backup"
        with Database.open(place, read_only=True) as database:
            problems = database.integrity_report()
            size = place.stat().st_size if isinstance(place, Path) else database.size()
    except DatabaseError as error:
        return Check("database", "problem", str(error), needed=True)
    if problems:
        return Check("database", "problem", f"{place}: {'; '.join(problems[:3])}", way_out, needed=True)
    return Check("database", "ok", f"{place}, {size / 1000000.0:.1f} MB, no problems found{where}")


def _disk(place: "Place") -> Check:
    folder = place.resolve().parent if isinstance(place, Path) else Path.cwd()
    if not folder.exists():
        way_out = "create it, or choose another with --db"
        return Check("disk", "problem", f"{folder} does not exist", way_out, needed=True)
    free = shutil.disk_usage(folder).free / 1e9
    if free < LOW_DISK_GB:
        return Check("disk", "problem", f"{free:.1f} GB free in {folder}", "free some space", needed=True)
    return Check("disk", "ok", f"{free:.0f} GB free in {folder}")


def _keys() -> list[Check]:
    names = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    keys, hub = "API keys", "Hugging Face token"
    no_keys = "export OPENAI_API_KEY=...; your own vLLM server needs none"
    return [
        Check(keys, "ok", f"set: {', '.join(names)}")
        if names
        else Check(keys, "missing", "no *_API_KEY in the environment", no_keys),
        Check(hub, "ok", "HF_TOKEN is set")
        if os.environ.get("HF_TOKEN")
        else Check(hub, "missing", "HF_TOKEN is not set", "needed only for gated datasets"),
    ]


def _endpoints(model: str, bases: list[str]) -> list[Check]:
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

    endpoint = RemoteEndpoint(model, bases, price=find_price(model))

    async def look() -> bool:
        try:
            await endpoint.open()
            return endpoint.takes("response_format")
        finally:
            await endpoint.close()

    try:
        structured = asyncio.run(look())
    except PrerequisiteError as error:
        return Check(what, "problem", str(error), needed=True)
    output = f"{'' if structured else 'no '}structured output"
    price = (
        "price unknown: set the model's price to use --max-usd" if endpoint.price is None else "price known"
    )
    return Check(what, "ok", f"reachable, {output}, {price}")
