"""What stands in the shipped demo, written beside it when it is packed."""

from collections.abc import Sequence
from pathlib import Path

from service.writing import write_file
from ui.shipped_demo.packing import PackedTable, read_manifest

README = "README.md"


def write_contents(pack: Path, tables: Sequence[PackedTable], unpacked: int, target: Path) -> None:
    """Write the page that says where a pack came from and what it holds."""
    manifest = read_manifest(pack)
    runs = ", ".join(f"{count} {kind}" for kind, count in manifest["runs"].items())
    versions = ", ".join(f"{name} {version}" for name, version in sorted(manifest["versions"].items()))
    opening = (
        f"`{pack.name}` holds the database of a run of `tagrpo demo` on {manifest['made_on']} (UTC). "
        "`tagrpo ui --demo` unpacks it to the user's cache folder and shows it. Every row of every table is "
        "in it; nothing is left out, rounded or edited, but one thing: the path of the demo's folder is cut "
        "to its last name."
    )
    lines = [
        "# The shipped demo",
        "",
        opening,
        "",
        f"- runs: {runs}",
        f"- schema {manifest['revision']}; {pack.stat().st_size:,} bytes packed, {unpacked:,} unpacked",
        f"- made with {versions}",
        "",
        "This page and the pack are written by one command, from the root of the source tree:",
        "",
        "```bash",
        "tagrpo demo",
        "python -m ui.shipped_demo tagrpo-demo/tagrpo.db",
        "```",
        "",
        "| table | rows | bytes packed |",
        "|---|---:|---:|",
        *(f"| {one.name} | {one.rows:,} | {one.size:,} |" for one in tables if one.rows),
        "",
    ]
    text = "\n".join(lines)
    write_file(target, lambda path: _put(path, text), overwrite=True)


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
