"""pass@k and related metrics, with intervals named by the question they answer."""

from evaluator.passk.comparison import Comparison as Comparison
from evaluator.passk.comparison import compare as compare
from evaluator.passk.comparison import holm as holm
from evaluator.passk.counts import Counts as Counts
from evaluator.passk.counts import curve as curve
from evaluator.passk.counts import pool as pool
from evaluator.passk.estimators import g_pass_at_k as g_pass_at_k
from evaluator.passk.estimators import mg_pass_at_k as mg_pass_at_k
from evaluator.passk.estimators import pass_at_k as pass_at_k
from evaluator.passk.estimators import pass_hat_k as pass_hat_k
from evaluator.passk.intervals import NEW_PROBLEMS as NEW_PROBLEMS
from evaluator.passk.intervals import RERUN as RERUN
from evaluator.passk.intervals import SAME_PROBLEMS as SAME_PROBLEMS
from evaluator.passk.intervals import new_problems_interval as new_problems_interval
from evaluator.passk.majority import maj_at_k as maj_at_k
