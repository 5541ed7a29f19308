"""Answers made to hang, crash or bloat a grader; all generated here."""

from __future__ import annotations

from evaluator.grading import GradeCase


def hostile_answers() -> list[str]:
    """Towers of powers, factorials, nested brackets, huge numbers and texts, deep fractions, slow algebra."""
    answers = []
    for base in (2, 9, 10, 99):
        answers += [
            f"{base}^{{{base}^{{{base}^{base}}}}}",
            f"{base}^{{{base}^{{{base}^{{{base}^{{{base}}}}}}}}}",
            f"{base}^{{10^{{10}}}}",
            f"{base}^{{1000000000}}",
            f"({base}^{{100000}})!",
            f"\\sqrt{{{base}^{{{base}^{{99}}}}}}",
        ]
    answers += [f"{number}!" for number in (10**4, 10**6, 10**9, 10**12)]
    answers += ["((((3!)!)!)!)!", "10!!!!!!!!!!", r"\binom{10^9}{5 \cdot 10^8}", r"\binom{100000}{50000}"]
    for depth in (50, 2_000):
        answers += [
            "(" * depth + "1" + ")" * depth,
            "{" * depth + "x" + "}" * depth,
            "[" * depth + "0,1" + "]" * depth,
            r"\left(" * depth + "x" + r"\right)" * depth,
            r"\sqrt{" * depth + "2" + "}" * depth,
            r"\frac{1}{1+" * depth + "1" + "}" * depth,
            r"\frac{1}{" * depth + "x" + "}" * depth,
            "-" * depth + "1",
            "x+" * depth + "1",
            "1," * depth + "2",
            r"\{1,\{2,3\}\}," * depth + "4",
            r"\pm" * depth + "1",
            "x^" * depth + "2",
        ]
    answers += ["1" * 10**length for length in (2, 3, 4, 6)]
    answers += ["0." + "3" * 10**length for length in (2, 3, 6)]
    answers += ["x" * 10**6, " " * 10**6 + "5", "$" * 10**6, "\\" * 10**6, r"\text{a }" * 10**5]
    answers += [
        "1e999999999",
        r"10^{999999999}",
        r"7 \times 10^{123456789}",
        "9" * 50 + "^{" + "9" * 50 + "}",
    ]
    for letters in ("abcd", "abcdefgh"):
        total = "+".join(letters)
        answers += [f"({total})^{{{power}}}=1" for power in (20, 60, 200)]
    answers += [
        r"\int_0^1 \sin(\sin(\sin(x^x))) \cos(x^{\sin x}) dx",
        r"\int_0^\infty \frac{\sin(x^3+\ln(x+1))}{x^{\pi}+e^x} dx",
        r"\sum_{n=1}^{\infty} \frac{\sin(n^n)}{n^n+\cos(n)}",
        r"\sum_{k=0}^{10^9} \binom{10^9}{k}",
        r"\prod_{n=1}^{10^8} (1+\frac{1}{n^2})",
        r"\lim_{x \to 0} \frac{\sin(\tan(x))-\tan(\sin(x))}{x^7}",
        r"x^{17}+x^{13}\sin(x)+e^{x^2}=\tan(x^x)",
        r"\sin(\cos(\tan(\sin(\cos(\tan(x))))))>\ln(\sin(x)+x^5)",
    ]
    return answers


def hostile_cases() -> list[GradeCase]:
    """Each hostile answer against a gold that needs algebra, and every third as a gold itself."""
    cases = []
    for number, answer in enumerate(hostile_answers()):
        cases.append(GradeCase(rf"\boxed{{{answer}}}", r"\sqrt{5}+\sin(1)"))
        if number % 3 == 0:
            cases.append(GradeCase(r"\boxed{x^2+\sin(x)=3}", answer))
    return cases
