import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from math import ceil, comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.passk import g_pass_at_k, maj_at_k, mg_pass_at_k, pass_at_k, pass_hat_k, with_replacement


@st.composite
def triples(draw: st.DrawFn, largest: int = 300) -> tuple[int, int, int]:
    n = draw(st.integers(1, largest))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(triples(10_000))
def test_exact_to_a_trillionth(triple: tuple[int, int, int]) -> None:
    n, c, k = triple

    assert pass_at_k(n, c, k) == pytest.approx(
        float(1 - Fraction(comb(n - c, k), comb(n, k))), abs=1e-12, rel=0
    )
    assert pass_hat_k(n, c, k) == pytest.approx(float(Fraction(comb(c, k), comb(n, k))), abs=1e-12, rel=0)


@given(triples(), st.floats(0, 1), st.floats(0, 1))
def test_stricter_measures_are_never_larger(triple: tuple[int, int, int], tau: float, other: float) -> None:
    low, high = sorted((tau, other))
    at_least_one, all_right = pass_at_k(*triple), pass_hat_k(*triple)

    assert all_right - 1e-12 <= g_pass_at_k(*triple, high) <= g_pass_at_k(*triple, low) + 1e-12
    assert g_pass_at_k(*triple, low) <= at_least_one + 1e-12
    assert g_pass_at_k(*triple, 0) == pytest.approx(at_least_one, abs=1e-12)
    assert g_pass_at_k(*triple, 1) == pytest.approx(all_right, abs=1e-12)


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
def test_what_is_not_defined_is_refused(n: object, c: object, k: object, message: str) -> None:
    for formula in (pass_at_k, pass_hat_k, mg_pass_at_k, with_replacement):
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
def test_majority_counts_all_subsets(predictions: list[str | None], data: st.DataObject, ties: str) -> None:
    k = data.draw(st.integers(1, len(predictions)))

    assert maj_at_k(predictions, "a", k, ties=ties) == pytest.approx(
        brute_force(predictions, "a", k, ties), abs=1e-12
    )


# Of the public cases these stand on that library's grading, not on counts: it reads no answer (a letter, a
# formula without LaTeX) or several forms as one.
OTHER_GRADING = {
    "g_pass_at_k_math_2", "g_pass_at_k_math_6", "g_pass_at_k_math_4",
    "g_pass_at_k_latex_5", "pass_at_k_letters_0", "pass_at_k_letters_2",
}  # fmt: skip


Answers = Iterator[tuple[str, float, float]]


def _per_count(formula: Callable[..., Any]) -> Callable[..., Answers]:
    def answers(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
        for k, numbers in expected.items():
            got = np.atleast_1d(formula(inputs["n"], inputs["c"], int(k)))
            for c, number, value in zip(np.atleast_1d(inputs["c"]), numbers["float"], got, strict=True):
                if number is not None:
                    yield f"k={k} c={c}", number, float(value)

    return answers


def _mean(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    for k, number in expected["mean"].items():
        yield f"mean k={k}", number, float(np.mean(pass_at_k(inputs["n"], inputs["c"], int(k))))


def _against_bootstrap(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    counts = inputs["n"], inputs["c"], inputs["k"]
    yield "pass@k", expected["pass_at_k"], pass_at_k(*counts)
    yield "with replacement", expected["with_replacement_expectation"], with_replacement(*counts)


def _g_pass(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    for name, number in expected["float"].items():
        family, rest = name.split("@")
        k, _, tau = rest.partition("_")
        counts = inputs["n"], inputs["c"], int(k)
        yield name, number, mg_pass_at_k(*counts) if family == "mg-pass" else g_pass_at_k(*counts, float(tau))


def _majority(inputs: dict[str, Any], expected: dict[str, Any], params: dict[str, Any]) -> Answers:
    ties = params.get("tie_break") or "first seen"
    first = inputs["predictions"][: inputs["n"]]
    for name, number in expected.items():
        if name == "maj":
            yield name, number, maj_at_k(first, inputs["gold"], len(first), ties=ties)
        else:
            k = int(name.removeprefix("maj@").removesuffix("_over_subsets"))
            yield name, number, maj_at_k(first, inputs["gold"], k, ties=ties)


ANSWERS: dict[str, Callable[..., Answers]] = {
    "pass_at_k": _per_count(pass_at_k),
    "pass_hat_k": _per_count(pass_hat_k),
    "pass_at_k_dataset_mean": _mean,
    "pass_at_k_vs_bootstrap": _against_bootstrap,
    "g_pass_at_k": _g_pass,
    "maj_at_n": _majority,
}


@pytest.mark.parametrize("method", ["pass_at_k", "g_pass_at_k", "maj_at_k"])
def test_every_expected_number_of_the_vectors_is_met(conformance_folder: Path, method: str) -> None:
    checked, missed = 0, []
    for case in json.loads((conformance_folder / f"{method}.json").read_text(encoding="utf-8"))["cases"]:
        if case["expected"] is None:
            continue
        for what, expected, got in ANSWERS[case["fn"]](case["inputs"], case["expected"], case["params"]):
            checked += 1
            if abs(got - expected) > case["tol"]["atol"] + case["tol"]["rtol"] * abs(expected):
                missed.append((case["id"], what, expected, got))
    assert checked
    assert missed == []


def test_k_above_n_of_the_vectors_is_refused(conformance_folder: Path) -> None:
    cases = json.loads((conformance_folder / "pass_at_k.json").read_text(encoding="utf-8"))["cases"]
    undefined = [case["inputs"] for case in cases if case["fn"] == "pass_at_k_undefined"]

    assert undefined
    for inputs in undefined:
        with pytest.raises(ValueError, match="k must be at most n"):
            pass_at_k(inputs["n"], inputs["c"], inputs["k"])


@pytest.mark.shared
def test_public_metric_cases(data_folder: Path) -> None:
    lines = (data_folder / "passk_metric_cases.jsonl").read_text(encoding="utf-8").splitlines()
    disagreeing = set()
    for case in map(json.loads, lines):
        n = case["metric_params"].get("n", len(case["responses"]))
        k = case["metric_params"]["k"]
        c = sum(response == case["answer"][0] for response in case["responses"][:n])
        for name, expected in case["expected"].items():
            draws_and_tau = name.partition("@")[2]
            if name.startswith("avg@k"):
                got = c / n
            elif name.startswith("pass@k"):
                got = pass_at_k(n, c, k)
            elif "_" in draws_and_tau:
                got = g_pass_at_k(n, c, k, float(draws_and_tau.partition("_")[2]))
            else:
                got = mg_pass_at_k(n, c, k)
            if got != pytest.approx(expected, abs=case["tolerance"]):
                disagreeing.add(case["id"])

    assert len(lines) == 40
    assert disagreeing == OTHER_GRADING


def test_the_threshold_is_a_number_of_draws_not_its_binary_shadow() -> None:
    for hundredths in range(101):
        needed = max(1, ceil(hundredths * 100 / 100))
        exact = g_pass_at_k(200, 57, 100, (needed - 0.5) / 100)
        assert g_pass_at_k(200, 57, 100, hundredths / 100) == exact
