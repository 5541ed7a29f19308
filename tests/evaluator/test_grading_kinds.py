"""Integers, choices and tolerances; where an answer is found; one grade at a time."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.grading import REASONS, SOURCES, AnswerKind, GradeCase, Grader, GradeValue, find_answer, grade
from evaluator.grading.compare import judge, read_tolerance
from evaluator.grading.exact import choice_letters
from service.errors import InputError

CORRECT = [
    (r"\boxed{073}", "73", "integer"),
    (r"\boxed{73}", "073", "integer"),
    (r"\boxed{336^\circ}", "336", "integer"),
    (r"\boxed{1{,}024}", "1024", "integer"),
    (r"\boxed{\textbf{(C)}\ 12}", "12", "integer"),
    (r"\boxed{m+n = 73}", "73", "integer"),
    (r"\boxed{\frac{146}{2}}", "73", "integer"),
    (r"\boxed{73 \text{ ways}}", "73", "integer"),
    (r"\boxed{\text{(B)}}", "B", "choice"),
    (r"\boxed{b}", "B", "choice"),
    (r"\boxed{(B)\ 42}", "B", "choice"),
    ("The answer is (B).", "B", "choice"),
    ("The correct option is **D**", "D", "choice"),
    ("B) 42", "B", "choice"),
    ("Answer: B. Because it is even", "(B)", "choice"),
    ("Let us see.\n\nC", "C", "choice"),
    ("Only option E is left over after all that, I think", "E", "choice"),
    (r"\boxed{4.25\%}", "4.2", "tolerance"),
    (r"\boxed{4.21\%}", "0.042", "tolerance"),
    (r"\boxed{0.0421}", r"4.2\%", "tolerance"),
    (r"\boxed{4.51\times 10^{33}}", "4.5e33", "tolerance"),
    (r"\boxed{4.5 \cdot 10^{33} \text{ erg}}", "4.5e33", "tolerance"),
    (r"\boxed{1.77e-6}", r"1.77 \times 10^{-6}", "tolerance"),
    (r"\boxed{\frac{1}{3}}", "0.333", "tolerance"),
    (r"\boxed{x^2+1}", "1+x^2", "tolerance"),
    (r"\boxed{1,5}", "1.5", "latex"),
    (r"\boxed{1.22}", "1,22", "latex"),
    (r"\boxed{\frac{1}{3} \approx 0.33}", r"\frac13", "latex"),
    (r"\boxed{0.33}", r"\frac13 \approx 0.33", "latex"),
    (r"\boxed{(1,2),(3,4),(1, 2)}", "(3,4),(1,2)", "latex"),
    (r"\boxed{(5,2),(7,2)}", "p=5,q=2;p=7,q=2", "latex"),
    (r"\boxed{-8, 4}", "a = 4, -8", "latex"),
    (r"\boxed{\frac{3602879701896397}{36028797018963968}}", "0.1", "latex"),
    (r"\boxed{2} \quad \text{and} \quad \boxed{3}", "2, 3", "latex"),
    (r"\boxed{2} apples and \boxed{3} pears", "2, 3", "latex"),
    (r"Final Answer: The final answer is $34$. I hope it is correct.", "34", "latex"),
    (r"I get \boxed{5} wheels. The final answer is $20$. I hope it is correct.", "20", "latex"),
    (r"Final answer: the largest $n$ is 34.", "34", "latex"),
]
WRONG = [
    (r"\boxed{74}", "73", "integer", "different"),
    (r"\boxed{C}", "B", "choice", "different"),
    (r"\boxed{A, B}", "A", "choice", "several answers"),
    (r"\boxed{42}", "B", "choice", "different"),
    ("", "B", "choice", "no answer found"),
    (r"\boxed{4.25}", "4.2", "tolerance", "different"),
    ("I checked 1331 and 1728.", "1728", "latex", "several answers"),
    ("He counted them all: it could be 1331 and 1728.", "1728", "latex", "several answers"),
    (r"\boxed{1.5}", "1, 5, 5", "latex", "different"),
    (r"\boxed{1,200}", "1.2", "latex", "different"),
    (r"\boxed{(1,2)}", "1.2", "latex", "different"),
    (r"\boxed{1,2}", "1,1,2", "latex", "different"),
    (r"\boxed{\infty}", "3", "latex", "different"),
    (r"\boxed{x > 3}", "3", "latex", "different"),
    (r"\boxed{a+b = 4}", "5", "latex", "different"),
    (r"\boxed{ten apples}", "50", "latex", "different"),
    (r"\boxed{[0,1)\cup(1,2]}", "[0,2]", "latex", "different"),
]


@pytest.mark.parametrize(("response", "gold", "kind"), CORRECT)
def test_correct(response: str, gold: str, kind: str) -> None:
    tolerance = "1e-1" if gold == "4.2" else None
    found = grade(response, gold, kind, tolerance=tolerance)
    assert found.value is GradeValue.CORRECT, found


@pytest.mark.parametrize(("response", "gold", "kind", "reason"), WRONG)
def test_wrong(response: str, gold: str, kind: str, reason: str) -> None:
    found = grade(response, gold, kind)
    assert (found.value, found.reason) == (GradeValue.WRONG, reason), found
    assert found.reason in REASONS


@pytest.mark.parametrize(
    ("gold", "answer", "tolerance", "correct"),
    [
        ("4.2", "4.3", "1e-1", True),
        ("4.2", "4.31", "1e-1", False),
        ("0.003, 5.233", "5.234, 0.002", "1e-3", True),
        (r"7 \times 10^{35}, 0.002", r"0.001, 7.1 \cdot 10^{35}", "1e34,1e-3", True),
        (r"7 \times 10^{35}, 0.002", r"0.001, 7.1 \cdot 10^{35}", "1e33,1e-3", False),
        (r"(0.5, \frac{8}{3}]", "(0.5, 2.667]", "5e-3", True),
        (r"(0.5, \frac{8}{3}]", "(0.5, 2.667)", "5e-3", False),
        ("100", "101", "1%", True),
        ("100", "101.01", "1%", False),
        ("100", "101", None, True),
        ("-20", "-20.3", "2%", True),
        ("0", "0.001", "1%", False),
    ],
)
def test_tolerances(gold: str, answer: str, tolerance: str | None, correct: bool) -> None:
    judged = judge(gold, answer, AnswerKind.TOLERANCE, tolerance)
    assert (judged.value is GradeValue.CORRECT) == correct


def test_a_tolerance_holds_for_what_only_algebra_can_work_out() -> None:
    with Grader(workers=1) as grader:
        cases = [
            GradeCase(r"\boxed{\sin(1)}", "0.84", AnswerKind.TOLERANCE, "1e-2"),
            GradeCase(r"\boxed{\sin(1)}", "0.84", AnswerKind.TOLERANCE, "1e-3"),
            GradeCase(r"\boxed{\sin(1)}", "0.84"),
        ]
        assert [(g.value.value, g.reason) for g in grader.grade_many(cases)] == [
            ("correct", "tolerance"),
            ("wrong", "different"),
            ("wrong", "different"),
        ]


@pytest.mark.parametrize("tolerance", ["a lot", "-1", "1e", "1e-2;3", ""])
def test_bad_tolerances_are_refused(tolerance: str) -> None:
    if not tolerance:
        assert read_tolerance(tolerance) == read_tolerance(None)
        return
    with pytest.raises(InputError, match="tolerance"):
        grade(r"\boxed{5}", "5", "tolerance", tolerance=tolerance)


def test_as_many_tolerances_as_numbers() -> None:
    with pytest.raises(InputError, match="names 2 numbers, the gold has 1"):
        grade(r"\boxed{5}", "6", "tolerance", tolerance="1,2")


@pytest.mark.parametrize(
    ("gold", "kind"), [("AB", "choice"), ("42", "choice"), ("2.5", "integer"), ("x", "integer")]
)
def test_a_gold_that_is_not_of_its_kind_is_unknown(gold: str, kind: str) -> None:
    found = grade(r"\boxed{C}", gold, kind)
    assert (found.value, found.reason) == (GradeValue.UNKNOWN, "unparsable")
    assert grade(r"\boxed{C}", " ", kind).reason == "no answer"
    assert grade("", "", kind).value is GradeValue.UNKNOWN


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="essay"):
        grade(r"\boxed{5}", "5", "essay")


@given(st.sampled_from("ABCDEFGHIJ"), st.sampled_from("ABCDEFGHIJ"), st.integers(0, 7))
def test_letters_equal_only_themselves_in_every_dress(gold: str, letter: str, dress: int) -> None:
    dresses = [
        f"\\boxed{{{letter}}}", f"\\boxed{{\\text{{({letter})}}}}", f"The answer is ({letter}).",
        f"The correct choice is {letter}", f"**{letter}**", f"\\boxed{{{letter}.}}", f"{letter}) 42",
        f"\\boxed{{\\mathbf{{{letter}}}}}",
    ]  # fmt: skip
    found = grade(dresses[dress], gold, AnswerKind.CHOICE)
    assert (found.value is GradeValue.CORRECT) == (gold == letter)


@given(st.integers(0, 999), st.integers(0, 999))
def test_integers_equal_only_themselves_with_zeros_in_front(gold: int, number: int) -> None:
    found = grade(f"so \\boxed{{{number:03d}}}", str(gold), AnswerKind.INTEGER)
    assert (found.value is GradeValue.CORRECT) == (gold == number)


def test_letters_of_options() -> None:
    assert choice_letters(r"\textbf{(A)}\ 3") == ["A"]
    assert choice_letters("A and C") == ["A", "C"]
    assert choice_letters("both are fine") == []


def test_a_box_that_names_no_option_gives_way_to_a_marker_that_does() -> None:
    text = "so it is \\boxed{42} cm. The answer is (B)."
    assert grade(text, "B", AnswerKind.CHOICE).value is GradeValue.CORRECT
    assert find_answer(text, AnswerKind.CHOICE, boxed_only=True) == ("42", "box")
    assert find_answer(text) == ("42", "box")
    for other in (r"\boxed{42}. The answer is 42.", r"The answer is (B). \boxed{42}", r"\boxed{42} (B)"):
        assert find_answer(other, AnswerKind.CHOICE) == ("42", "box")


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("(A), (B), (C)", "ABC"),
        ("(A) and (B)", "AB"),
        ("(A); (B)", "AB"),
        (r"\text{(A)}, \text{(B)}", "AB"),
        ("A. B. C. D.", "ABCD"),
        ("(A) (B)", "AB"),
        ("(A) 5, (B) 6", "AB"),
        ("(A) 5, (B)", "AB"),
        ("(A) 5, 6 and 7", "A"),
        ("(B) A, C", "B"),
        ("(B) (0, 1)", "B"),
        ("A. B", "A"),
        ("(D) both (A) and (C)", "D"),
        ("(A) Robert MacArthur and E. O. Wilson", "A"),
        ("(C) Africa and S. America", "C"),
        ("B) Washington, D.C.", "B"),
    ],
)
def test_a_list_of_options_names_them_all(text: str, letters: str) -> None:
    assert choice_letters(text) == list(letters)


@pytest.mark.parametrize(
    ("response", "kind", "text", "source"),
    [
        (r"so \boxed{5}", "latex", "5", "box"),
        ("Thus the answer is 5.", "latex", "5", "marker"),
        ("64 square feet", "latex", "64 square feet", "last sentence"),
        (r"$\frac{1}{2}$, $3$", "latex", r"\frac{1}{2}, 3", "last sentence"),
        (r"We know that it is half, so $x = \frac{1}{2}$.", "latex", r"x = \frac{1}{2}", "last sentence"),
        (r"It comes out that $2x=6$ and $x=3$.", "latex", "x=3", "last sentence"),
        ("He has 3 apples and buys 4, so 3 + 4 = 7 apples.", "latex", "7", "last sentence"),
        ("Together that makes 1,234.50 dollars for all", "latex", "1,234.50 dollars", "last sentence"),
        ("The share that remains after that is 40%", "latex", r"40\%", "last sentence"),
        ("print(x)\n```\n```output\n34.0\n```\nReached the limit.", "latex", "34.0", "last sentence"),
        ("I would go for option (C) here, all in all", "choice", "C", "last sentence"),
    ],
)
def test_where_an_answer_is_found(response: str, kind: str, text: str, source: str) -> None:
    found = find_answer(response, AnswerKind(kind))
    assert found is not None
    assert (found.text, found.source) == (text, source)
    assert source in SOURCES


def test_with_boxed_only_nothing_but_a_box_is_an_answer() -> None:
    last = "He has 3 apples and buys 2 more at the shop, so 3 + 2 = 5 apples."
    for response in ("The answer is 5.", "5", last, "#### 5", rf"<think>\boxed{{5}}</think>{last}"):
        assert find_answer(response, AnswerKind.LATEX, boxed_only=True) is None
        found = grade(response, "5", boxed_only=True)
        assert (found.value, found.extracted, found.reason) == (GradeValue.WRONG, None, "no answer found")
        assert grade(response, "5").value is GradeValue.CORRECT
    assert grade("The answer is 5.", "", boxed_only=True).value is GradeValue.UNKNOWN
    found = find_answer(r"\fbox{4}\nThe final answer is 5.", AnswerKind.LATEX, boxed_only=True)
    assert found == ("4", "box")


def test_one_grader_tells_boxed_only_from_all() -> None:
    with Grader(workers=1) as grader:
        for _ in range(2):  # the second time from memory
            found = grader.grade_many(
                [GradeCase("The answer is 5.", "5", boxed_only=boxed) for boxed in (False, True, False)]
            )
            assert [one.value.value for one in found] == ["correct", "wrong", "correct"]


def test_words_with_digits_are_no_numbers() -> None:
    assert find_answer("We call the points P1 and Q2x and all of the others R3", AnswerKind.LATEX) is None
    assert find_answer("", AnswerKind.LATEX) is None
    assert find_answer("nothing to be seen in all of this", AnswerKind.CHOICE) is None


@pytest.mark.sqlite  # on a server its programs load SQLAlchemy at once
def test_an_easy_case_starts_no_process_and_loads_no_algebra() -> None:
    code = (
        "import sys\nfrom evaluator.grading import grade\n"
        "print(grade(r'\\boxed{\\frac{2}{4}}', '0.5').value, grade(r'\\boxed{\\sqrt8}', r'2\\sqrt2').value)\n"
        "print([m for m in ('sympy', 'pebble', 'math_verify', 'sqlalchemy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["correct correct", "[]"]


def test_a_hard_case_alone() -> None:
    found = grade(r"\boxed{\sin(2)+\sin(2)}", r"2\sin(2)")
    assert (found.value, found.reason, found.source) == (GradeValue.CORRECT, "symbolic", "box")
