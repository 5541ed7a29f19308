"""Leases of processes that live, died, or cannot be seen from here, whatever happens to the clocks."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from capped_runs import COUNT, USED, WORST, account, make_run
from sqlalchemy import select, update

from service import process
from service.database import Database
from service.process import Process, this_process
from service.runs import cells, leases, store
from service.runs.spending import reserve_cells
from service.runs.tables import CellBodyRow, CellRow

BOOT, NAMESPACE = "00000000-0000-4000-8000-000000000001", "pid:[4026531836]"
ANOTHER_BOOT, ANOTHER_NAMESPACE = "00000000-0000-4000-8000-000000000002", "pid:[4026532001]"
STAT = "{pid} (tagrpo) run) {state} 1 1 1 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 {began} 1 1 1"


@pytest.fixture
def run_id(db: Database) -> str:
    with db.write() as session:
        run, _ = store.open_run(session, name="r", kind="k", spec={}, question_ids=[], versions={})
        plans = [cells.CellPlan(run.id, "answer", "q", 0, ordinal, 0) for ordinal in range(3)]
        cells.add_cells(session, run.id, plans)
    return run.id


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a /proc with processes 7, which lives, and 8, which is a zombie; this one is 7."""
    folder = tmp_path / "proc"
    for pid, state in ((7, "R"), (8, "Z")):
        (folder / str(pid)).mkdir(parents=True)
        (folder / str(pid) / "stat").write_text(STAT.format(pid=pid, state=state, began=100 * pid))
    (folder / "self").symlink_to(folder / "7")
    monkeypatch.setattr(process, "PROC", folder)
    monkeypatch.setattr(process, "_boot", lambda: BOOT)
    monkeypatch.setattr(process, "_namespace", lambda: NAMESPACE)
    monkeypatch.setattr("os.getpid", lambda: 7)
    return folder


def claim(db: Database, run_id: str, owner: str, limit: int = 9) -> int:
    with db.write() as session:
        return len(cells.claim_cells(session, run_id, run_id, owner=owner, limit=limit))


def release_dead(db: Database, run_id: str) -> int:
    with db.write() as session:
        return leases.release_dead_leases(session, run_id)


@pytest.mark.usefixtures("proc")
@pytest.mark.parametrize(
    ("pid", "began", "ended"),
    [(7, "700", False), (7, "699", True), (8, "800", True), (9, "900", True)],
    ids=["lives", "a later process has its pid", "a zombie", "gone"],
)
def test_a_process_here_is_looked_up_by_pid_and_start(pid: int, began: str, ended: bool) -> None:
    here = this_process()
    assert (here.boot, here.namespace, here.pid, here.began) == (BOOT, NAMESPACE, 7, "700")
    assert replace(here, pid=pid, began=began).has_ended() is ended
    assert Process.parse(str(here)) == here


@pytest.mark.usefixtures("proc")
def test_a_process_of_another_container_or_boot_is_not_judged_by_its_pid() -> None:
    here = this_process()
    for elsewhere in (replace(here, boot=ANOTHER_BOOT), replace(here, namespace=ANOTHER_NAMESPACE)):
        assert replace(elsewhere, pid=9).has_ended() is None
        assert not leases.is_dead(f"{replace(elsewhere, pid=9)}|t")


def test_without_proc_psutil_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PROC", tmp_path)
    here = this_process()
    assert here.has_ended() is False
    assert replace(here, began="1.00").has_ended() is True
    assert replace(here, pid=2**22 - 1).has_ended() is True


def test_leases_of_a_dead_process_are_given_back_at_once(db: Database, run_id: str) -> None:
    code = "from service.runs.leases import this_owner; print(this_owner('t'))"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    mine = leases.this_owner("t")
    assert (leases.is_dead(dead.strip()), leases.is_dead(mine)) == (True, False)
    assert claim(db, run_id, dead.strip(), limit=2) == 2
    assert release_dead(db, run_id) == 2
    assert claim(db, run_id, mine) == 3
    assert release_dead(db, run_id) == 0


@pytest.mark.parametrize("seconds", [-86400.0, 86400.0])
@pytest.mark.parametrize("namespace", [None, ANOTHER_NAMESPACE], ids=["process", "container"])
def test_a_clock_correction_takes_nothing_from_a_live_process(
    db: Database, run_id: str, monkeypatch: pytest.MonkeyPatch, seconds: float, namespace: str | None
) -> None:
    here = this_process()
    live = replace(here, namespace=namespace or here.namespace)
    assert claim(db, run_id, f"{live}|t") == 3
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)
    assert release_dead(db, run_id) == 0
    assert claim(db, run_id, leases.this_owner("other")) == 0
    with db.read() as session:
        assert cells.open_cells(session, run_id) == 3


@pytest.mark.parametrize(
    ("elsewhere", "columns"),
    [
        ({"namespace": ANOTHER_NAMESPACE}, {"lease_uptime": 0.0}),
        ({"boot": ANOTHER_BOOT}, {"lease_until": 0.0}),
    ],
    ids=["container", "machine"],
)
def test_elsewhere_a_lease_ends_where_it_is_not_renewed(
    db: Database, run_id: str, elsewhere: dict[str, str], columns: dict[str, float]
) -> None:
    assert claim(db, run_id, f"{replace(this_process(), **elsewhere)}|t") == 3
    assert claim(db, run_id, leases.this_owner("t")) == 0
    with db.write() as session:
        session.execute(update(CellRow).values(**columns))
    assert claim(db, run_id, leases.this_owner("t")) == 3


def test_a_process_here_that_stands_still_keeps_its_leases(db: Database, run_id: str) -> None:
    assert claim(db, run_id, leases.this_owner("stopped")) == 3
    with db.write() as session:  # for longer than a lease, as after SIGSTOP
        session.execute(update(CellRow).values(lease_uptime=0.0, lease_until=0.0))
    assert release_dead(db, run_id) == 0
    assert claim(db, run_id, leases.this_owner("other")) == 0


@pytest.mark.timeout(30)
def test_leases_are_renewed_although_no_answer_comes(db: Database, run_id: str) -> None:
    slow = f"{replace(this_process(), boot=ANOTHER_BOOT)}|t"
    claim(db, run_id, slow)
    with db.write() as session:
        session.execute(update(CellRow).values(lease_until=0.0))

    def soonest() -> float:
        with db.read() as session:
            return min(cell.lease_until or 0.0 for cell in session.query(CellRow))

    with leases.keep_leases(db, slow, every_s=0.01):
        while soonest() < time.time():
            pass
    assert claim(db, run_id, leases.this_owner("t")) == 0


@pytest.mark.parametrize("order", [("late", "other"), ("other", "late")], ids=["first", "last"])
def test_an_answer_of_a_host_that_lost_its_lease_is_stored_once_and_counted(
    db: Database, order: tuple[str, str]
) -> None:
    """It was thought dead, so another host asks the same again; each then brings its answers."""
    run = make_run(db, 4 * COUNT * WORST)

    def owner(host: str) -> str:
        return f"{replace(this_process(), boot=ANOTHER_BOOT)}|{host}"

    def ask(host: str) -> list[int]:
        with db.write() as session:
            claimed = cells.claim_cells(session, run.id, run.id, owner=owner(host), limit=COUNT)
            reserve_cells(session, {cell.id: WORST for cell in claimed})
        return [cell.id for cell in claimed]

    def answer(host: str, ids: list[int]) -> None:
        receipt = cells.Receipt("m", 3, 4, USED, attempts=1, latency_s=0.1)
        with db.write() as session:
            for cell_id in ids:
                cells.fill_cell(session, cell_id, host, receipt)
            leases.release_leases(session, owner(host))

    asked = ask("late")
    with db.write() as session:
        session.execute(update(CellRow).values(lease_until=0.0))
    assert ask("other") == asked
    first, second = order
    answer(first, asked[:10])
    assert ask("third") == ([] if first == "late" else asked[10:])
    answer(second, asked)
    with db.read() as session:
        bodies = {row.cell_id: row.body for row in session.scalars(select(CellBodyRow))}
        assert session.scalars(select(CellRow.state).distinct()).all() == [cells.FILLED]
    assert bodies == dict.fromkeys(asked[:10], first) | dict.fromkeys(asked[10:], second)
    money = account(db, run)
    assert (money.reserved_usd, money.spent_usd >= 2 * COUNT * USED) == (0.0, True)
