"""The ledger of a run: what a request may cost is in the database before it is sent."""

import asyncio
from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from service.database import Database
from service.runs.grouping import Grouped
from service.runs.spending import read_account, reserve_cells
from service.runs.tables import CellRow


class RunLedger:
    """Reserves money for requests, whose keys are the ids of cells, under the cap of their run.

    The cap is the run's own, as the database has it (`service.runs.spending.set_cap`): of runs that share one
    the money of all counts. A reservation is made in a transaction that sees what all processes have spent
    and reserved, so the cap holds for all of them, and a kill forgets nothing: what a dead process had in
    flight is spent at its worst case (`service.runs.leases.release_leases`). One event loop.
    """

    def __init__(self, db: Database, run_id: str) -> None:
        self._db, self._run_id = db, run_id
        self._held: dict[int, float] = {}  # by cell in flight: what is reserved for it
        self._hoping: set[int] = set()  # cells that wait for others to turn out cheaper
        self._asking = Grouped(self._write)
        self._settlements = 0
        self._watching: set[asyncio.Future[None]] = set()
        with db.read() as session:
            self._account = read_account(session, run_id)

    @property
    def capped(self) -> bool:
        """Whether the run has a cap."""
        return self._account.max_usd is not None

    def describe(self) -> str:
        """Say how the cap stands as last seen."""
        return self._account.describe()

    async def reserve(self, key: int | str, usd: float) -> bool:
        """Reserve `usd` in all for a cell, waiting while other requests of this process are in flight.

        False where that is hopeless: all that is in flight waits in the same way.
        """
        cell = int(key)
        while True:
            seen = self._settlements
            if usd <= self._held.get(cell, 0.0) or await self._asking.do((cell, usd)):
                return True
            if seen != self._settlements:
                continue
            self._hoping.add(cell)
            try:
                if self._held.keys() <= self._hoping:
                    return False
                await self._settlement()
            finally:
                self._hoping.discard(cell)

    async def release(self, key: int | str) -> None:
        """Take back what was reserved for a request that was never sent."""
        if int(key) in self._held:
            await asyncio.to_thread(self._take_back, int(key))
            self.settled([key])

    def settled(self, keys: Iterable[int | str]) -> None:
        """Learn that these cells are filled or failed, or given up: their cost is known to the database."""
        for key in keys:
            self._held.pop(int(key), None)
        self._settlements += 1
        for watching in self._watching:
            if not watching.done():
                watching.set_result(None)

    async def _settlement(self) -> None:
        watching: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.add(watching)
        try:
            await watching
        finally:
            self._watching.discard(watching)

    async def _write(self, asked: Sequence[tuple[int, float]]) -> list[bool]:
        granted = await asyncio.to_thread(self._grant, asked)
        self._held.update(of_cell for of_cell, yes in zip(asked, granted, strict=True) if yes)
        return granted

    def _grant(self, asked: Sequence[tuple[int, float]]) -> list[bool]:
        def grant(session: Session) -> list[bool]:
            self._account = read_account(session, self._run_id)
            left, granted, reserved = self._account.left_usd, [], {}
            for cell, usd in asked:
                more = usd - self._held.get(cell, 0.0)
                granted.append(more <= left)
                if more <= left:
                    left -= more
                    reserved[cell] = usd
            reserve_cells(session, reserved)
            return granted

        return self._db.write_again(grant)

    def _take_back(self, cell: int) -> None:
        def take_back(session: Session) -> None:
            session.get_one(CellRow, cell).reserved_usd = None

        self._db.write_again(take_back)
