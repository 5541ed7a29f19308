"""pass@k and its relatives: exact values, the conformance vectors, counts, curves, intervals, comparisons."""

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil, comb, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.studies.passk_coverage import KS, POPULATIONS, coverage
from evaluator import passk
from evaluator.passk.comparison import paired_bounds, sign_flip_p_values
from evaluator.passk.intervals import Interval, exact_interval
from service.errors import InputError


@st.composite
def triples(draw: st.DrawFn, largest: int = 300) -> tuple[int, int, int]:
    n = draw(st.integers(1, largest))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(triples(10_000))
def test_exact_to_a_trillionth(triple):
    n, c, k = triple
    ways = comb(n, k)
    none, every = Fraction(comb(n - c, k), ways), Fraction(comb(c, k), ways)
    assert passk.pass_at_k(n, c, k) == pytest.approx(float(1 - none), abs=1e-12, rel=0)
    assert passk.pass_hat_k(n, c, k) == pytest.approx(float(every), abs=1e-12, rel=0)


@given(triples(), st.floats(0, 1), st.floats(0, 1))
def test_stricter_measures_are_never_larger(triple, tau, other):
    low, high = sorted((tau, other))
    at_least_one, all_right = passk.pass_at_k(*triple), passk.pass_hat_k(*triple)
    assert all_right - 1e-12 <= passk.g_pass_at_k(*triple, high) <= passk.g_pass_at_k(*triple, low) + 1e-12
    assert passk.g_pass_at_k(*triple, low) <= at_least_one + 1e-12
    assert passk.g_pass_at_k(*triple, 0) == pytest.approx(at_least_one, abs=1e-12)
    assert passk.g_pass_at_k(*triple, 1) == pytest.approx(all_right, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        (4, 1, 0, "k must be at least 1: n=4, c=1, k=0"),
        (4, 1, 5, "k must be at most n .*: n=4, c=1, k=5"),
        (4, -1, 1, "c must be at least 0"),
        (4, 5, 1, "c must be at most n"),
        (0, 0, 1, "k must be at most n"),
        (4, 1.5, 1, "c must be integers, but 1.5 is not"),
        (4, float("nan"), 1, "c must be integers, but nan is not"),
        (4, True, 1, "c must be integers, not bool"),
        (4, "1", 1, "c must be integers"),
        ([4, 8], [1, 9], 2, "c must be at most n: n=8, c=9, k=2"),
        ([4, 8], [1, 2, 3], 2, "do not broadcast"),
        (10**20, 1, 1, "n must be integers"),
    ],
)
def test_what_is_not_defined_is_refused(n, c, k, message):
    for formula in (passk.pass_at_k, passk.pass_hat_k, passk.mg_pass_at_k):
        with pytest.raises(ValueError, match=message):
            formula(n, c, k)  # type: ignore[call-overload]


def brute_force(predictions: list[str | None], gold: str, k: int, ties: str) -> float:
    total, subsets = Fraction(0), list(combinations(predictions, k))
    for subset in subsets:
        votes = [answer for answer in subset if answer is not None]
        most = max((votes.count(answer) for answer in votes), default=0)
        leaders = list(dict.fromkeys(answer for answer in votes if votes.count(answer) == most))
        if ties == "first seen":
            total += leaders[:1] == [gold]
        elif gold in leaders:
            total += Fraction(1, len(leaders))
    return float(total / len(subsets))


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=9),
    st.data(),
    st.sampled_from(["first seen", "random"]),
)
def test_majority_counts_all_subsets(predictions, data, ties):
    k = data.draw(st.integers(1, len(predictions)))
    assert passk.maj_at_k(predictions, "a", k, ties=ties) == pytest.approx(
        brute_force(predictions, "a", k, ties), abs=1e-12
    )


Answers = Iterator[tuple[str, float, float]]


def _per_count(formula: Callable[..., Any]) -> Callable[..., Answers]:
    def answers(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
        for k, numbers in expected.items():
            got = np.atleast_1d(formula(inputs["n"], inputs["c"], int(k)))
            for c, number, value in zip(np.atleast_1d(inputs["c"]), numbers["float"], got, strict=True):
                if number is not None:
                    yield f"k={k} c={c}", number, float(value)

    return answers


def _against_bootstrap(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    counts = inputs["n"], inputs["c"], inputs["k"]
    yield "pass@k", expected["pass_at_k"], passk.pass_at_k(*counts)


def _g_pass(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    for name, number in expected["float"].items():
        family, rest = name.split("@")
        k, _, tau = rest.partition("_")
        counts = inputs["n"], inputs["c"], int(k)
        got = passk.mg_pass_at_k(*counts) if family == "mg-pass" else passk.g_pass_at_k(*counts, float(tau))
        yield name, number, got


def _majority(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    ties = params.get("tie_break") or "first seen"
    first = inputs["predictions"][: inputs["n"]]
    for name, number in expected.items():
        if name == "maj":
            yield name, number, passk.maj_at_k(first, inputs["gold"], len(first), ties=ties)
        else:
            k = int(name.removeprefix("maj@").removesuffix("_over_subsets"))
            yield name, number, passk.maj_at_k(first, inputs["gold"], k, ties=ties)


ANSWERS: dict[str, Callable[..., Answers]] = {
    "pass_at_k": _per_count(passk.pass_at_k),
    "pass_hat_k": _per_count(passk.pass_hat_k),
    "pass_at_k_vs_bootstrap": _against_bootstrap,
    "g_pass_at_k": _g_pass,
    "maj_at_n": _majority,
}


@pytest.mark.parametrize("method", ["pass_at_k", "g_pass_at_k", "maj_at_k"])
def test_every_expected_number_of_the_vectors_is_met(conformance_folder, method):
    checked, missed = 0, []
    for case in json.loads((conformance_folder / f"{method}.json").read_text(encoding="utf-8"))["cases"]:
        if case["expected"] is None or case["fn"] == "pass_at_k_dataset_mean":
            continue
        for what, expected, got in ANSWERS[case["fn"]](case["inputs"], case["expected"], case["params"]):
            checked += 1
            if abs(got - expected) > case["tol"]["atol"] + case["tol"]["rtol"] * abs(expected):
                missed.append((case["id"], what, expected, got))
    assert checked
    assert missed == []


# That library grades these public cases differently: it reads no answer (a letter, a formula without LaTeX),
# or several forms as one.
OTHER_GRADING = {
    *("g_pass_at_k_math_2", "g_pass_at_k_math_6", "g_pass_at_k_math_4"),
    *("g_pass_at_k_latex_5", "pass_at_k_letters_0", "pass_at_k_letters_2"),
}


@pytest.mark.shared
def test_public_metric_cases(data_folder):
    lines = (data_folder / "passk_metric_cases.jsonl").read_text(encoding="utf-8").splitlines()
    disagreeing = set()
    for case in map(json.loads, lines):
        n, k = case["metric_params"].get("n", len(case["responses"])), case["metric_params"]["k"]
        c = sum(response == case["answer"][0] for response in case["responses"][:n])
        for name, expected in case["expected"].items():
            tau = name.partition("@")[2].partition("_")[2]
            if name.startswith("avg@k"):
                got = c / n
            elif name.startswith("pass@k"):
                got = passk.pass_at_k(n, c, k)
            else:
                got = passk.g_pass_at_k(n, c, k, float(tau)) if tau else passk.mg_pass_at_k(n, c, k)
            if got != pytest.approx(expected, abs=case["tolerance"]):
                disagreeing.add(case["id"])
    assert len(lines) == 40
    assert disagreeing == OTHER_GRADING


def test_the_threshold_is_a_number_of_draws_not_its_binary_shadow():
    for hundredths in range(101):
        needed = max(1, ceil(hundredths * 100 / 100))
        exact = passk.g_pass_at_k(200, 57, 100, (needed - 0.5) / 100)
        assert passk.g_pass_at_k(200, 57, 100, hundredths / 100) == exact


@st.composite
def some_counts(draw: st.DrawFn) -> passk.Counts:
    few = st.integers(0, 8)
    rows = draw(st.lists(st.tuples(few, few, few).filter(any), min_size=1, max_size=12))
    correct, wrong, unknown = map(np.array, zip(*rows, strict=True))
    return passk.Counts([f"p{row}" for row in range(len(rows))], correct + wrong + unknown, correct, unknown)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (((), (), ()), "the counts contain no problems"),
        ((("a", "a"), (1, 1), (0, 0)), "repeated: a"),
        ((("a",), (1, 1), (0,)), "n has shape"),
        ((("a", "b"), (4, 4), (1, 5)), "problem b: 5 correct and 0 unknown are more than its 4"),
        ((("a", "b"), (4, 4), (1, 3), (0, 2)), "problem b: 3 correct and 2 unknown are more than its 4"),
        ((("a",), (4,), (-1,)), "problem a: correct is -1"),
        ((("a",), (4,), (0.5,)), "integers"),
    ],
)
def test_counts_that_cannot_be(columns, message):
    with pytest.raises(InputError, match=message):
        passk.Counts(*columns)  # type: ignore[arg-type]


def test_pooling_adds_by_problem_whatever_the_order():
    first = passk.Counts(["a", "b"], [4, 4], [1, 2], [1, 0])
    second = passk.Counts(["b", "a"], [8, 2], [8, 0])
    both = passk.pool([first, second])
    assert both.problem_ids == ("a", "b")
    assert both.n.tolist() == [6, 12]
    assert both.correct.tolist() == [1, 10]
    assert both.unknown.tolist() == [1, 0]


def test_a_curve_of_known_values():
    counts = passk.Counts(["a", "b"], [4, 8], [1, 8])
    shown = passk.curve(counts, [2, 1, 2])
    assert list(shown) == [1, 2]
    assert shown[1].value == pytest.approx((1 / 4 + 1) / 2)
    assert shown[2].value == pytest.approx((1 / 2 + 1) / 2)
    assert shown[2].value_high == shown[2].value
    assert {point.problems for point in shown.values()} == {2}


@settings(max_examples=40)
@given(some_counts())
def test_bounds_are_ordered_and_hold_every_way_unknown_grades_can_fall(counts):
    most = int(counts.n.min())
    shown = passk.curve(counts, range(1, most + 1))
    middle = counts.correct + counts.unknown // 2
    for point in shown.values():
        assert 0 <= point.value <= point.value_high <= 1
        between = float(np.mean(passk.pass_at_k(counts.n, middle, point.k)))
        assert point.value - 1e-12 <= between <= point.value_high + 1e-12
        for interval in (point.new_problems, point.same_problems, point.rerun):
            assert 0 <= interval.low <= point.value + 1e-12
            assert point.value_high - 1e-12 <= interval.high <= 1
        assert point.rerun.low <= point.same_problems.low
        assert point.same_problems.high <= point.rerun.high
    values = [point.value for point in shown.values()]
    assert all(late >= early - 1e-12 for early, late in pairwise(values))


def test_right_or_wrong_problems_get_wilson_with_t():
    # 0/1 values: s^2/M = m(1-m)/(M-1), so n_e = M - 1.
    values = [1.0] * 12 + [0.0] * 28
    z, m, size = stats.t.ppf(0.975, 39), 0.3, 39
    middle = (m + z * z / (2 * size)) / (1 + z * z / size)
    half = z * sqrt(m * (1 - m) / size + z * z / (4 * size * size)) / (1 + z * z / size)
    shown = passk.new_problems_interval(values)
    assert (shown.low, shown.high) == pytest.approx((middle - half, middle + half), abs=1e-12)


@pytest.mark.parametrize("values", [[0.0], [1.0], [0.5], [0.0] * 30, [1.0] * 675, [0.5] * 20, [0.3, 0.3]])
def test_equal_values_do_not_make_a_point(values):
    shown = passk.new_problems_interval(values)
    assert 0 <= shown.low <= values[0] <= shown.high <= 1
    assert shown.high - shown.low > 1 / (len(values) + 1)
    if len(values) == 1:
        assert shown.high - shown.low > 0.95


def same_problems(n: int, correct: int, problems: int, k: int) -> Interval:
    counts = passk.Counts(map(str, range(problems)), [n] * problems, [correct] * problems)
    return passk.curve(counts, [k])[k].same_problems


def test_same_problems_cases_at_the_end():
    solved, failed = same_problems(32, 32, 30, 1), same_problems(32, 0, 30, 1)
    assert solved.high == 1.0
    assert failed.low == 0.0
    assert solved.low == pytest.approx(1 - failed.high, abs=1e-12)
    assert 0.0005 < failed.high < 0.01
    one = same_problems(1, 1, 1, 1)
    assert one.low < 0.5
    assert one.high == 1.0
    everything = same_problems(8, 2, 10, 8)  # k = n: solved or not, nothing between
    assert everything.low < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "problems", "samples"), [(POPULATIONS[0], 30, 32), (POPULATIONS[2], 83, 128)]
)
def test_intervals_cover(population, problems, samples):
    held = coverage(population, problems, samples, 600, np.random.default_rng(1))  # type: ignore[arg-type]
    # Four standard errors of 600 repetitions at .94 are .039.
    for name in (passk.NEW_PROBLEMS, passk.SAME_PROBLEMS, passk.RERUN):
        assert held[name].shape == (len(KS),)
        assert held[name].min() > 0.90, name


# 0 of n and n of n follow from tail = (1 - p)^n; the others are from printed tables of the binomial.
@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "low", "high"),
    [
        (0, 10, 0.95, 0.0, 1 - 0.025**0.1),
        (10, 10, 0.95, 0.025**0.1, 1.0),
        (5, 10, 0.95, 0.187086, 0.812914),
        (1, 20, 0.95, 0.001265, 0.248733),
        (0, 1, 0.95, 0.0, 0.975),
        (1, 1, 0.9, 0.05, 1.0),
        (0, 20, 0.99, 0.0, 1 - 0.005**0.05),
    ],
)
def test_known_intervals(successes, trials, confidence, low, high):
    assert exact_interval(successes, trials, confidence) == pytest.approx((low, high), abs=1e-6)
    with pytest.raises(ValueError, match="no interval"):
        exact_interval(trials + 1, trials)


@pytest.mark.parametrize("trials", [1, 5, 20, 50])
def test_the_interval_covers_every_share_often_enough(trials):
    intervals = [exact_interval(successes, trials) for successes in range(trials + 1)]
    for step in range(1, 100):
        share = step / 100
        inside = [k for k, (low, high) in enumerate(intervals) if low <= share <= high]
        covered = sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in inside)
        assert covered >= 0.95, f"share {share}: {covered}"


RNG = np.random.default_rng(5)


def counts(correct: list[int], unknown: list[int] | None = None) -> passk.Counts:
    ids = [f"p{row:03}" for row in range(len(correct))]
    return passk.Counts(ids, [16] * len(correct), correct, unknown)


def test_a_comparison_by_hand():
    a, b = counts([16, 8, 4, 0]), counts([8, 8, 0, 4])
    row = passk.compare(a, b, [1]).points[1]
    differences = np.array([0.5, 0.0, 0.25, -0.25])
    half = stats.t.ppf(0.975, 3) * differences.std(ddof=1) / 2
    assert row.difference == pytest.approx(0.125)
    assert (row.value_a, row.value_b) == pytest.approx((28 / 64, 20 / 64))
    assert (row.wins, row.losses, row.ties) == (2, 1, 1)
    assert (row.low, row.high) == pytest.approx((0.125 - half, 0.125 + half))
    assert row.interval == passk.NEW_PROBLEMS
    assert row.same_interval == passk.SAME_PROBLEMS
    assert row.same_p_value == pytest.approx(2 * stats.norm.sf(abs(row.same_z)))
    assert (row.lowest, row.highest) == (row.difference, row.difference)


def test_the_p_value_is_near_that_of_all_flips():
    differences = RNG.normal(0.2, 0.5, 12)
    all_flips = [abs(np.dot(signs, differences)) for signs in product((-1, 1), repeat=12)]
    exact = np.mean(np.array(all_flips) >= abs(differences.sum()) - 1e-12)
    shown = sign_flip_p_values(differences[None], 20_000, 0)[0]
    assert shown == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / 20_000))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), min_size=2, max_size=20), st.randoms())
def test_sides_mirror_and_order_makes_no_difference(pairs, chance):
    a, b = (counts(list(column)) for column in zip(*pairs, strict=True))
    order = list(range(len(pairs)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    there = passk.compare(a, b, [1, 4]).points[4]
    back = passk.compare(b, a, [1, 4]).points[4]
    mixed = passk.compare(a.select(a.problem_ids[place] for place in order), b, [1, 4]).points[4]
    assert mixed == there
    assert back.p_value == there.p_value
    assert back.difference == pytest.approx(-there.difference)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    assert (back.wins, back.losses) == (there.losses, there.wins)
    assert -1 <= there.low <= there.difference <= there.high <= 1


def test_unknown_grades_widen_the_comparison():
    a, b = counts([8] * 40, unknown=[4] * 40), counts([6] * 40, unknown=[4] * 40)
    row = passk.compare(a, b, 1).points[1]
    assert (row.lowest, row.highest) == pytest.approx((-2 / 16, 6 / 16))
    assert row.low <= -2 / 16
    assert row.high >= 6 / 16
    assert "unknown grades or missing samples alone" in row.warning


def test_different_problems_and_too_few_samples_are_refused_unless_allowed():
    a = passk.Counts(["a", "b", "c"], [8] * 3, [1, 2, 3])
    b = passk.Counts(["c", "b", "d"], [8] * 3, [3, 1, 0])
    with pytest.raises(InputError, match=r"1 only in A \(a\), 1 only in B \(d\)"):
        passk.compare(a, b, 1)
    shown = passk.compare(a, b, 1, common_only=True)
    assert shown.problem_ids == ("b", "c")
    assert (shown.only_a, shown.only_b) == (("a",), ("d",))
    with pytest.raises(InputError, match="no problems in common"):
        passk.compare(a, passk.Counts(["z"], [8], [1]), 1, common_only=True)
    a = passk.Counts(["a", "b"], [8, 4], [1, 2])
    b = passk.Counts(["a", "b"], [8, 8], [3, 1])
    with pytest.raises(InputError, match="1 of 2 problems have fewer than 8"):
        passk.compare(a, b, [1, 8])
    shown = passk.compare(a, b, [1, 8], allow_missing=True)
    assert shown.left_out == ("b",)
    assert shown.problem_ids == ("a",)
    with pytest.raises(InputError, match="none of the 2 problems has 8"):
        passk.compare(a, passk.Counts(["a", "b"], [4, 8], [1, 1]), 8, allow_missing=True)


def test_levels_are_kept_where_sides_are_exchangeable():
    rng = np.random.default_rng(0)
    rates = rng.beta(0.5, 0.6, (2, 1500, 40))
    values = passk.pass_at_k(32, rng.binomial(32, rates), 2)
    differences = values[0] - values[1]
    low, high = paired_bounds(differences)
    # Four standard errors of 1,500 repetitions at .05 are .0225.
    assert (sign_flip_p_values(differences, 999, 1) <= 0.05).mean() == pytest.approx(0.05, abs=0.0225)
    assert ((low <= 0) & (high >= 0)).mean() == pytest.approx(0.95, abs=0.0225)


def test_holm_by_hand():
    assert passk.holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert passk.holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert passk.holm([]).tolist() == []


def test_more_samples_on_one_side_are_no_win():
    """Equal models at k = n of the smaller side: with all samples A would win wherever it has a right one."""
    rng = np.random.default_rng(3)
    ids = [f"p{i}" for i in range(200)]
    rates = rng.beta(2, 2, 200)
    a = passk.Counts(ids, [32] * 200, rng.binomial(32, rates))
    b = passk.Counts(ids, [48] * 200, rng.binomial(48, rates))
    point = passk.compare(a, b, 32).points[32]
    assert point.wins + point.losses < 10
    assert point.p_value > 0.05
    assert passk.compare(a, b, 32).thinned == 200
    assert passk.compare(a, a, 32).thinned == 0
