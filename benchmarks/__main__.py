"""`python -m benchmarks` lists what there is, with the first line of each."""

import ast

from benchmarks.harness import ROOT


def scripts() -> dict[str, str]:
    """Return the first line of every script, by its module's name."""
    folder = ROOT / "benchmarks"
    lines = {}
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/*.py")]):
        source = path.read_text(encoding="utf-8")
        if path.name != "__main__.py" and '__name__ == "__main__"' in source:
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            lines[module] = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return lines


def main() -> None:
    for module, line in scripts().items():
        print(f"{module:40} {line}")
    print("\n`python -m MODULE --help` says more of one.")


if __name__ == "__main__":
    main()
