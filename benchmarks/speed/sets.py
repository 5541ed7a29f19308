"""Times publishing, verifying, comparing, exporting and importing on a run of the size of MATH train.

    python -m benchmarks.speed.sets [--questions 7500]

The last line is one JSON object: seconds by step, and whether every import gave the same hash.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from runs import add_large_run, open_empty

from benchmarks.harness import peak_mb
from rephraser import sets
from trainer_adapter.verl.export import export_verl
from trainer_adapter.verl.prompts import PromptTemplate

Result = TypeVar("Result")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=7500)
    questions = parser.parse_args().questions
    seconds: dict[str, float] = {}

    def timed(what: str, work: Callable[[], Result]) -> Result:
        start = time.perf_counter()
        result = work()
        seconds[what] = round(time.perf_counter() - start, 2)
        print(f"{what:16} {seconds[what]:6.2f} s")
        return result

    with TemporaryDirectory() as name, open_empty(Path(name) / "a.db") as db:
        folder = Path(name)
        add_large_run(db, questions=questions)
        first = timed("publish", lambda: sets.publish(db, "large", run="large", n=3)).header
        timed("publish again", lambda: sets.publish(db, "large", run="large", n=3))
        sets.publish(db, "large", run="large", n=2)
        with db.read() as session:
            report = timed("verify", lambda: sets.verify(session, "large@1"))
            found = timed("diff", lambda: sets.diff(session, "large@1", "large@2"))
        exports = {"jsonl": sets.export_jsonl, "parquet": sets.export_parquet, "hf": sets.export_hf}
        hashes = set()
        for kind, export in exports.items():
            target = folder / f"out.{kind}"
            timed(f"export {kind}", lambda: export(db, "large@1", target))  # noqa: B023
            with open_empty(folder / f"{kind}.db") as other:
                imported = timed(f"import {kind}", lambda: sets.import_set(other, target, "copy"))  # noqa: B023
            hashes.add(imported.header.content_hash)
        with db.read() as session:
            entries = sets.load_set(session, "large@1").entries
        template = PromptTemplate("Give the answer in a box.")
        timed(
            "export verl",
            lambda: export_verl(
                entries,
                folder / "verl",
                template=template,
                data_source="math",
                set_ref="large@1",
                content_hash=first.content_hash,
            ),
        )
        result = {
            "questions": first.counts["questions"],
            "neighbors": first.counts["neighbors"],
            "verified": report.ok,
            "neighbors_removed": len(found.removed),
            "same_hash_after_import": hashes == {first.content_hash},
            "seconds": seconds,
            "peak_mb": round(peak_mb(), 1),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
