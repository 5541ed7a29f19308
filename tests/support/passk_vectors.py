"""pass@k, G-Pass@k and maj@k against the numeric vectors of public code."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.passk import g_pass_at_k, maj_at_k, mg_pass_at_k, pass_at_k, pass_hat_k, with_replacement

VECTORS = ("pass_at_k", "g_pass_at_k", "maj_at_k")


@dataclass(frozen=True)
class Check:
    """One number of a test vector."""

    case: str
    what: str
    expected: float
    got: float
    passed: bool


def conformance(folder: Path, method: str) -> list[Check]:
    """Compare our numbers with every expected one of `<folder>/<method>.json`; null asks for nothing."""
    checks = []
    for case in json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))["cases"]:
        if case["expected"] is None:
            continue
        tolerance = case["tol"]
        for what, expected, got in ANSWERS[case["fn"]](case["inputs"], case["expected"], case["params"]):
            allowed = tolerance["atol"] + tolerance["rtol"] * abs(expected)
            checks.append(Check(case["id"], what, expected, got, abs(got - expected) <= allowed))
    return checks


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
