import json
from math import ceil
from pathlib import Path

import pytest
from passk_vectors import VECTORS, conformance

from evaluator.passk import g_pass_at_k, mg_pass_at_k, pass_at_k

# Of the public cases these stand on that library's grading, not on counts: it reads no answer (a letter, a
# formula without LaTeX) or several forms as one.
OTHER_GRADING = {
    "g_pass_at_k_math_2", "g_pass_at_k_math_6", "g_pass_at_k_math_4",
    "g_pass_at_k_latex_5", "pass_at_k_letters_0", "pass_at_k_letters_2",
}  # fmt: skip


@pytest.mark.parametrize("method", VECTORS)
def test_every_expected_number_of_the_vectors_is_met(conformance_folder: Path, method: str) -> None:
    checks = conformance(conformance_folder, method)

    assert checks
    assert [check for check in checks if not check.passed] == []


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
