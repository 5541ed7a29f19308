"""pass@k: test vectors, speed against the usual Python loop, time of intervals and of a comparison."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import add_data, seconds
from evaluator.passk import (
    Counts,
    compare,
    curve,
    g_pass_at_k,
    maj_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_hat_k,
    with_replacement,
)

VECTORS = ("pass_at_k", "g_pass_at_k", "maj_at_k")
PROBLEMS, SAMPLES, FLIPS = 675, 128, 10_000
KS = (1, 2, 4, 8, 16, 32, 64, 128)


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


def usual_loop(n: list[int], c: list[int], k: int) -> list[float]:
    """The common way: one product over numpy arrays per problem, in a Python loop."""
    values = []
    for samples, correct in zip(n, c, strict=True):
        wrong = samples - correct
        values.append(1.0 if wrong < k else 1.0 - float(np.prod(1.0 - k / np.arange(wrong + 1, samples + 1))))
    return values


def speed(pairs: int, loop_pairs: int, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Time pairs of three kinds; the loop runs over the first `loop_pairs` and is scaled up."""
    n_same = np.full(pairs, SAMPLES)
    n_mixed = rng.integers(32, 257, pairs)
    n_large = rng.integers(100, 10_001, pairs)
    report = {}
    for name, n, k in (
        ("n=128, k=32", n_same, 32),
        ("n 32..256, k=8", n_mixed, 8),
        ("n 100..10000, k=32", n_large, 32),
    ):
        c = rng.integers(0, n + 1)
        ours = seconds(lambda n=n, c=c, k=k: pass_at_k(n, c, k))
        head = min(pairs, loop_pairs)
        few = n[:head].tolist(), c[:head].tolist()
        loop = seconds(lambda few=few, k=k: usual_loop(*few, k), repeats=1) * pairs / head
        apart = float(np.max(np.abs(pass_at_k(n[:head], c[:head], k) - np.array(usual_loop(*few, k)))))
        report[name] = {
            "seconds": round(ours, 4),
            "loop_seconds": round(loop, 2),
            "ratio": round(loop / ours),
        }
        print(
            f"{name:20} {pairs:,} pairs: {ours * 1000:7.1f} ms; the loop {loop:6.1f} s; "
            f"ratio {loop / ours:6.0f}; largest difference {apart:.0e}"
        )
    return report


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser, "the vectors lie beside it")
    parser.add_argument(
        "--conformance", type=Path, help="folder of test vectors; default: TAGRPO_CONFORMANCE"
    )
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--loop-pairs", type=int, default=1_000_000, help="of them, those given to the loop")
    options = parser.parse_args()
    folder = options.conformance or Path(
        os.environ.get("TAGRPO_CONFORMANCE", options.data.parent / "conformance")
    )
    report: dict[str, object] = {}
    vectors = {}
    for method in VECTORS:
        if not (folder / f"{method}.json").is_file():
            print(f"{method}: no vectors at {folder}; set TAGRPO_CONFORMANCE", file=sys.stderr)
            continue
        checks = conformance(folder, method)
        failed = [check for check in checks if not check.passed]
        vectors[method] = {"numbers": len(checks), "failed": len(failed)}
        print(f"{method:12} {len(checks) - len(failed)} of {len(checks)} expected numbers within tolerance")
        for check in failed:
            print(f"  {check.case} {check.what}: expected {check.expected}, got {check.got}")
    report["conformance"] = vectors

    rng = np.random.default_rng(0)
    report["speed"] = speed(options.pairs, options.loop_pairs, rng)
    ids = [f"problem {number}" for number in range(PROBLEMS)]
    rates = rng.beta(0.3, 0.4, PROBLEMS)
    n = np.full(PROBLEMS, SAMPLES)
    a, b = (Counts.from_columns(ids, n, rng.binomial(SAMPLES, rates)) for _ in range(2))
    intervals = seconds(lambda: curve(a, KS))
    one = seconds(lambda: compare(a, b, 32, flips=FLIPS))
    eight = seconds(lambda: compare(a, b, KS, flips=FLIPS))
    print(f"{PROBLEMS} problems x {SAMPLES} samples:")
    print(f"curve of {len(KS)} k with all intervals {intervals * 1000:.0f} ms")
    print(f"comparison with {FLIPS:,} flips: one k {one * 1000:.0f} ms, {len(KS)} k {eight * 1000:.0f} ms")
    report["intervals_ms"] = round(intervals * 1000, 1)
    report["compare_one_k_ms"] = round(one * 1000, 1)
    report["compare_all_k_ms"] = round(eight * 1000, 1)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
