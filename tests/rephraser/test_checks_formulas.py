"""LaTeX spellings, canonical forms, and what counts as a changed formula."""

from __future__ import annotations

import pytest

from rephraser.checks import Severity, check_candidate
from rephraser.checks.reading.canonical import canonical, pieces
from rephraser.checks.reading.latex import canonical_number, tokenize
from rephraser.checks.reading.text import take_apart


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("\\dfrac{1}{2}", "\\frac12"),
        ("\\tfrac12", "1/2"),
        ("\\left( x \\right)", "(x)"),
        ("x \\leqslant 3", "x \\le 3"),
        ("x^{2}", "x^2"),
        ("90^{\\circ}", "90^\\circ"),
        ("\\sqrt2", "\\sqrt{2}"),
        ("\\sqrt[2]{5}", "\\sqrt{5}"),
        ("3 \\cdot 4", "3 \\times 4"),
        ("\\overline{AB}", "AB"),
        ("\\mathbf{v}", "\\vec{v}"),
        ("\\binom{5}{2}", "\\dbinom{5}{2}"),
        ("x+y,", "x+y"),
        ("1{,}000", "1000"),
        ("\\lvert x \\rvert", "|x|"),
    ],
)
def test_spellings_that_render_the_same(first: str, second: str) -> None:
    assert tokenize(first) == tokenize(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a+b", "b+a"),
        ("a-b+c", "c+a-b"),
        ("2 \\cdot x", "x \\cdot 2"),
        ("(a+b)^2", "(b+a)^2"),
        ("f(x+1)", "f(1+x)"),
    ],
)
def test_safe_orders_are_one(first: str, second: str) -> None:
    assert canonical(tokenize(first)) == canonical(tokenize(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a-b", "b-a"),
        ("f(g(x))", "g(f(x))"),
        ("(3,-4)", "(-4,3)"),
        ("2^x", "x^2"),
        ("0.\\overline{36}", "0.36"),
        ("\\sqrt[3]{8}", "\\sqrt{8}"),
        ("1-2+3-\\cdots", "3+1-2-\\cdots"),
    ],
)
def test_other_orders_are_not(first: str, second: str) -> None:
    assert canonical(tokenize(first)) != canonical(tokenize(second))


def test_chains_and_lists_are_split() -> None:
    assert [p.key for p in pieces(tokenize("0 < x \\le 5, y = 2"))] == ["0 < x", "x ≤ 5", "2 = y"]
    assert [p.key for p in pieces(tokenize("b > a"))] == [p.key for p in pieces(tokenize("a < b"))]


@pytest.mark.parametrize(
    ("digits", "wanted"), [("1,200", "1200"), ("3.0", "3"), (".50", "0.5"), ("007", "7")]
)
def test_canonical_numbers(digits: str, wanted: str) -> None:
    assert canonical_number(digits) == wanted


def fatal(original: str, candidate: str) -> list[str]:
    return [f.name for f in check_candidate(original, candidate) if f.severity is Severity.FATAL]


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ("If $x = 3$, find $x^2 + 1$.", "What is $x^2+1$ when $x$ equals 3?"),
        ("Find $x$ if $x > 0$ and $3x = 12$.", "Solve $3x=12$ for $0<x$."),
        ("Find the value of $a+b$ given $ab = 6$.", "Given that $ab=6$, what is $b+a$?"),
        ("Find $z$ if \\[z + \\frac{1}{z} = 1.\\]", "If $z+\\frac1z=1$, what is $z$?"),
        ("In triangle $ABC$, find $\\angle ACB$.", "Determine $\\angle BCA$ in triangle $ABC$."),
    ],
)
def test_formulas_kept(original: str, candidate: str) -> None:
    assert fatal(original, candidate) == []


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ("Solve $x^2 - 4x = 21$.", "Which $x$ solve $x^2 + 4x = 21$?"),
        ("Find all $x$ with $3x < 21$.", "Which $x$ satisfy $3x \\le 21$?"),
        ("Find $\\sqrt{x} - 2$ for $x = 9$.", "For $x=9$, what is $\\sqrt{x - 2}$?"),
        ("Evaluate $\\frac{x+3}{y-3}$ at $x=9$, $y=7$.", "If $x=9$, $y=7$, what is $\\frac{y-3}{x+3}$?"),
    ],
)
def test_formulas_changed(original: str, candidate: str) -> None:
    findings = check_candidate(original, candidate)
    assert [(f.name, f.severity) for f in findings] == [("formula_changed", Severity.EVIDENCE)]


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ("Find $n$ if $n \\neq 0$ and $3n = n^2$.", "What nonzero $n$ has $3n=n^2$?"),
        ("If $a^4 - 4a - 1 = 0$, find $a^8$.", "Given $a^4 = 4a + 1$, what is $a^8$?"),
        ("Find $AC$ if $AC = 2 \\cdot AB$.", "What is $CA$ when $CA=2AB$?"),
        ("Half of $\\frac{-3}{5}$ is what?", "What is half of $-\\frac35$?"),
        ("What is $17/4$ of $x^2 + 1$?", "What is $4.25$ of $1 + x^2$?"),
        ("$D$ is on $BC$. Find $\\angle CAD$.", "What is $\\angle BAD$, $D$ on $CB$?"),  # B and C swapped
        ("Let $x$ be real with $x + 2 = 6$.", "Let $t$ be real with $t+2=6$."),
    ],
)
def test_another_way_of_writing_is_no_change(original: str, candidate: str) -> None:
    assert "formula_changed" not in [finding.name for finding in check_candidate(original, candidate)]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("costs $5 and $7 each", 0),
        ("costs $5", 0),
        ("$5$ and $7$", 2),
        ("$x$ costs \\$7", 1),
        ("$\\$7$ and \\(x\\) and \\[y\\] and $$z$$", 4),
        ("$10x + ax$ dollars", 1),
        ("$1-iz = -1 + iz$ and $PA = PB = PC$", 2),
        ("$5-$10 each", 0),
        ("an open $x + 1", 0),
    ],
)
def test_money_and_formulas(text: str, formulas: int) -> None:
    assert len(take_apart(text).formulas) == formulas


def test_figure_code_is_taken_out() -> None:
    question = take_apart("See [asy] draw((0,0)--(1,1)); [/asy] and $x$.")
    assert question.figures == ("[asy] draw((0,0)--(1,1)); [/asy]",)
    assert "draw" not in question.prose
