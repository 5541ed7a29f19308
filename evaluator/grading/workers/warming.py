"""Imported by the process that workers are forked from, so that they start with warm parsers and caches."""

from evaluator.grading.compare import Task
from evaluator.grading.workers.worker import run_task

_SAMPLES = (
    (r"\frac{\sin(x)}{2}+\sqrt{3}", r"\frac{\cos(x)}{2}"),
    (r"2\cos(1)", r"\cos(1)+\cos(1)"),
    (r"x^2+y^2=1", r"2x^2+2y^2=2"),
    (r"[0,\ln 2)\cup(3,\infty)", r"[0,\ln 3)\cup(3,\infty)"),
    (r"|x-1|<2", r"x \in (-1,3)"),
    (r"\int_0^1 x dx", r"\log_2 8"),
    (r"f(x)=(a+2b)(x-1)^2+3!", r"|a|+\arctan(2x)-e^{8i\theta}"),
    (r"5\cdot\frac{1}{r_1}+7(k^3+2k)", r"\left(\sin(\frac{3}{\pi})+1\right)\sin^2(3)"),
    (r"\sum_{i=1}^n \binom{n}{i} a_i", r"(2,2+e^2)\cup(9,12]"),
)

for _gold, _answer in _SAMPLES:
    run_task(Task("grade", _gold, _answer))
