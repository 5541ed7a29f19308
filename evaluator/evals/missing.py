"""Missing samples: not yet drawn, failed, or permanently lost.

The tasks of an eval run are blocks of samples; `block_item` and `read_block` write and read a task's item.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from evaluator.evals.tables import RunProblemRow, SampleRow
from service.asks.tables import DONE, FAILED_TASK, TaskRow


@dataclass(frozen=True)
class Block:
    """`count` samples of a problem of a run, from ordinal `first` on."""

    run_problem_id: int
    first: int
    count: int


def block_item(block: Block) -> str:
    """Return the item of the task that draws a block."""
    return f"{block.run_problem_id}:{block.first}:{block.count}"


def read_block(item: str) -> Block:
    """Return the block that a task draws."""
    return Block(*map(int, item.split(":")))


def samples_missing(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem of a run are not there."""
    of_run = RunProblemRow.run_id == run_id
    problems = session.scalar(select(func.count()).select_from(RunProblemRow).where(of_run)) or 0
    there = select(func.count()).select_from(SampleRow).join(RunProblemRow)
    return problems * n - (session.scalar(there.where(of_run, SampleRow.ordinal < n)) or 0)


def most_wanted(session: Session, run_id: str) -> int:
    """Return the most samples of a problem that unfinished blocks stand for; 0 if there are none."""
    items = session.scalars(select(TaskRow.item).where(TaskRow.run_id == run_id, TaskRow.state != DONE))
    return max((block.first + block.count for block in map(read_block, items)), default=0)


def samples_lost(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem never come: their requests failed for good."""
    items = session.scalars(
        select(TaskRow.item).where(TaskRow.run_id == run_id, TaskRow.state == FAILED_TASK)
    )
    return sum(max(0, min(n - block.first, block.count)) for block in map(read_block, items))


def asked_in_vain(session: Session, run_ids: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return by run and problem the samples whose requests got no answer, for good or so far.

    Their grades are unknown, and every pass@k counts them so. Blocks that were not asked
    for yet are left out: their absence has nothing to do with their answers.
    """
    missing: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    in_vain = or_(TaskRow.state == FAILED_TASK, TaskRow.error.is_not(None))
    tasks = select(TaskRow.run_id, TaskRow.item).where(TaskRow.run_id.in_(run_ids), in_vain)
    for run_id, item in session.execute(tasks):
        block = read_block(item)
        missing[run_id][block.run_problem_id] += block.count
    return missing
