"""The grader with its worker processes, classes of equal answers, and a grader of the user's own."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

import psutil
import pytest

from evaluator.grading import Clustering, ClusterJob, GradeCase, Grader, GradeValue
from evaluator.grading.grader import Grouping, Pair, look
from service.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SLOW = r"\int_0^1 \sin(\sin(\sin(x^x))) \cos(x^{\sin x}) dx"
HARD = (r"\sin(1)+\sin(1)", r"2\sin(1)")  # a pair that only a worker can settle


def grades(grader: Grader, pairs: list[tuple[str, str]]) -> list[GradeValue]:
    return [grade.value for grade in grader.grade_many([(rf"\boxed{{{a}}}", gold) for gold, a in pairs])]


def test_equal_by_algebra_in_both_directions(grader):
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


def test_never_equal(grader):
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
def test_hostile_answers_end_quickly():
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


def test_a_slow_case_times_out_and_the_others_are_unharmed():
    with Grader(workers=1, time_limit_s=2.0) as grader:
        first, second = ((rf"\boxed{{\sin({n})+\sin({n})}}", rf"2\sin({n})") for n in (1, 2))
        cases = [first, (r"\boxed{0.5}", SLOW), second]
        started = time.monotonic()
        result = grader.grade_many(cases)
        assert time.monotonic() - started < 30
    assert [grade.reason for grade in result] == ["symbolic", "timeout", "symbolic"]
    assert result[1].value is GradeValue.UNKNOWN


def test_a_case_over_the_memory_limit_is_unknown():
    with Grader(workers=1, memory_limit_mb=1) as grader:
        result = grader.grade_many([(r"\boxed{(a+b+c+d)^{30}+a=1}", "(a+b+c+d)^{30}=1"), (r"\boxed{5}", "5")])
    reasons = [(grade.value, grade.reason) for grade in result]
    assert reasons == [(GradeValue.UNKNOWN, "memory"), (GradeValue.CORRECT, "exact")]


def _workers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "forkserver" in line and "forkserver" in " ".join(process.parent().cmdline()):
                found.append(process)
    return found


@pytest.mark.slow
def test_killed_workers_are_replaced():
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
def test_a_signal_to_the_whole_group_while_the_workers_start_costs_no_grade(tmp_path):
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


def test_no_worker_is_left_after_closing():
    before = {process.pid for process in _workers()}
    grader = Grader(workers=2)
    assert {process.pid for process in _workers()} <= before, "no worker before the first hard case"
    assert grader.equal_many([HARD]) == [GradeValue.CORRECT]
    grader.close()
    grader.close()
    assert {process.pid for process in _workers()} <= before
    with pytest.raises(RuntimeError, match="closed"):
        grader.equal_many([HARD])


def test_closing_while_another_thread_grades_ends_it():
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
def test_a_kill_of_the_program_ends_its_workers(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(f"SLOW = {SLOW!r}\n" + textwrap.dedent(SCRIPT).replace("\\\\\\\\", "\\\\"))
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, script], env=environment, **streams)
    assert process.stdout.readline().strip() == "ready"
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    process.kill()
    assert process.wait(30) != 0
    process.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_clusters(grader):
    answers = ["1/2", r"\frac12", None, "0.5", "2", r"\sqrt{4}", "", "north", r"\text{North}", "1" * 3_000]
    [result] = grader.cluster_many([ClusterJob(answers, r"\dfrac{1}{2}")])
    assert result.gold == 0
    assert result.assignment == (0, 0, None, 0, 1, 1, None, 2, 2, None)
    assert result.classes == (r"\dfrac{1}{2}", "2", "north")
    assert result.unknown == 0


@pytest.mark.parametrize("step", ["answer_of", "compare"])
def test_an_error_before_the_workers_is_one_unknown_grade(grader, monkeypatch, step):
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


CORRECT, WRONG, UNKNOWN = GradeValue.CORRECT, GradeValue.WRONG, GradeValue.UNKNOWN


def outcomes(equal: str = "", unknown: str = "") -> Callable[[Pair], GradeValue]:
    """Comparisons by pairs of letters, as in "ab cd"; all others are different."""

    def compare(pair: Pair) -> GradeValue:
        for value, listed in ((CORRECT, equal), (UNKNOWN, unknown)):
            if any(set(pair) == set(one) for one in listed.split()):
                return value
        return WRONG

    return compare


def group(
    answers: Sequence[str | None], compare: Callable[[Pair], GradeValue], *, gold: str | None = None
) -> tuple[Clustering, int]:
    """The classes, and how many comparisons they took."""
    grouping = Grouping(ClusterJob(answers, gold), lambda text: True)
    compared = 0
    while pairs := grouping.pairs:
        compared += len(pairs)
        grouping.place({pair: compare(pair) for pair in pairs})
    return grouping.result(), compared


def test_an_unknown_comparison_opens_no_class():
    result, _ = group(["a", "a", "b", "b", "b", "c"], outcomes(unknown="ab"))
    assert result.classes == ("b", "c")  # b is the most frequent
    assert result.assignment == (None, None, 0, 0, 0, 1)
    assert result.unsettled == (0, 1)
    assert (result.gold, result.unknown) == (None, 1)


def test_what_may_equal_a_gold_that_others_gave_is_unsettled():
    result, _ = group(["a", "g", "b"], outcomes(unknown="ag"), gold="g")
    assert (result.classes, result.gold) == (("g", "b"), 0)
    assert (result.assignment, result.unsettled) == ((None, 0, 1), (0,))


@pytest.mark.parametrize("gold", [None, "g"])
def test_the_order_of_answers_plays_no_part(gold):
    answers = ["a", "a", "b", "c", "d", "e"]
    compare = outcomes(equal="bc dg", unknown="ab ce")  # not even an equivalence
    expected: set[tuple[object, ...]] = set()
    for order in set(permutations(answers)):
        result, _ = group(order, compare, gold=gold)
        placed = dict(zip(order, result.assignment, strict=True))
        unsettled = frozenset(order[place] for place in result.unsettled)
        expected.add((result.classes, tuple(sorted(placed.items(), key=str)), unsettled))
    assert len(expected) == 1


def test_a_grader_that_runs_out_of_time_finds_no_difference():
    with Grader(workers=1, time_limit_s=0.5) as grader:
        jobs = [ClusterJob(["7", "7", SLOW], "7"), ClusterJob(["1", "2"])]
        timed_out, other = grader.cluster_many(jobs)
    assert (timed_out.classes, timed_out.gold) == (("7",), 0)
    assert (timed_out.assignment, timed_out.unsettled, timed_out.unknown) == ((0, 0, None), (2,), 1)
    assert other.assignment == (0, 1)


NAME = "graders_of_the_tests:grade"
SOURCE = """
    import os, re

    def grade(response, gold, tolerance):
        if "boom" in response:
            raise ValueError(response)
        if "hang" in response:
            re.match(r"(a+)+$", "a" * 40 + "!")
        if "die" in response:
            os._exit(3)
        if "half" in response:
            return 0.5
        return None if not gold else gold in response or tolerance == "any"

    number = 5
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    path = folder / "graders_of_the_tests.py"
    path.write_text(textwrap.dedent(SOURCE))
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        yield path


@pytest.mark.slow
def test_its_verdicts_are_marked_and_what_it_cannot_say_is_unknown(module):
    cases = [
        *(GradeCase("has five", "five"), GradeCase("has six", "five"), GradeCase("has six", "")),
        *(GradeCase("six", "five", tolerance="any"), GradeCase("boom", "5"), GradeCase("half", "5")),
        *(GradeCase("hang", "5"), GradeCase("die", "5")),
    ]
    marked = [("correct", "own grader"), ("wrong", "own grader"), ("unknown", "own grader")]
    failed = [("unknown", "crashed"), ("unknown", "crashed"), ("unknown", "timeout"), ("unknown", "crashed")]
    counted: list[tuple[int, int]] = []
    with Grader(1, time_limit_s=3, own=NAME) as own:
        grades = own.grade_many(cases, lambda *counts: counted.append(counts))
    given = [(grade.value.value, grade.reason) for grade in grades]
    assert given == [*marked, ("correct", "own grader"), *failed]
    assert counted[-1] == (8, 8)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grade", "give module:function"),
        ("no_such_module:grade", "add its folder to PYTHONPATH"),
        ("graders_of_the_tests:missing", "has no missing"),
        ("graders_of_the_tests:number", "is int, not a function"),
    ],
)
def test_one_that_is_not_there_is_refused_before_anything_starts(module, name, words):
    with pytest.raises(InputError, match=words):
        Grader(1, own=name)
