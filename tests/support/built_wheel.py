"""The wheel, built, and installed where there is no source tree."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel of the tree `source`."""
    return _build("wheel", folder, source)


def build_sdist(folder: Path) -> Path:
    """Build the source distribution of this tree."""
    return _build("sdist", folder, ROOT)


def _build(kind: str, folder: Path, source: Path) -> Path:
    """Without hatchling here, `build` fetches it into an environment of its own."""
    here = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    call = [sys.executable, "-m", "build", f"--{kind}", *here, "--outdir", str(folder), str(source)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install the wheel into an environment that borrows the dependencies, and give its `bin`.

    The line of a .pth file is added to the path as it is: .pth files in the borrowed folder, such as the one
    of an editable install of this tree, are not followed.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    call = [*pip, "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (packages / "borrowed.pth").write_text("\n".join(borrowed))
    return folder / "bin"


def run_installed(
    installed: Path, folder: Path, *arguments: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run the installed command in `folder`, without what names this tree in the environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TAGRPO"))}
    call, home = [str(installed / "tagrpo"), *arguments], {"HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(call, capture_output=True, text=True, cwd=folder, env=kept | home, timeout=timeout)
