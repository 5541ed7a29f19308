"""Carry folders to a machine without a network in pieces, and unpack them there, by tar, split and sha256sum.

It takes the standard library alone, since it runs before the packages that it carries are unpacked.
"""

import shutil
import subprocess
import zipfile
from fnmatch import fnmatch
from importlib.metadata import distribution
from pathlib import Path

PIECE = 48 * 2**20
"""Bytes of a piece at most."""
DROPPED = (
    *("ray/jars/*", "ray/rllib/*", "ray/serve/*", "ray/dashboard/client/*", "ray/cpp/*"),
    *("vllm/vllm_flash_attn/_vllm_fa2_C*", "vllm/vllm-rs", "vllm/third_party/*/include/*"),
    *("*/_C.cpython-310-*", "*/_C.cpython-311-*", "*/_C.cpython-313-*", "*/_C.cpython-314-*"),
    *("xgrammar/lib/*.a", "litellm/proxy/_experimental/*"),
)
"""Members of wheels that a training on one GPU does without; they are most of the bytes."""


def pack(travel: Path, name: str, folder: Path, *, compress: bool) -> None:
    """Write a folder as pieces `NAME.000`, `NAME.001`, ..., and their hashes as `NAME.sha256`.

    Args:
        compress: by gzip; weights do not get smaller by it.
    """
    travel.mkdir(parents=True, exist_ok=True)
    for old in travel.glob(f"{name}.*"):
        old.unlink()
    tar = ["tar", "-chzf" if compress else "-chf", "-", "-C", str(folder), "."]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as archive:
        split = ["split", f"--bytes={PIECE}", "--numeric-suffixes", "--suffix-length=3", "-", f"{name}."]
        subprocess.run(split, stdin=archive.stdout, cwd=travel, check=True)
    if archive.returncode:
        raise ValueError(f"{folder}: tar ended with exit code {archive.returncode}.")
    pieces = sorted(path.name for path in travel.glob(f"{name}.[0-9]*"))
    with (travel / f"{name}.sha256").open("wb") as file:
        subprocess.run(["sha256sum", *pieces], stdout=file, cwd=travel, check=True)


def unpack(travel: Path, place: Path) -> None:
    """Unpack every packed folder as `place/NAME`, unless it exists.

    Raises:
        ValueError: there is none, or pieces are missing or damaged; the message names them.
    """
    packed = sorted(travel.glob("*.sha256"))
    if not packed:
        raise ValueError(f"{travel}: has no .sha256 file. Carry these files along with the pieces.")
    place.mkdir(parents=True, exist_ok=True)
    for hashes in packed:
        if (place / hashes.stem).exists():
            continue
        check = ["sha256sum", "--check", "--quiet", hashes.name]
        checked = subprocess.run(check, cwd=travel, capture_output=True, text=True, check=False)
        if checked.returncode:
            raise ValueError(
                f"{travel}: carry the pieces that failed again.\n{checked.stdout}{checked.stderr}"
            )
        whole, partial = place / f"{hashes.stem}.whole", place / f"{hashes.stem}.partial"
        pieces = [line.split(maxsplit=1)[1] for line in hashes.read_text(encoding="utf-8").splitlines()]
        with whole.open("wb") as file:
            subprocess.run(["cat", *pieces], stdout=file, cwd=travel, check=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        subprocess.run(["tar", "-xf", whole, "-C", partial], check=True)
        whole.unlink()
        partial.rename(place / hashes.stem)


def collect_packages(wheels: Path, site: Path) -> None:
    """Unzip wheels into a folder for `PYTHONPATH`, without `DROPPED`, and with tagrpo's entry points.

    verl and vLLM find tagrpo by its entry points. Its code is the clone that `python -m` runs in.
    """
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                name = member.filename
                first, _, rest = name.partition("/")
                if first.endswith(".data"):
                    kind, _, name = rest.partition("/")
                    if kind not in ("purelib", "platlib"):
                        continue
                if member.is_dir() or any(fnmatch(name, pattern) for pattern in DROPPED):
                    continue
                path = site / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
                path.chmod((member.external_attr >> 16 or 0o644) | 0o600)
    about = site / "tagrpo-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    for name in ("METADATA", "entry_points.txt"):
        (about / name).write_text(distribution("tagrpo").read_text(name) or "", encoding="utf-8")
