"""Which rows an update takes: whole questions on any number of ranks, and its share of the padding."""

import random
from collections import Counter

import pytest

from trainer_adapter.verl.plugin.steps.updates import order_rows


def updates_of(parts: list[list[int]], mini_batch: int) -> list[list[int]]:
    """Return the rows of each update, as verl cuts the parts of all ranks."""
    each = mini_batch // len(parts)
    count = len(parts[0]) // each
    return [sorted(row for part in parts for row in part[n * each : (n + 1) * each]) for n in range(count)]


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_an_update_has_the_same_whole_questions_on_any_number_of_ranks(ranks: int) -> None:
    draw = random.Random(0)
    questions = [f"q{row // 8:02d}" for row in range(128)]
    workloads = [draw.randrange(10, 2000) for _ in questions]
    parts = order_rows(questions, workloads, mini_batch=32, ranks=ranks)
    assert [len(part) for part in parts] == [128 // ranks] * ranks
    assert updates_of(parts, 32) == [list(range(32 * n, 32 * n + 32)) for n in range(4)]
    for update in range(4):
        each = 32 // ranks
        loads = [sum(workloads[row] for row in part[update * each : (update + 1) * each]) for part in parts]
        assert max(loads) - min(loads) < 2000  # no more than one response's


def test_padding_is_shared_by_the_updates_and_cuts_no_question() -> None:
    questions = [f"q{row // 4}" for row in range(20)]  # 5 questions of 8
    parts = order_rows([*questions, *[None] * 12], [1] * 32, mini_batch=16, ranks=2)
    updates = updates_of(parts, 16)
    assert sorted(row for part in parts for row in part) == list(range(32))
    assert sorted(sum(row < 20 for row in update) for update in updates) == [8, 12]
    for update in updates:
        assert set(Counter(questions[row] for row in update if row < 20).values()) == {4}
