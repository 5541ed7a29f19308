"""`tagrpo eval run --dry-run`: what each run will ask and cost."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ui.cli.eval.problems import ProblemSet
from ui.cli.neighbors.estimates import print_estimates
from ui.cli.output import Terminal

if TYPE_CHECKING:
    from evaluator.evals.runs import EvalSpec
    from service.database import Database
    from service.models.estimate import PriceOf


def show_estimates(
    database: "Database | None",
    named: "Sequence[tuple[str, ProblemSet, EvalSpec]]",
    n: int,
    price_of: "PriceOf",
    max_usd: float | None,
    terminal: Terminal,
) -> None:
    """Print what runs of these names will take; without a database there is no trial to scale."""
    from evaluator.evals.running import estimate_eval

    with nullcontext() if database is None else database.read() as session:
        estimates = {
            name: estimate_eval(session, name, spec, problems.taken, n, price_of)
            for name, problems, spec in named
        }
    record = {"runs": [{"run": name, **estimate.to_json()} for name, estimate in estimates.items()]}
    spread = "short responses to ones as long as --max-tokens allows"
    terminal.emit(record, print_estimates, estimates, "problem", spread, max_usd)
