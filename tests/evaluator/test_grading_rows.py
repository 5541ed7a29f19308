"""Responses and their grades by kind, and where the answer is found, in made-up rows."""

import subprocess
import sys

import pytest

from evaluator.grading import SOURCES, AnswerKind, GradeCase, Grader, GradeValue, find_answer, grade
from evaluator.grading.compare import judge
from evaluator.grading.exact import choice_letters

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
STATED = [  # shapes that models write without a box
    ("**Answer:** The shelf held **23** jars before lunch.", "23"),
    (r"**Answer:** Mia owes \$4 less than Theo.", "4"),
    ("Final Answer: The farmer keeps **9 geese**.", "9"),
    ("The answer is 12, which is even.", "12"),
    ("The final answer is 7 because 7 is prime", "7"),
    ("The correct option is C because A is wrong.", "C"),
    ("So the club needs 6 vans for its 40 members.", "6"),
    ("Rosa would finish first, a minute ahead of the others.", "Rosa"),
    ("Rosa would finish first, a minute ahead of the others.", r"\text{Rosa}"),
    ("We add the legs and so the ship ends up sailing **southwest**.", "southwest"),
    ("We add the legs and so the ship ends up sailing southwest.", r"\text{southwest}"),
    ("So the side is 4√3 m.", r"4\sqrt{3}"),
    ("Thus the distance is √38.", r"\sqrt{38}"),
    ("⅓ × ¾ = ¼", r"\frac14"),
    ("So the radius equals 500/π.", r"\frac{500}{\pi}"),
    ("The conjugate is 7 − 2i.", "7-2i"),
    ("Hence there are 3 × 4! orders.", "72"),
    ("That is 128 / 9 in all.", r"\frac{128}{9}"),
    ("Therefore b₂ = 31.", "31"),
    ("so the volume is r³", "r^3"),
    (r"\boxed{\{2\pm\sqrt7, 0\}}", r"\{0, 2-\sqrt7, 2+\sqrt7\}"),
    (r"\boxed{{2±√7, 0}}", r"\{0, 2-\sqrt7, 2+\sqrt7\}"),
    ("so the answer: {2±√7, 0}", r"\{0, 2-\sqrt7, 2+\sqrt7\}"),
    ("Comparing, this is **(D) 5^x = 2**.", r"\text{(D)}"),
    ("Er hat 243,50 US-Dollar ausgegeben.", "243.5"),
    ("It costs **12,50** in all.", "12.5"),
    ("Sie zahlt 12,75 Euro.", "12.75"),
    ("Sie zahlt 20,00 Euro.", "20"),
    ("The numbers are 3, 5 and 7.", "3, 5, 7"),
    ("So it takes 2\u00a0hours.", "2"),
    (r"Answer: $36 \text{ cm}^2$", "36"),
    (r"The area is \(12\pi\) square meters.", r"12\pi"),
    ("He starts at 2:00 pm.", "2"),
    ("Therefore, all 5 friends paid $20 each.", "20"),
    ("In 4 weeks, he will run 60 miles.", "60"),
    ("3 loaves of bread cost $4 more than 2 bagels.", "4"),
    ("6 vans are needed for the 40 members.", "6"),
    ("The answer is yes.", "yes"),
    ("So x = 3 or x = 5.", "3,5"),
    ("The solutions are $x=2$ and $x=-2$.", "2,-2"),
    (r"The answer is $\frac{3}{4}$ of the total.", r"\frac34"),
    ("The ratio is 3:4.", "3:4"),
    ("Thus the probability is 5/36.", r"\frac{5}{36}"),
    (r"Thus the probability is \frac{5}{36}.", r"\frac{5}{36}"),
    ("The inequality holds for x ≥ 3.", r"[3,\infty)"),
    (r"The inequality holds for $x \ge 3$.", r"[3,\infty)"),
    ("So the coordinates are (3, -4).", "(3,-4)"),
    ("The polynomial is x^2 + 2x + 1.", "(x+1)^2"),
    (
        r"Therefore the matrix is $\begin{pmatrix}1&0\\0&1\end{pmatrix}$.",
        r"\begin{pmatrix}1&0\\0&1\end{pmatrix}",
    ),
    ("**Therefore, Evelyn ran the fastest.**", r"\text{Evelyn}"),
    ("The interval is [2, 5).", "[2,5)"),
    ("That is 25% of the class.", r"25\%"),
    ("That is 25 percent of the class.", "25"),
    ("So Ben is **older** than Tia.", "older"),
    ("The angle is 45°.", r"45^\circ"),
    ("The temperature is -10 degrees.", "-10"),
    ("the value is 1.5 × 10^8 m.", r"1.5\times10^8"),
    ("Paying $12 for the ticket leaves him with $9.", "9"),
    ("Thus, out of the 3,000 lamps, 45 lamps are both red and broken.", "45"),
    ("He has 90 beads, so if he makes strings for friends, he uses 90 / 6 = 15 beads a string.", "15"),
    ("The answer is 4g.", "4g"),
    ("so $3 - 2 = \x08oxed{\x0crac{1}{4}}$.", r"\frac14"),
    (r"so the answer is \"85\".", "85"),
    ("In total, he gets 12 + 6 = 18 questions correct.", "18"),
    (r"Thus, \( \frac{a^2}{b^2} + \frac{b^2}{c^2} = 23 \).", "23"),
    ("So the circle is $x^2 + y^2 = 5$.", "x^2+y^2=5"),
    ("Then find the number of lids (4 / 0.5 pounds a lid = 8 lids).", "8"),
    ("Her share is 40% of US$8,000, which is US$3,200 a year.", "3200"),
]
NOT_STATED = [
    ("The answer is 12, which is even.", "even"),
    ("The correct option is C because A is wrong.", "A"),
    ("So the club needs 6 vans for its 40 members.", "40"),
    ("Rosa would finish first, a minute ahead of Theo.", "Theo"),
    ("Comparing, this is **(D) 5^x = 2**.", r"\text{(C)}"),
    (r"\boxed{SE}", "southwest"),
    ("The answer is not 5.", "5"),
    ("So x = 3 or x = 5.", "3"),
    ("I checked 1331 and 1728.", "1728"),
    ("So there are 86 glasses and 42 plates.", "86"),
    ("Er hat 243,50 US-Dollar ausgegeben.", "243"),
    ("It costs **12,50** in all.", "12"),
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


@pytest.mark.parametrize(("response", "gold", "kind"), [*CORRECT, *((*row, "latex") for row in STATED)])
def test_correct(response, gold, kind):
    tolerance = "1e-1" if gold == "4.2" else None
    found = grade(response, gold, kind, tolerance=tolerance)
    assert found.value is GradeValue.CORRECT, found


@pytest.mark.parametrize(("response", "gold"), NOT_STATED)
def test_not_stated(response, gold):
    found = grade(response, gold)
    assert found.value is GradeValue.WRONG, found


@pytest.mark.parametrize(("response", "gold", "kind", "reason"), WRONG)
def test_wrong(response, gold, kind, reason):
    found = grade(response, gold, kind)
    assert (found.value, found.reason) == (GradeValue.WRONG, reason), found


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
def test_tolerances(gold, answer, tolerance, correct):
    judged = judge(gold, answer, AnswerKind.TOLERANCE, tolerance)
    assert (judged.value is GradeValue.CORRECT) == correct


def test_a_tolerance_holds_for_what_only_algebra_can_work_out():
    with Grader(workers=1) as grader:
        given = (r"\boxed{\sin(1)}", "0.84")
        cases = [GradeCase(*given, AnswerKind.TOLERANCE, tolerance) for tolerance in ("1e-2", "1e-3")]
        grades = [(g.value.value, g.reason) for g in grader.grade_many([*cases, GradeCase(*given)])]
        assert grades == [("correct", "tolerance"), ("wrong", "different"), ("wrong", "different")]


@pytest.mark.parametrize(
    ("gold", "kind"), [("AB", "choice"), ("42", "choice"), ("2.5", "integer"), ("x", "integer")]
)
def test_a_gold_that_is_not_of_its_kind_is_unknown(gold, kind):
    found = grade(r"\boxed{C}", gold, kind)
    assert (found.value, found.reason) == (GradeValue.UNKNOWN, "unparsable")
    assert grade(r"\boxed{C}", " ", kind).reason == "no answer"
    assert grade("", "", kind).value is GradeValue.UNKNOWN


def test_a_box_that_names_no_option_gives_way_to_a_marker_that_does():
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
def test_a_list_of_options_names_them_all(text, letters):
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
def test_where_an_answer_is_found(response, kind, text, source):
    found = find_answer(response, AnswerKind(kind))
    assert (found.text, found.source) == (text, source)
    assert source in SOURCES


def test_with_boxed_only_nothing_but_a_box_is_an_answer():
    last = "He has 3 apples and buys 2 more at the shop, so 3 + 2 = 5 apples."
    for response in ("The answer is 5.", "5", last, "#### 5", rf"<think>\boxed{{5}}</think>{last}"):
        assert find_answer(response, AnswerKind.LATEX, boxed_only=True) is None
        found = grade(response, "5", boxed_only=True)
        assert (found.value, found.extracted, found.reason) == (GradeValue.WRONG, None, "no answer found")
        assert grade(response, "5").value is GradeValue.CORRECT
    assert grade("The answer is 5.", "", boxed_only=True).value is GradeValue.UNKNOWN
    assert grade(r"so \boxed{5}", "5", boxed_only=True).source == "box"
    closing = r"We get \boxed{5}. The final answer is 6."
    assert grade(closing, "6").value is GradeValue.CORRECT
    assert grade(closing, "5", boxed_only=True).value is GradeValue.CORRECT


@pytest.mark.sqlite  # on a server its programs load SQLAlchemy at once
def test_an_easy_case_starts_no_process_and_loads_no_algebra():
    code = (
        "import sys\nfrom evaluator.grading import grade\n"
        "print(grade(r'\\boxed{\\frac{2}{4}}', '0.5').value, grade(r'\\boxed{\\sqrt8}', r'2\\sqrt2').value)\n"
        "print([m for m in ('sympy', 'math_verify', 'sqlalchemy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["correct correct", "[]"]
