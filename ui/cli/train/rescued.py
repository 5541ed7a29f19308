"""`tagrpo rollouts rescued`: which dead questions of a training their neighbors revived."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.settings import Db, OnlyRun
from ui.cli.train.rollouts import chosen_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainer_adapter.record.rescues import RescuedQuestion, RescueTotals


def rescued(
    run: OnlyRun = None,
    outcome: Annotated[str | None, Option(help='Only "rescued" questions, or those "never rescued".')] = None,
    after: Annotated[str | None, Option(help="Continue after this question.")] = None,
    limit: Annotated[int, Option(min=1, help="Number of questions to show.")] = 25,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show which all-wrong questions were rescued, and by which neighbors; for recipes such as ta_rescue.

    A question is all-wrong at a step if no response to it is right. Those most often all-wrong come first.

    Example: tagrpo rollouts rescued ta_rescue --outcome "never rescued"
    """
    from service.questions.store import question_texts
    from trainer_adapter.record.rescues import page_rescues, rescue_totals

    with db.reading() as session:
        name, training = chosen_record(session, run)
        counts, spec = training.counts(), training.run.spec
        totals = rescue_totals(counts, spec)
        questions = page_rescues(counts, spec, outcome=outcome, after=after, limit=limit + 1)
        texts = question_texts(session, [question.question_id for question in questions])
    behind = questions[limit - 1].question_id if len(questions) > limit else None
    questions = questions[:limit]
    record = {
        "run": name,
        "totals": {
            **asdict(totals),
            "dead_share": totals.dead_share,
            "revived_share": totals.revived_share,
        },
        "questions": [
            {**asdict(question), "text": texts.get(question.question_id), "outcome": question.outcome}
            for question in questions
        ],
        "after": behind,
    }
    terminal.emit(record, _print, name, totals, questions, texts, behind)


def _print(
    run: str,
    totals: "RescueTotals",
    questions: "Sequence[RescuedQuestion]",
    texts: "Mapping[str, str]",
    behind: str | None,
) -> None:
    output.say(*totals.sentences())
    output.table(
        ["question", "all-wrong at", "rescued at", "last", "correct among its neighbors' responses", "text"],
        [
            [
                question.question_id,
                f"{question.dead} of {question.visits}",
                question.revived,
                question.last_step,
                question.in_words(),
                texts.get(question.question_id, "")[: output.TEXT_SHOWN] or None,
            ]
            for question in questions
        ],
        title=run,
        empty="no question matches",
    )
    output.say_next(behind)
