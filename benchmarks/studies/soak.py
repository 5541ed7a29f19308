"""Kills, signals, outages and full disks at random, for as long as asked: nothing lost, nothing paid twice.

A round is a run of proposals and verdicts, or an evaluation, against the test server behind a wire that can
be cut. It is killed, told to end, cut off, joined by a second process and left without room on the disk at
moments drawn from the seed, under a cap that is raised now and then; then it ends undisturbed. The round
holds if

- its final state is that of a run that nobody disturbed,
- a request was paid twice only where a kill, a cut or a full disk caught it in flight, and never at a signal,
- the server's bill never passed the cap,
- no process ended with a traceback, and none outlived its grace.

The last line is one JSON object; the exit code is 1 if a round did not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import world
from world_runs import (
    PREMISES,
    SAMPLES,
    answered_asks,
    command,
    final_state,
    import_world,
    propose_arguments,
    rows,
    stats,
    world_server,
)

from benchmarks.studies.wire import Wire

CONCURRENCY = 8
GRACE_S = 20.0
USD_PER_TOKEN = 1e-5
PRICE = f"price=[{USD_PER_TOKEN * 1e6},{USD_PER_TOKEN * 1e6}]"  # the same for what goes in and out
FAULTS = ("rate_limit=0.03", "server_error=0.02", "cut_early=0.02")  # what no provider bills
DISTURBANCES = (
    *("kill", "terminate", "interrupt"),  # of the process
    *("refuse", "cut", "stall"),  # of the wire
    *("another", "full disk", "raise the cap"),
)


@dataclass(frozen=True)
class Workload:
    """A command that resumes when it is given again."""

    name: str
    questions: int
    clients: int  # limits of requests in flight that a process holds

    def prepare(self, db: Path) -> None:
        """Put the questions where the command finds them."""
        if self.name == "propose":
            import_world(db, self.questions)
        else:
            rows = "".join(json.dumps(row) + "\n" for row in world.questions(self.questions))
            db.with_suffix(".jsonl").write_text(rows, encoding="utf-8")

    def arguments(self, db: Path, url: str) -> list[str]:
        """Return the words of the command."""
        limits = (f"max_concurrency={CONCURRENCY}", "timeout_s=30", PRICE)
        if self.name == "propose":
            both = (f"{role}.{setting}" for role in ("proposer", "solver") for setting in limits)
            return propose_arguments(db, url, *PREMISES, *both)
        return [
            *("eval", "run", str(db.with_suffix(".jsonl")), "--db", str(db)),
            *("--model", "hosted_vllm/test-model", "--base-url", url),
            *("--n", "16", "samples_per_request=2"),
            *limits,
        ]

    def stored(self, db: Path) -> int:
        """Return how many requests' answers are in the database."""
        if not has_tables(db):  # the disk was full before there were any
            return 0
        return answered_asks(db)

    def state(self, db: Path) -> Any:
        """Return all that the run has produced, without row ids and times."""
        if self.name == "propose":
            return final_state(db)
        return rows(db, SAMPLES)


def has_tables(db: Path) -> bool:
    """Return whether anybody came so far as to make a database."""
    if not db.exists():
        return False
    with contextlib.closing(sqlite3.connect(db)) as connection:
        return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


@dataclass
class Round:
    """One run from its first process to its end."""

    workload: Workload
    db: Path
    url: str
    """Of the server itself, for its books."""
    wire: Wire
    chance: random.Random
    cap_usd: float
    process: subprocess.Popen[str] | None = None
    caught: int = 0
    """Requests that a kill, a cut or a full disk may have made us pay twice."""
    disturbed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def start(self, file_limit: int | None = None) -> subprocess.Popen[str]:
        """Start the command, with files that cannot grow over `file_limit` bytes."""

        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit or 0, resource.RLIM_INFINITY))

        words = self.workload.arguments(self.db, self.wire.url)
        return subprocess.Popen(
            command(*words, "--max-usd", f"{self.cap_usd:.4f}"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=None if file_limit is None else limit,
        )

    def ended(self, process: subprocess.Popen[str], what: str, timeout: float, *codes: int) -> int:
        """Wait for the process's end and look at how it ended."""
        try:
            _, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            self.failures.append(f"{what}: still there after {timeout:.0f} s: {errors[-500:]}")
        if "Traceback" in errors:
            self.failures.append(f"{what}: a traceback: {errors[-1500:]}")
        if codes and process.returncode not in codes:
            self.failures.append(f"{what}: exit code {process.returncode}: {errors[-500:]}")
        return process.returncode

    def settle(self, what: str, may_lose: int) -> None:
        """Compare what was paid and is not stored with what may be, once no process is at work."""
        lost = self.lost()
        if lost > self.caught + may_lose:
            self.failures.append(f"{what}: {lost - self.caught} paid answers lost, at most {may_lose} may be")
        self.caught = lost
        self.check_bill()

    def lost(self) -> int:
        """Return the answers that were paid and are not in the database."""
        return int(stats(self.url)["paid"]) - self.workload.stored(self.db)

    def check_bill(self) -> None:
        """Compare the server's bill with the cap."""
        if (bill := stats(self.url)["tokens"] * USD_PER_TOKEN) > self.cap_usd:
            self.failures.append(f"the bill of {bill:.4f} passed the cap of {self.cap_usd:.4f}")

    def wait_for_requests(self, process: subprocess.Popen[str], count: int) -> None:
        """Wait until the server has seen some more requests, or the process has ended."""
        aim, patience = stats(self.url)["requests"] + count, time.monotonic() + 30
        while process.poll() is None and stats(self.url)["requests"] < aim and time.monotonic() < patience:
            time.sleep(self.chance.random() * 0.05)

    @property
    def in_flight(self) -> int:
        """The most answers that one process may have on their way or unwritten."""
        return self.workload.clients * CONCURRENCY

    def disturb(self, what: str) -> None:
        """Let one thing happen to the run."""
        self.disturbed[what] += 1
        if what in ("raise the cap", "full disk"):
            self.stop(what)
            if what == "raise the cap":
                self.cap_usd *= 1.3
                return
            sizes = [path.stat().st_size for path in self.db.parent.glob(self.db.name + "*")]
            process = self.start(max(sizes, default=0) + self.chance.randrange(2**12, 2**18))
            self.ended(process, what, 120)
            self.settle(what, self.in_flight)
            return
        process = self.process = self.process or self.start()
        self.wait_for_requests(process, self.chance.randrange(1, 60))
        if process.poll() is not None:
            self.stop("its end or its cap")
        elif what == "kill":
            process.kill()
            self.ended(process, what, 5, -signal.SIGKILL)
            self.process = None
            self.settle(what, self.in_flight)
        elif what in ("terminate", "interrupt"):
            self.stop(what, signal.SIGTERM if what == "terminate" else signal.SIGINT)
        elif what == "another":
            self.process = self.start()
            self.wait_for_requests(self.process, self.chance.randrange(1, 60))
            process.send_signal(signal.SIGTERM)
            self.ended(process, what, GRACE_S)
        elif what == "cut":
            self.caught += self.wire.cut(self.chance.uniform(0.1, 4))
        else:
            {"refuse": self.wire.refuse, "stall": self.wire.stall}[what](self.chance.uniform(0.1, 4))

    def stop(self, what: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Tell the process to end: what is in flight must come home, and nothing be lost."""
        if self.process is not None:
            self.process.send_signal(number)
            self.ended(self.process, what, GRACE_S)
            self.process = None
            self.settle(what, 0)

    def finish(self) -> Any:
        """Let the run end undisturbed with room below its cap; return its final state."""
        self.stop("the last stop")
        self.cap_usd = 100.0
        self.ended(self.start(), "the end", 300, 0)
        self.settle("the end", 0)
        if (again := int(stats(self.url)["paid_again"])) > self.caught:
            self.failures.append(f"{again} requests paid twice, {self.caught} were caught in flight")
        return self.workload.state(self.db)


def undisturbed(workload: Workload, folder: Path) -> tuple[Any, float]:
    """Return the final state of a run that nobody disturbs, and its bill."""
    db = folder / f"{workload.name}.db"
    workload.prepare(db)
    with world_server("--model", "test-model") as url:
        done = subprocess.run(
            command(*workload.arguments(db, url)), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"the undisturbed run ended with {done.returncode}: {done.stderr}")
        return workload.state(db), stats(url)["tokens"] * USD_PER_TOKEN


@contextlib.contextmanager
def disturbed_round(
    workload: Workload, folder: Path, chance: random.Random, cap_usd: float
) -> Iterator[Round]:
    """Set up one round: database, server, wire."""
    db = folder / f"{workload.name}.db"
    workload.prepare(db)
    faults = [f"--fault={fault}" for fault in FAULTS]
    server = ("--model", "test-model", "--latency", "0.05", "--retry-after", "0.2", *faults)
    with world_server(*server, "--seed", str(chance.randrange(2**31))) as url:
        wire = Wire(url)
        try:
            yield Round(workload, db, url, wire, chance, cap_usd)
        finally:
            wire.close()


def main(words: Sequence[str] | None = None) -> int:
    """Print each round and the sum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="no round begins later")
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument("--disturbances", type=int, default=12, help="in each round")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    ending = time.monotonic() + 60 * args.minutes
    workloads = (Workload("propose", args.questions, 3), Workload("eval", args.questions, 1))
    report: dict[str, Any] = {"rounds": 0, "disturbed": Counter(), "paid": 0, "paid_again": 0, "failures": []}
    with tempfile.TemporaryDirectory() as calm:
        expected = {workload.name: undisturbed(workload, Path(calm)) for workload in workloads}
    while time.monotonic() < ending and report["rounds"] != args.rounds:
        seed = args.seed + report["rounds"]
        chance, workload = random.Random(seed), workloads[seed % 2]
        state, bill = expected[workload.name]
        with (
            tempfile.TemporaryDirectory() as folder,
            disturbed_round(workload, Path(folder), chance, bill * chance.uniform(0.3, 1.5)) as round_,
        ):
            for _ in range(args.disturbances):
                round_.disturb(chance.choice(DISTURBANCES))
            if round_.finish() != state:
                round_.failures.append("the final state differs from that of an undisturbed run")
            seen = stats(round_.url)
        failures = [f"seed {seed}, {workload.name}: {failure}" for failure in round_.failures]
        print(f"seed {seed} {workload.name}: {dict(round_.disturbed)}, paid {seen['paid']},", end=" ")
        print(f"again {seen['paid_again']}, {len(failures)} failures", *failures, sep="\n  ", flush=True)
        report["rounds"] += 1
        report["disturbed"] += round_.disturbed
        report["paid"] += seen["paid"]
        report["paid_again"] += seen["paid_again"]
        report["failures"] += failures
    print(json.dumps(report))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
