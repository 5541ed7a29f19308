"""Who was rescued: totals by stage, weights, dead questions with the neighbors that revived them."""

from functools import partial
from math import exp

import pytest
from rescues import NEVER, RECIPE, REVIVED, write_rescues

from service.errors import InputError
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rescues import OUTCOMES, page_rescues, rescue_totals


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return Record(write_rescues(tmp_path_factory.mktemp("rescues")))


def test_totals_count_groups_responses_and_weights(record: Record) -> None:
    totals = rescue_totals(record.counts(), record.run.spec)
    assert (totals.groups, totals.dead, totals.asked, totals.revived) == (6, 4, 4, 2)
    assert (totals.first, totals.more, totals.to_neighbors) == (24, 8, 16)
    assert totals.dead_share == pytest.approx(4 / 6)
    assert totals.revived_share == pytest.approx(0.5)
    # of the revived question's neighbors sessions 4, 6 and 7 are wrong, with log-ratios 0, -2 and -3
    weights = [1.0, exp(-2), exp(-3)]
    assert totals.weighed == 6
    assert totals.weight == pytest.approx(sum(weights) / 3)
    assert totals.effective == pytest.approx(sum(weights) ** 2 / (3 * sum(w**2 for w in weights)))
    dead, responses, weighed = totals.sentences()
    assert dead.startswith(
        "4 of 6 groups were all wrong at first (66.7%); neighbors were sampled for 4 groups and rescued 2"
    )
    assert responses == "responses: 24 in the first stage; in the second, 8 to questions, 16 to neighbors"
    assert weighed.startswith("6 wrong responses to neighbors have mean weight 0.395")


def test_questions_are_listed_with_the_neighbors_that_did_it(record: Record) -> None:
    page = partial(page_rescues, record.counts(), record.run.spec)
    revived, never = page()
    assert [question.outcome for question in (revived, never)] == list(OUTCOMES)
    assert revived.question_id == f"q_{REVIVED:024x}"
    assert (revived.visits, revived.dead, revived.revived, revived.last_step) == (2, 2, 2, 2)
    counts = [(neighbor.variant, neighbor.right, neighbor.drawn) for neighbor in revived.neighbors]
    assert counts == [(1, 0, 4), (2, 2, 2), (3, 0, 2)]
    assert revived.in_words() == "format 2/2, paraphrase 0/4, rename 0/2"
    for outcome, question in zip(OUTCOMES, (revived, never), strict=True):
        assert page(outcome=outcome) == [question]
    assert page(limit=1) == [revived]
    behind = page(after=revived.question_id)
    assert [question.question_id for question in behind] == [f"q_{NEVER:024x}"]


def test_other_trainings_and_outcomes_are_refused(record: Record) -> None:
    assert RECIPE["sampling"] == "rescue"
    with pytest.raises(InputError, match="samples neighbors for every question"):
        rescue_totals(record.counts(), {"recipe": "ta_grpo"})
    with pytest.raises(InputError, match="Choose rescued or never rescued"):
        page_rescues(record.counts(), record.run.spec, outcome="dead")
