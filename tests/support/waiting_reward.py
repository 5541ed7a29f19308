"""The shared grader as a user's own reward function, which waits for ever at one call where a test says so.

A kill then finds a step half done, and no clock decides where.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from trainer_adapter.verl import reward

CALLS, ANSWERED = "TAGRPO_TEST_REWARD_CALLS", "TAGRPO_TEST_REWARD_ANSWERED"
"""A file that grows by a byte a call, and the number of calls that are answered."""


async def compute_score(**given: Any) -> dict[str, Any]:
    if calls := os.environ.get(CALLS):
        with Path(calls).open("ab") as file:
            file.write(b".")
        if Path(calls).stat().st_size > int(os.environ[ANSWERED]):
            await asyncio.Event().wait()
    return await reward.compute_score(**given)
