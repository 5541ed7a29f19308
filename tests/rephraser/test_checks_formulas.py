"""LaTeX spellings, canonical forms, and what counts as a changed formula."""

from __future__ import annotations

import pytest

from rephraser.checks import Severity, check_candidate
from rephraser.checks.canonical import canonical, pieces
from rephraser.checks.latex import canonical_number, tokenize
from rephraser.checks.text import take_apart


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
    ("original", "candidate", "finding"),
    [
        ("Solve $x^2 - 4x = 21$.", "Which $x$ solve $x^2 + 4x = 21$?", "formula_changed"),
        ("Find all $x$ with $3x < 21$.", "Which $x$ satisfy $3x \\le 21$?", "formula_changed"),
        ("If $x+y=9$ and $xy=8$, find $x$.", "If $xy=8$, what is $x$?", "formula_missing"),
        ("If $2k = 8$, find $k$.", "What is $k^2$ if $2k=8$?", "formula_added"),
        (
            "$D$ lies on $BC$. Find $\\angle CAD$.",
            "What is $\\angle BAD$ if $D$ lies on $BC$?",
            "formula_changed",
        ),
    ],
)
def test_formulas_changed(original: str, candidate: str, finding: str) -> None:
    assert finding in fatal(original, candidate)


def test_a_formula_told_in_words_is_a_warning() -> None:
    findings = check_candidate("Find $n$ if $n \\neq 0$ and $3n = n^2$.", "What nonzero $n$ has $3n=n^2$?")
    assert ("formula_in_words", Severity.WARNING) in [(f.name, f.severity) for f in findings]
    assert all(f.severity is Severity.WARNING for f in findings)


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
