"""Questions whose gold the solvers contradict, from the answers behind verdicts."""

from pathlib import Path
from typing import Any

from scripted import GOOD, OTHER, QUESTION, World, make_spec, proposals

from rephraser.views.questions import QuestionFilters, page_questions
from rephraser.views.runs import summarize
from rephraser.views.suspects import Suspect, find_suspects

PENS = (
    "How many dollars do a pen at $12$ dollars and a pad at $5$ dollars cost together?",
    "A pad for $5$ dollars and a pen for $12$ dollars: how many dollars is that together?",
)


def solved(path: Path, answers: dict[str, str]) -> World:
    """Two questions with two candidates each, answered and judged; the golds are 12 and 17."""
    world = World(
        path,
        make_spec(rounds=1),
        (QUESTION, OTHER),
        proposed={QUESTION.id: [proposals(*GOOD)], OTHER.id: [proposals(*PENS)]},
        answers=answers,
    )
    world.work()
    return world


def suspects(world: World, **wanted: Any) -> list[Suspect]:
    with world.db.read() as session:
        return find_suspects(session, **wanted)


def test_a_question_whose_answers_agree_on_another_one_is_suspect(tmp_path: Path) -> None:
    world = solved(tmp_path, {"pen": "17", "x": "26"})
    (one,) = suspects(world)
    assert (one.question_id, one.gold, one.agreed) == (QUESTION.id, "12", "26")
    assert (one.question_agreeing, one.question_drawn) == (32, 32)
    assert (one.neighbor_agreeing, one.neighbor_drawn, one.neighbors) == (24, 24, 2)
    assert (one.gold_given, one.share, one.solvers, one.run) == (0, 1.0, ("s",), "run")
    assert suspects(world, run_id=world.run.id, question_id=QUESTION.id) == [one]
    assert suspects(world, question_id=OTHER.id) == []
    assert suspects(world, run_id="none such") == []
    with world.db.read() as session:
        assert summarize(session, world.run).suspects == 1
        listed = page_questions(session, QuestionFilters(suspect=True)).questions
        assert [shown.question.id for shown in listed] == [QUESTION.id]
