"""Questions with candidates of every verdict, to list, show and review; two versions of a set of apples."""

from pathlib import Path

from runs import Asked, Proposed, add_review, add_run, make_spec, open_empty

from rephraser.candidates import candidate_id
from rephraser.sets.publish import publish
from service.database import Database
from service.models.settings import Sampling
from service.questions.question import make_question
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
    spec = make_spec(sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=100))
    with Database.open(path) as database:
        return add_run(database, "run", ASKED, spec=spec)


def publish_reviewed_apples(path: Path) -> Database:
    """Publish `ta@1` to `ta@3`: one neighbor a question, two of them, and two with a review in between."""
    db = publish_apples(path, 6)
    question = make_question("How many apples are $2$ and one?", "3", "Level 3", "Algebra")
    add_review(db, question, "Add one to $2$ apples.", "rejected")
    add_review(db, question, "$2$ and one apples are how many?", "accepted")
    publish(db, "ta", run="r", n=2)
    return db


def publish_apples(path: Path, questions: int) -> Database:
    """Publish `ta@1` and `ta@2` of the run `r`; return the open database."""
    db = open_empty(path)
    asked = []
    for n in range(questions):
        add = Proposed(f"Add one to ${n}$ apples.")
        ask = Proposed(f"${n}$ and one apples are how many?", strategy="format", model="other/model")
        asked.append((f"How many apples are ${n}$ and one?", str(n + 1), [add, ask]))
    add_run(db, "r", asked)
    publish(db, "ta", run="r", n=1)
    publish(db, "ta", run="r", n=2)
    return db
