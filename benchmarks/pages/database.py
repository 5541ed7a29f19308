"""Makes a large database for measuring pages: questions, neighbors, sets, rollouts, evaluation samples.

Sizes at scale 1: 10,000 questions, 30,000 neighbors with verdicts and evidence, 3 versions of a set, 2
reviewers, 4 trainings with 1,000,000 rollouts, 8 eval runs with 200,000 samples. All follows from a seed.

Questions, runs, tasks, requests, problems, sets, reviews and rollouts are written by the project's own
functions; rollouts go into folders next to the database. Candidates, verdicts, samples and grades go into
their tables by plain inserts, as the project's functions would write them (its triggers run as well). Texts
are drawn from a pool of generated ones.
"""

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.made_candidates import make_candidates
from benchmarks.pages.made_responses import make_evaluation, make_rollouts
from benchmarks.pages.made_texts import Texts
from rephraser import sets
from rephraser.reviews.audit import open_audit
from rephraser.reviews.store import Decision, record_reviews
from service.database import Database
from service.questions import Question, make_question
from service.questions.store import Member, members_hash, store_set
from service.runs.store import Run

SUBJECTS = ("Algebra", "Counting & Probability", "Geometry", "Number Theory", "Prealgebra")


def make_database(path: Path, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
    """Write the database into a new file; return the seconds that each part took."""
    texts = Texts(random.Random(seed))
    seconds: dict[str, float] = {}
    with Database.open(path) as db:

        def timed(name: str, work: Any, *given: Any) -> Any:
            began = time.perf_counter()
            result = work(*given)
            seconds[name] = round(time.perf_counter() - began, 1)
            print(f"made {name}: {seconds[name]} s", flush=True)
            return result

        questions = timed("questions", make_questions, db, texts, round(10_000 * scale))
        run = timed("candidates", make_candidates, db, texts, questions)
        timed("sets and reviews", make_sets_and_reviews, db, run, questions)
        timed("evaluation", make_evaluation, db, texts, scale)
        timed("rollouts", make_rollouts, db, texts, questions, scale, path.parent / f"{path.stem}-rollouts")
    return seconds


def make_questions(db: Database, texts: Texts, count: int) -> list[Question]:
    """Store two sets of questions, of three quarters and of one quarter."""
    chance = texts.chance
    questions = [
        make_question(
            f"{texts.prose(80, 420)} What is {number} + 1?",
            str(number + 1),
            f"Level {1 + chance.randrange(5)}",
            chance.choice(SUBJECTS),
        )
        for number in range(count)
    ]
    split = count * 3 // 4
    with db.write() as session:
        for name, part in (("math", questions[:split]), ("extra", questions[split:])):
            members = [Member(place, question) for place, question in enumerate(part)]
            spec = {
                "kind": "import",
                "content_hash": members_hash((m.position, m.question.id) for m in members),
            }
            store_set(session, name, members, spec)
    return questions


def make_sets_and_reviews(db: Database, run: Run, questions: Sequence[Question]) -> None:
    """Publish three versions, draw an audit, and let two reviewers decide on it."""
    chance = random.Random(1)
    sets.publish(db, "math-ta", run=run.name, n=2)
    sets.publish(db, "math-ta", run=run.name, n=3)
    audit, _ = open_audit(db, run, size=min(400, len(questions)), seed=1)
    for reviewer in ("ada", "ben"):
        with db.write() as session:
            decisions = [
                Decision(member.candidate_id, *_decision(chance, member.status), reviewer, audit.id)
                for member in audit.members
            ]
            record_reviews(session, decisions)
    sets.publish(db, "math-ta", run=run.name, n=3)


def _decision(chance: random.Random, status: str) -> tuple[Any, str]:
    agrees = chance.random() < 0.9
    return ("accepted", "") if (status == "accepted") == agrees else ("rejected", "another problem")
