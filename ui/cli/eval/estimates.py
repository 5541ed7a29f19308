"""`tagrpo eval run --dry-run`: what each run will ask and cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ui.cli import output
from ui.cli.eval.problems import ProblemSet
from ui.cli.neighbors.estimates import print_cap, print_estimate
from ui.cli.output import Terminal

if TYPE_CHECKING:
    from evaluator.evals.runs import EvalSpec
    from service.database import Database
    from service.models.estimate import Estimate, PriceOf


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

    estimates = []
    for name, problems, spec in named:
        if database is None:
            estimates.append((name, estimate_eval(None, name, spec, problems.taken, n, price_of)))
            continue
        with database.read() as session:
            estimates.append((name, estimate_eval(session, name, spec, problems.taken, n, price_of)))
    record = {"runs": [{"run": name, **estimate.to_json()} for name, estimate in estimates]}
    terminal.emit(record, _print, estimates, max_usd)


def _print(estimates: "Sequence[tuple[str, Estimate]]", max_usd: float | None) -> None:
    for name, estimate in estimates:
        output.heading(name)
        print_estimate(estimate, "problem", "short responses to ones as long as --max-tokens allows")
    print_cap([estimate for _, estimate in estimates], max_usd)
    output.say("Nothing was sent or stored.")
