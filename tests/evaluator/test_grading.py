"""The grader with its worker processes."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from evaluator.grading import ClusterJob, GradeCase, Grader, GradeValue
from evaluator.grading.grader import look

ROOT = Path(__file__).resolve().parents[2]
SLOW = r"\int_0^1 \sin(\sin(\sin(x^x))) \cos(x^{\sin x}) dx"
HARD = (r"\sin(1)+\sin(1)", r"2\sin(1)")  # a pair that only a worker can settle


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=1, time_limit_s=10.0) as grader:
        yield grader


def grades(grader: Grader, pairs: list[tuple[str, str]]) -> list[GradeValue]:
    return [grade.value for grade in grader.grade_many([(rf"\boxed{{{a}}}", gold) for gold, a in pairs])]


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


@pytest.mark.slow
def test_a_signal_to_the_whole_group_while_the_workers_start_costs_no_grade(tmp_path: Path) -> None:
    script = tmp_path / "grades.py"
    script.write_text(
        "import signal\n"
        "from evaluator.grading import Grader\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, lambda *_: print('signal'))\n"
        "    with Grader(workers=1) as grader:\n"
        f"        print(grader.equal_many([{HARD!r}])[0].value)\n"
    )
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    owner = psutil.Process(process.pid)
    while not any("forkserver" in " ".join(child.cmdline()) for child in owner.children()):
        time.sleep(0.01)
    time.sleep(0.3)  # in its imports
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=120)[0].split() == ["signal", "correct"]


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


def test_closing_while_another_thread_grades_ends_it() -> None:
    grader = Grader(workers=1, time_limit_s=60)
    ended: list[BaseException] = []

    def grade() -> None:
        try:
            grader.equal_many([(f"{SLOW} + {number}", "3") for number in range(6)])
        except RuntimeError as error:
            ended.append(error)

    before = {process.pid for process in _workers()}
    thread = threading.Thread(target=grade, daemon=True)
    thread.start()
    while {process.pid for process in _workers()} <= before:
        time.sleep(0.05)
    time.sleep(2)  # in the careful lane
    grader.close()
    thread.join(30)
    assert not thread.is_alive()
    assert "closed" in str(ended[0])


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
def test_a_kill_of_the_program_ends_its_workers(tmp_path: Path) -> None:
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
    process.kill()
    assert process.wait(30) != 0
    process.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_clusters(grader: Grader) -> None:
    answers = ["1/2", r"\frac12", None, "0.5", "2", r"\sqrt{4}", "", "north", r"\text{North}", "1" * 3_000]
    [result] = grader.cluster_many([ClusterJob(answers, r"\dfrac{1}{2}")])
    assert result.gold == 0
    assert result.assignment == (0, 0, None, 0, 1, 1, None, 2, 2, None)
    assert result.classes == (r"\dfrac{1}{2}", "2", "north")
    assert result.unknown == 0


def test_golds_against_themselves(grader: Grader) -> None:
    golds = [
        r"\text{Evelyn}", "east", "(3, 4)", r"[0,1) \cup (2,\infty)", r"30^\circ", r"12\text{ cm}^2",
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\$1{,}250.50", r"x \in [1, 2]", "A,B,C",
        r"\text{(D)}", "3x + 4y = 5", r"2\frac{1}{3}", r"15\%", "1011_2", r"-\frac{\pi}{6}, \frac{\pi}{6}",
        r"\boxed{8}", r"4:30 \text{ p.m.}",
    ]  # fmt: skip
    assert {grade.value for grade in grader.check_golds(golds)} == {GradeValue.CORRECT}
    assert [(g.value, g.reason) for g in grader.check_golds([""])] == [(GradeValue.UNKNOWN, "no answer")]


@pytest.mark.parametrize("step", ["answer_of", "compare"])
def test_an_error_before_the_workers_is_one_unknown_grade(
    grader: Grader, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    owner = sys.modules["evaluator.grading.compare"]
    honest = getattr(owner, step)

    def break_on_bad(*arguments: object) -> object:
        if "bad" in str(arguments):
            raise RecursionError("too deep")
        return honest(*arguments)

    monkeypatch.setattr(owner, step, break_on_bad)
    first, second = grader.grade_many([(r"\boxed{bad}", "71"), (r"\boxed{71}", "71")])
    assert (first.value, first.reason) == (GradeValue.UNKNOWN, "crashed")
    assert second.value is GradeValue.CORRECT
    assert look(GradeCase(r"\boxed{bad}", "71")) == first
