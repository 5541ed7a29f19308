"""Comparison of answers without and with algebra, in this process."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.grading.compare import compare
from evaluator.grading.types import GradeValue

SAME = [
    (r"\dfrac12", r"\frac{1}{2}"),
    (r"\left( 3, 4 \right)", "(3,4)"),
    ("$7$", "7."),
    ("**73**", "73"),
    ("1,000", "1000"),
    (r"1{,}234{,}567", "1234567"),
    (r"11,\!880", "11880"),
    ("10 000", "10000"),
    ("1,200", "1, 200"),
    ("0.5", r"\frac{1}{2}"),
    (r"2\frac{1}{2}", "5/2"),
    ("1 1/2", "1.5"),
    (r"0.\overline{3}", "1/3"),
    ("0.333333", "1/3"),
    ("3", "3.0000000000000004"),
    (r"-\frac{1}{2}", r"\frac{-1}{2}"),
    (r"\$5.50", "5.5"),
    (r"12\text{ inches}", "12"),
    ("64 square feet", "64"),
    (r"5\text{ cm}^2", r"5\text{ square centimeters}"),
    (r"90^\circ", "90 degrees"),
    ("1.4 m/s", "1.4"),
    ("9.8 m/s^2", r"9.8\text{ m/s}^2"),
    ("60 miles/hour", "60 mph"),
    ("2pi/3", r"\frac{2\pi}{3}"),
    ("pi r^2", r"\pi r^2"),
    ("Yes", r"\text{True}"),
    ("no", "False"),
    (r"80\%", "80"),
    (r"80\%", "0.8"),
    (r"3\text{ million}", "3,000,000"),
    ("3 million", "3"),
    (r"1500\text{ million}", "1.5 billion"),
    (r"\$3 million", r"3\text{ million dollars}"),
    ("12 hundred", "1200"),
    ("77 €", "77"),
    (r"77\text{ €}", "77 euros"),
    (r"-\$5", "-5"),
    (r"\text{Evelyn}", "evelyn"),
    (r"\text{(C)}", "C"),
    ("(B) 42", "B"),
    (r"\text{A, B}", "B,A"),
    ("A, B, D", r"A\text{、}B\text{、}D"),
    ("C", r"\text{C. }\{0, 2\}"),
    ("12", r"12^{\mathrm{th}}"),
    ("12", "12th"),
    ("60", r"60\text{ 美元}"),
    ("15", "15 ходов"),
    (r"\frac{1}{3}", r"\frac{1}{3}米"),
    ("１５", "15"),
    (r"\frac{1}{2}", r"\mathbb{E}[X] = \frac{1}{2}"),
    ("0.25", "E[N] = 0.25"),
    (r"\mbox{four}", "4"),
    ("x = 5", "5"),
    (r"x \in \{1,2\}", "2, 1"),
    (r"AB = 12", "12"),
    ("3, 1, 2", r"1, 2 \text{ and } 3"),
    (r"\pm 3", "3, -3"),
    (r"\{1, 2\}", "2,1"),
    (r"\{\}", r"\emptyset"),
    (r"S = \left\{ \right\}", r"\varnothing"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}"),
    ("203_7", "203_{7}"),
    ("2 + 3 = 5", "5"),
    (r"\sqrt{4}=1+1=2", "2"),
]
DIFFERENT = [
    ("3 million", "3 billion"),
    (r"3\text{ million}", "30"),
    ("77 €", r"77\text{ dollars}"),
    ("5%", "5 million"),
    ("1728", "1331 and 1728"),
    ("1,2", "12"),
    ("(1,2)", "(2,1)"),
    ("(1,200)", "1200"),
    ("(1,2)", "[1,2]"),
    ("2", "2, 2"),
    (r"\{\}", "1, 2"),
    ("203_7", "203"),
    ("203_7", "101"),
    ("0.3333", "1/3"),
    ("0.000012", "1/80000"),
    ("12.5", "12.51"),
    (r"2\text{ feet}", r"2\text{ inches}"),
    (r"8:34 \text{ p.m.}", r"8:34 \text{ a.m.}"),
    ("1.4 m/s", "1.4 km/h"),
    ("3小时", "3分钟"),
    ("3 hours", "3分钟"),
    ("ABD", "A, B"),
    ("ABD", "A, B, C"),
    ("Yes", "False"),
    ("no solution", "False"),
    (r"\text{east}", "seat"),
    ("CBAD", "ABCD"),
    ("A", "B"),
    ("(B) 42", "C"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    ("5", r"\text{five apples}"),
    ("5", "x+1=6"),
    ("5ab", "5"),
    ("2x^2", "2"),
    ("3t", "3"),
    ("x^{2}5", "x^{25}"),
    ("2x", "x"),
    ("60", "60万"),
    ("5", "5 тыс."),
    ("C", "B(6)"),
    ("6", "B(6)"),
    ("", " "),
]


NOTHING = [r"\{\}", r"\{,\}", r"\{;\}", r"\{\text{ and }\}", "()", "[]"]
DIFFERENT += product(NOTHING, ["0", "x^2", r"\{0\}", "(1,2)", r"(\{,\},1)"])


@pytest.mark.parametrize(("first", "second"), [*SAME, *DIFFERENT])
def test_what_is_the_same_without_algebra(first, second):
    for gold, answer in ((first, second), (second, first)):
        judged = compare(gold, answer)
        is_same = judged.value is GradeValue.CORRECT
        assert is_same == ((first, second) in SAME), (gold, answer, judged)


@given(st.text(alphabet=r"\{}()[]$,._^ 019xabcdfrt+-=%", max_size=40))
def test_any_text_equals_itself_and_is_judged_without_errors(text):
    judged = compare(text, text)
    unread = ("no answer", "no answer found", "unparsable")
    assert judged.value is GradeValue.CORRECT or judged.reason in unread
    compare(text, "5")
    compare("x, 5", text)


def test_a_zero_without_a_digit_before_the_point_is_a_number():
    assert compare(".0=", "5").value is not GradeValue.CORRECT
    assert compare(r"\sqrt{.0}", "0").value is not GradeValue.WRONG
