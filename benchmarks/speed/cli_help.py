"""How long `tagrpo --help` takes, in milliseconds and as a ratio to a bare `import typer`."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HELP = "import sys; sys.argv = ['tagrpo', '--help']; from ui.cli.app import main; main()"
BARE = "import typer"
LIMIT_MS = 500


def milliseconds(script: str, environment: dict[str, str]) -> float:
    """Return the wall time of one Python process that runs `script`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11, help="processes of each kind, taken in turns")
    options = parser.parse_args()
    # As installed by pip: byte code is kept.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for script in (HELP, BARE):
        milliseconds(script, environment)  # fills the caches
    pairs = [
        (milliseconds(HELP, environment), milliseconds(BARE, environment)) for _ in range(options.repeats)
    ]
    shown, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"tagrpo --help          {shown:6.0f} ms (median of {options.repeats}; the limit is {LIMIT_MS})")
    print(f"python -c '{BARE}' {bare:6.0f} ms")
    print(f"ratio                  {shown / bare:6.2f}")
    report = {"help_ms": round(shown, 1), "bare_ms": round(bare, 1), "ratio": round(shown / bare, 2)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
