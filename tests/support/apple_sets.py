"""A database with two versions of a neighbor set: one neighbor a question, then two."""

from pathlib import Path

from runs import Proposed, add_run, open_empty

from rephraser import sets
from service.database import Database


def publish_apples(path: Path, questions: int) -> Database:
    """Publish `ta@1` and `ta@2` of the run `r`; return the open database."""
    db = open_empty(path)
    asked = [
        (
            f"How many apples are ${n}$ and one?",
            str(n + 1),
            [
                Proposed(f"Add one to ${n}$ apples."),
                Proposed(f"${n}$ and one apples are how many?", strategy="format", model="other/model"),
            ],
        )
        for n in range(questions)
    ]
    add_run(db, "r", asked)
    sets.publish(db, "ta", run="r", n=1)
    sets.publish(db, "ta", run="r", n=2)
    return db
