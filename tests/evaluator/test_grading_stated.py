"""What a response states without a box: shapes that models write, in made-up sentences."""

import pytest

from evaluator.grading import GradeValue, grade


@pytest.mark.parametrize(
    ("response", "gold"),
    [
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
        ("The derivative's leading term is x<sup>4</sup>.", "x^4"),
        (r"\boxed{\{2\pm\sqrt7, 0\}}", r"\{0, 2-\sqrt7, 2+\sqrt7\}"),
        (r"\boxed{{2±√7, 0}}", r"\{0, 2-\sqrt7, 2+\sqrt7\}"),
        ("so the answer: {2±√7, 0}", r"\{0, 2-\sqrt7, 2+\sqrt7\}"),
        ("Comparing, this is **(D) 5^x = 2**.", r"\text{(D)}"),
        (r"\boxed{SW}", "southwest"),
        ("Er hat 243,50 US-Dollar ausgegeben.", "243.5"),
        ("It costs **12,50** in all.", "12.5"),
        ("Sie zahlt 12,75 Euro.", "12.75"),
        ("Sie zahlt 20,00 Euro.", "20"),
        ("The numbers are 3, 5 and 7.", "3, 5, 7"),
        (r"\boxed{SW}", r"\text{southwest}"),
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
        ("So it takes 135 minutes, or 2 hours and 15 minutes.", "135"),
        (r"So Nina is paid \(\$\)54 for the week.", "54"),
        ("Paying $12 for the ticket leaves him with $9.", "9"),
        ("Thus, out of the 3,000 lamps, 45 lamps are both red and broken.", "45"),
        ("He has 90 beads, so if he makes strings for friends, he uses 90 / 6 = 15 beads a string.", "15"),
        ("Answer: The bag weighs 3400g.", "3400"),
        ("The answer is 4g.", "4g"),
        ("so $3 - 2 = \x08oxed{\x0crac{1}{4}}$.", r"\frac14"),
        ("Answer: 7 crates are needed to carry 90 melons in one go.", "7"),
        (r"so the answer is \"85\".", "85"),
        ("In total, he gets 12 + 6 = 18 questions correct.", "18"),
        (r"Therefore, $3^{2n} - 5 \equiv 9 - 5 \equiv 4 \pmod{7}$.", "4"),
        (r"Thus, \( \frac{a^2}{b^2} + \frac{b^2}{c^2} = 23 \).", "23"),
        ("So the circle is $x^2 + y^2 = 5$.", "x^2+y^2=5"),
        ("Then find the number of lids (4 / 0.5 pounds a lid = 8 lids).", "8"),
        ("Her share is 40% of US$8,000, which is US$3,200 a year.", "3200"),
    ],
)
def test_stated(response: str, gold: str) -> None:
    found = grade(response, gold)
    assert found.value is GradeValue.CORRECT, found


@pytest.mark.parametrize(
    ("response", "gold"),
    [
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
    ],
)
def test_not_stated(response: str, gold: str) -> None:
    found = grade(response, gold)
    assert found.value is GradeValue.WRONG, found


def test_nothing_but_a_box_counts_where_only_boxes_do() -> None:
    assert grade(r"so \boxed{5}", "5", boxed_only=True).source == "box"
    for response in ("The answer is 5.", "5", "So 5 jars are left.", ""):
        found = grade(response, "5", boxed_only=True)
        assert (found.value, found.reason, found.extracted) == (GradeValue.WRONG, "no answer found", None)
    closing = r"We get \boxed{5}. The final answer is 6."
    assert (grade(closing, "6").value, grade(closing, "5", boxed_only=True).value) == (
        GradeValue.CORRECT,
    ) * 2
