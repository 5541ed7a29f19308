"""Two questions with candidates of every verdict, for commands that list, show and review them."""

from pathlib import Path

from runs import Asked, Proposed, add_run, make_spec

from rephraser.tables import candidate_id
from service.database import Database
from service.models.settings import Sampling
from service.questions import make_question
from service.runs.store import Run

SUM, HALF = make_question("What is 2+3?", "5"), make_question("Halve 8.", "4")
ASKED: list[Asked] = [
    (
        SUM.text,
        SUM.answer,
        [
            Proposed("Add 2 and 3.", ("unverified", "accepted")),
            Proposed("Add 2 and [b]4[/b].", ("rejected",), strategy="format"),
            Proposed("2 and 3 make \x1b[2Jwhat?", ("undecided",)),
        ],
    ),
    (HALF.text, HALF.answer, [Proposed("What is half of 8?"), Proposed("8 halves?", ())]),
]
ADD, WRONG, ODD = (candidate_id(SUM.id, item.text) for item in ASKED[0][2])
HALVED, PENDING = (candidate_id(HALF.id, item.text) for item in ASKED[1][2])


def add_candidates(path: Path) -> Run:
    """Store them as the run "run"."""
    with Database.open(path) as database:
        return add_run(
            database,
            "run",
            ASKED,
            spec=make_spec(sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=100)),
        )
