"""Carry folders to a machine without a network in pieces, and unpack them there.

It takes the standard library alone, since it runs before the packages that it carries are unpacked.
"""

import gzip
import hashlib
import json
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from importlib.metadata import distribution
from pathlib import Path

PIECE = 48 * 2**20
"""Bytes of a piece at most."""
MANIFEST = "manifest.json"
DROPPED = (
    *("ray/jars/*", "ray/rllib/*", "ray/serve/*", "ray/dashboard/client/*", "ray/cpp/*"),
    *("vllm/vllm_flash_attn/_vllm_fa2_C*", "vllm/vllm-rs", "vllm/third_party/*/include/*"),
    *("*/_C.cpython-310-*", "*/_C.cpython-311-*", "*/_C.cpython-313-*", "*/_C.cpython-314-*"),
    *("xgrammar/lib/*.a", "litellm/proxy/_experimental/*"),
)
"""Members of wheels that a training on one GPU does without; they are most of the bytes."""


def pack(travel: Path, name: str, folder: Path, *, compress: bool) -> None:
    """Write a folder as pieces `NAME.000`, `NAME.001`, ..., and list them in the manifest.

    Args:
        compress: by gzip; weights do not get smaller by it.
    """
    travel.mkdir(parents=True, exist_ok=True)
    for old in travel.glob(f"{name}.[0-9]*"):
        old.unlink()
    whole = travel / f"{name}.whole"
    with (
        gzip.open(whole, "wb", compresslevel=6) if compress else whole.open("wb") as file,
        tarfile.open(fileobj=file, mode="w|", dereference=True) as archive,
    ):
        archive.add(folder, arcname=".")
    hashes = []
    with whole.open("rb") as file:
        while part := file.read(PIECE):
            (travel / f"{name}.{len(hashes):03d}").write_bytes(part)
            hashes.append(hashlib.sha256(part).hexdigest())
    whole.unlink()
    manifest = {**read_manifest(travel), name: hashes}
    (travel / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def read_manifest(travel: Path) -> dict[str, list[str]]:
    """Return the hashes of the pieces of each folder; {} if nothing is packed."""
    path = travel / MANIFEST
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def unpack(travel: Path, place: Path) -> None:
    """Unpack every folder of the manifest; see `unpack_folder`.

    Raises:
        ValueError: no manifest.
    """
    manifest = read_manifest(travel)
    if not manifest:
        raise ValueError(f"{travel}: has no {MANIFEST}. Carry it along with the pieces.")
    for name in manifest:
        unpack_folder(travel, place, name)


def unpack_folder(travel: Path, place: Path, name: str) -> None:
    """Unpack a folder as `place/NAME`, unless it exists.

    Raises:
        ValueError: pieces that are missing or damaged; the message names them.
    """
    if (place / name).exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    hashes = read_manifest(travel)[name]
    pieces = {travel / f"{name}.{number:03d}": expected for number, expected in enumerate(hashes)}
    bad = [
        piece.name
        for piece, expected in pieces.items()
        if not piece.exists() or hashlib.sha256(piece.read_bytes()).hexdigest() != expected
    ]
    if bad:
        raise ValueError(f"{travel}: missing or damaged: {', '.join(bad)}. Carry these pieces again.")
    whole, partial = place / f"{name}.whole", place / f"{name}.partial"
    with whole.open("wb") as file:
        for piece in pieces:
            file.write(piece.read_bytes())
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(whole) as archive:
        archive.extractall(partial, filter="data")
    whole.unlink()
    partial.rename(place / name)


def collect_packages(wheels: Path, site: Path) -> None:
    """Unzip wheels into a folder for `PYTHONPATH`, without `DROPPED`, and with tagrpo's entry points.

    verl and vLLM find tagrpo by its entry points. Its code is the clone that `python -m` runs in.
    """
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member, target in _members(archive.infolist()):
                path = site / target
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
                path.chmod((member.external_attr >> 16 or 0o644) | 0o600)
    about = site / "tagrpo-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    for name in ("METADATA", "entry_points.txt"):
        (about / name).write_text(distribution("tagrpo").read_text(name) or "", encoding="utf-8")


def _members(members: Sequence[zipfile.ZipInfo]) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    for member in members:
        name = member.filename
        first, _, rest = name.partition("/")
        if first.endswith(".data"):
            kind, _, name = rest.partition("/")
            if kind not in ("purelib", "platlib"):
                continue
        if not (member.is_dir() or any(fnmatch(name, pattern) for pattern in DROPPED)):
            yield member, name
