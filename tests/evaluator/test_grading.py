"""The grader with its worker processes."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest
from pebble.pool.process import WorkerManager

from evaluator.grading import ClusterJob, GradeCase, Grader, GradeValue
from evaluator.grading.workers import pool
from service.errors import PrerequisiteError

ROOT = Path(__file__).resolve().parents[2]
SLOW = r"\int_0^1 \sin(\sin(\sin(x^x))) \cos(x^{\sin x}) dx"

HARD = (r"\sin(1)+\sin(1)", r"2\sin(1)")  # a pair that only a worker can settle


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=1, time_limit_s=10.0) as grader:
        yield grader


def grades(grader: Grader, pairs: list[tuple[str, str]]) -> list[GradeValue]:
    return [grade.value for grade in grader.grade_many([(rf"\boxed{{{a}}}", gold) for gold, a in pairs])]


@pytest.mark.parametrize("step", ["answer_of", "compare"])
def test_an_error_before_the_workers_is_one_unknown_grade(
    grader: Grader, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    module = sys.modules["evaluator.grading.grader"]
    owner = module if step == "answer_of" else sys.modules["evaluator.grading.compare"]
    honest = getattr(owner, step)

    def break_on_bad(*arguments: object) -> object:
        if "bad" in str(arguments):
            raise RecursionError("too deep")
        return honest(*arguments)

    monkeypatch.setattr(owner, step, break_on_bad)
    first, second = grader.grade_many([(r"\boxed{bad}", "71"), (r"\boxed{71}", "71")])
    assert (first.value, first.reason) == (GradeValue.UNKNOWN, "crashed")
    assert second.value is GradeValue.CORRECT
    assert module.look(GradeCase(r"\boxed{bad}", "71")) == first


def test_equal_by_algebra_in_both_directions(grader: Grader) -> None:
    pairs = [
        (r"\sqrt{8}", r"2\sqrt{2}"),
        ("(x+1)^2", "x^2+2x+1"),
        (r"\frac{5\sqrt{42}}{27}", r"\frac{10\sqrt{10.5}}{27}"),
        (r"\ln 4", r"2\ln 2"),
        (r"\log_2 8", "3"),
        ("y = 2x + 1", "2x - y + 1 = 0"),
        ("x > 2", "-x < -2"),
        (r"-2 \le x \le 7", "[-2,7]"),
        (r"-2 \le x \le 7", r"x \in [-2,7]"),
        ("x < 3 or x > 5", r"(-\infty,3) \cup (5,\infty)"),
        (r"[0,1]\cup[1,2]", "[0,2]"),
        (r"e^{i\pi} = -1", "-1"),
        ("(1+i)^2", "2i"),
        (r"\begin{pmatrix}\sqrt4\\ \frac12\end{pmatrix}", r"\begin{pmatrix}2\\0.5\end{pmatrix}"),
        ("2x**2 + 2*x", "2x(x+1)"),
        (r"(3,\frac{\pi}{2})", r"(3, \pi/2)"),
    ]
    for value, pair in zip(grader.equal_many(pairs), pairs, strict=True):
        assert value is GradeValue.CORRECT, pair


def test_never_equal(grader: Grader) -> None:
    pairs = [
        ("1728", "1331 and 1728"),
        ("x^2+1=0", "x^2+2=0"),
        ("x+y=5", "5"),
        ("x=5", "y=5"),
        ("|x|", "x"),
        ("3 4", "7"),
        ("5ab", "5"),
        (r"2^{4950}", r"2^{4951}"),
        (r"10^{50}", r"10^{50}+1"),
        (r"\sqrt{2}", "1.41"),
        ("x>2", r"x \ge 2"),
        (r"\infty", r"-\infty"),
        ("abc", "abd"),
    ]
    assert GradeValue.CORRECT not in grades(grader, pairs)
    assert GradeValue.CORRECT not in grades(grader, [(b, a) for a, b in pairs])


def test_unparsable_equations_are_not_equal(grader: Grader) -> None:
    assert grader.equal_many([(r"a \equiv \star = \heartsuit 1", r"b \equiv \star = \heartsuit 2")]) == [
        GradeValue.UNKNOWN
    ]


def test_order_extraction_and_progress(grader: Grader) -> None:
    seen: list[tuple[int, int]] = []
    cases = [(rf"So \boxed{{\cos({k}) + \cos({k})}}", rf"2\cos({k})") for k in range(2, 40)]
    cases[7] = ("", "5")
    cases[9] = (r"\boxed{6}", "5")
    result = grader.grade_many(cases, lambda done, total: seen.append((done, total)))
    assert [i for i, grade in enumerate(result) if grade.value is not GradeValue.CORRECT] == [7, 9]
    assert (result[7].reason, result[7].extracted) == ("no answer found", None)
    assert result[3].extracted == r"\cos(5) + \cos(5)"
    assert seen[-1] == (38, 38)
    assert seen == sorted(seen)


@pytest.mark.slow
def test_hostile_answers_end_quickly() -> None:
    hostile = [
        "9^{9^{9^9}}",
        "10^{10^{10}}!",
        "(" * 2_000 + "1" + ")" * 2_000,
        "(" * 900 + "x" + ")" * 900,
        "{" * 900 + "x" + "}" * 900,
        "1" * 1_000_000,
        "x+" * 900 + "1",
        r"\frac" + " " * 1_900 + "{1}",
        "x" + " " * 1_000_000 + "+ 2",
        r"\text{" + "a " * 900 + "}",
        r"\sqrt" * 300 + "2",
        "-" * 1_900 + "1",
        "1," * 900 + "1",
        "^" * 1_000,
        r"\pm" * 500 + "1",
        "\\" * 1_999,
    ]
    started = time.monotonic()
    with Grader(workers=1, time_limit_s=3.0) as grader:
        result = grader.grade_many([(rf"\boxed{{{answer}}}", r"\sqrt{5}") for answer in hostile])
    assert time.monotonic() - started < 60
    assert all(grade.value is not GradeValue.CORRECT for grade in result)
    assert [grade.value for grade in result[:3]] == [GradeValue.UNKNOWN] * 3
    assert result[0].reason == "too large"
    assert result[5].value is GradeValue.UNKNOWN


def test_a_slow_case_times_out_and_the_others_are_unharmed() -> None:
    with Grader(workers=1, time_limit_s=0.7) as grader:
        cases = [
            (r"\boxed{\sin(1)+\sin(1)}", r"2\sin(1)"),
            (r"\boxed{0.5}", SLOW),
            (r"\boxed{\sin(2)+\sin(2)}", r"2\sin(2)"),
        ]
        started = time.monotonic()
        result = grader.grade_many(cases)
        assert time.monotonic() - started < 30
    assert [grade.reason for grade in result] == ["symbolic", "timeout", "symbolic"]
    assert result[1].value is GradeValue.UNKNOWN


def test_a_case_over_the_memory_limit_is_unknown() -> None:
    with Grader(workers=1, memory_limit_mb=1) as grader:
        result = grader.grade_many([(r"\boxed{(a+b+c+d)^{30}+a=1}", "(a+b+c+d)^{30}=1"), (r"\boxed{5}", "5")])
    assert [(grade.value, grade.reason) for grade in result] == [
        (GradeValue.UNKNOWN, "memory"),
        (GradeValue.CORRECT, "exact"),
    ]


def _workers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "forkserver" in line and "forkserver" in " ".join(process.parent().cmdline()):
                found.append(process)
    return found


@pytest.mark.slow
def test_killed_workers_are_replaced() -> None:
    before = {process.pid for process in _workers()}
    with Grader(workers=1, time_limit_s=3.0) as grader:
        cases = [(r"\boxed{0.5}", SLOW)]
        cases += [(rf"\boxed{{\sin({k})+\sin({k})}}", rf"2\sin({k})") for k in range(2, 12)]
        grader.grade_many(cases[1:2])
        result = []
        thread = threading.Thread(target=lambda: result.extend(grader.grade_many(cases)))
        thread.start()
        for process in _workers():
            if process.pid not in before:
                process.kill()
        thread.join(120)
        assert not thread.is_alive()
    assert result[0].value is GradeValue.UNKNOWN
    assert {grade.value for grade in result[1:]} == {GradeValue.CORRECT}


def test_used_from_many_threads(grader: Grader) -> None:
    async def main() -> list[list[GradeValue]]:
        calls = [
            asyncio.to_thread(grader.equal_many, [(rf"\sin({k})+\sin({k})", rf"2\sin({k})")])
            for k in range(2, 9)
        ]
        return list(await asyncio.gather(*calls))

    assert asyncio.run(main()) == [[GradeValue.CORRECT]] * 7


def test_no_worker_is_left_after_closing() -> None:
    before = {process.pid for process in _workers()}
    grader = Grader(workers=2)
    assert {process.pid for process in _workers()} <= before, "no worker before the first hard case"
    assert grader.equal_many([HARD]) == [GradeValue.CORRECT]
    grader.close()
    grader.close()
    assert {process.pid for process in _workers()} <= before
    with pytest.raises(RuntimeError, match="closed"):
        grader.equal_many([HARD])


def test_bad_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="workers"):
        Grader(workers=0)
    with pytest.raises(ValueError, match="positive"):
        Grader(time_limit_s=0)


SCRIPT = """
    from evaluator.grading import Grader
    if __name__ == "__main__":
        with Grader(workers=1, time_limit_s=60) as grader:
            grader.equal_many([("sin(x)+sin(x)", "2sin(x)")])
            print("ready", flush=True)
            grader.grade_many([(r"\\\\boxed{0.5}", SLOW)])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_program_and_its_workers(signum: int, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"SLOW = {SLOW!r}\n" + textwrap.dedent(SCRIPT).replace("\\\\\\\\", "\\\\"))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    process.send_signal(signum)
    assert process.wait(30) != 0
    process.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.slow
def test_workers_that_cannot_start_are_an_error_not_a_grade() -> None:
    program = (
        "from evaluator.grading import Grader\n"
        "with Grader(workers=1) as grader: grader.equal_many([('sin(x)+sin(x)', '2sin(x)')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-"],
        input=program,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode != 0
    assert "PrerequisiteError: the grading workers cannot start" in done.stderr


class DeadPool:
    """A pool that broke between taking a batch and noting it: the batch's future never ends."""

    active = False

    def schedule(self, *_: object, **__: object) -> Future[object]:
        return Future()

    def stop(self) -> None:
        pass

    join = stop


def test_a_pool_that_broke_while_it_took_a_batch_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_LOOK_S", 0.01)
    monkeypatch.setattr(pool.WorkerPool, "_start", lambda *_: DeadPool())
    with Grader(workers=1) as grader, pytest.raises(PrerequisiteError, match="cannot start"):
        grader.equal_many([HARD])


class SlowToStart(int):
    """A limit that takes a worker a moment to read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"__import__('time').sleep(0.3) or {int(self)}",)


@pytest.mark.slow
def test_a_worker_that_starts_while_the_pool_stops_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    removes = WorkerManager.close_channels

    def removes_and_waits(manager: WorkerManager) -> None:
        removes(manager)
        time.sleep(1)  # a machine that is busy with other things

    monkeypatch.setattr(WorkerManager, "close_channels", removes_and_waits)
    workers = pool.WorkerPool(1, 5.0, SlowToStart(500))
    started = workers._pools[pool.QUICK] = workers._start(pool.QUICK)
    started.schedule(print)
    workers.close()
    assert capfd.readouterr().err == ""


def test_importing_loads_no_algebra() -> None:
    code = (
        "import sys, evaluator.grading\n"
        "print([m for m in ('sympy', 'math_verify', 'pebble', 'latex2sympy2_extended') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "[]"


def test_clusters(grader: Grader) -> None:
    answers = ["1/2", r"\frac12", None, "0.5", "2", r"\sqrt{4}", "", "north", r"\text{North}", "1" * 3_000]
    result = grader.cluster(answers, r"\dfrac{1}{2}")
    assert result.gold == 0
    assert result.assignment == (0, 0, None, 0, 1, 1, None, 2, 2, None)
    assert result.classes == (r"\dfrac{1}{2}", "2", "north")
    assert result.unknown == 0


def test_clusters_without_gold_and_with_unreadable_answers(grader: Grader) -> None:
    results = grader.cluster_many(
        [
            ClusterJob([r"\heartsuit(", "5", "5.0"]),
            ClusterJob([None, None], "7"),
            ClusterJob([]),
        ]
    )
    assert results[0].gold is None
    assert results[0].assignment == (None, 0, 0)
    assert results[1].assignment == (None, None)
    assert (results[1].classes, results[1].gold) == (("7",), 0)
    assert (results[2].classes, results[2].assignment) == ((), ())


def test_golds_against_themselves(grader: Grader) -> None:
    golds = [
        r"\text{Evelyn}", "east", "(3, 4)", r"[0,1) \cup (2,\infty)", r"30^\circ", r"12\text{ cm}^2",
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\$1{,}250.50", r"x \in [1, 2]", "A,B,C",
        r"\text{(D)}", "3x + 4y = 5", r"2\frac{1}{3}", r"15\%", "1011_2", r"-\frac{\pi}{6}, \frac{\pi}{6}",
        r"\boxed{8}", r"4:30 \text{ p.m.}",
    ]  # fmt: skip
    assert {grade.value for grade in grader.check_golds(golds)} == {GradeValue.CORRECT}
    assert [(g.value, g.reason) for g in grader.check_golds([""])] == [(GradeValue.UNKNOWN, "no answer")]


@pytest.mark.shared
def test_golds_of_math(grader: Grader) -> None:
    file = Path(os.environ.get("TAGRPO_DATA", ROOT.parent / "shared" / "data")) / "math_train.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is absent; set TAGRPO_DATA to the folder that holds it")
    with file.open(encoding="utf-8") as lines:
        golds = [json.loads(line)["answer"] for line in lines]
    rows = sorted({*range(0, len(golds), len(golds) // 498), 5341, 5343})
    result = grader.check_golds([golds[row] for row in rows])
    failed = [row for row, grade in zip(rows, result, strict=True) if grade.value is not GradeValue.CORRECT]
    assert len(rows) >= 500
    assert failed == [5341, 5343]
