"""Who was rescued: totals by stage, weights, dead questions with the neighbors that revived them."""

from math import exp

import pytest
from rescues import write_rescues

from trainer_adapter.record.reading import Record
from trainer_adapter.record.rescues import rescue_totals


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
