"""pass@k and related metrics, with intervals named by the question they answer."""

from evaluator.passk.comparison import Comparison, ComparisonPoint, compare, holm
from evaluator.passk.counts import Counts, pool
from evaluator.passk.curves import curve
from evaluator.passk.estimators import (
    g_pass_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_hat_k,
    with_replacement,
)
from evaluator.passk.intervals import (
    NEW_PROBLEMS,
    RERUN,
    SAME_PROBLEMS,
    new_problems_interval,
    same_problems_interval,
)
from evaluator.passk.majority import maj_at_k

__all__ = [
    "NEW_PROBLEMS",
    "RERUN",
    "SAME_PROBLEMS",
    "Comparison",
    "ComparisonPoint",
    "Counts",
    "compare",
    "curve",
    "g_pass_at_k",
    "holm",
    "maj_at_k",
    "mg_pass_at_k",
    "new_problems_interval",
    "pass_at_k",
    "pass_hat_k",
    "pool",
    "same_problems_interval",
    "with_replacement",
]
