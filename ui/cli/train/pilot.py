"""What a pilot (an eval run over the neighbor set) says of a training: dead groups, length of responses."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.signal.forecast import Forecast
    from trainer_adapter.methods.recipes import Recipe


@dataclass(frozen=True)
class Pilot:
    """A pilot's forecast.

    Attributes:
        run: its name.
        forecast: for groups of any shape.
        interval: of the share of dead groups of the recipe, 95%; None where its groups are of several kinds.
        mean_tokens: of a response, all prompts of the recipe alike; None where not known.
    """

    run: str
    forecast: "Forecast"
    interval: tuple[float, float] | None
    mean_tokens: float | None

    def no_gradient(self, recipe: "Recipe") -> float:
        """Return the predicted share of a recipe's groups with equal rewards."""
        from trainer_adapter.plans.compute import dead_share

        return dead_share(self.forecast, recipe)


def read_pilot(run: str, recipe: "Recipe", assume_shift_sd: float | None, seed: int, db: Db) -> Pilot:
    """Return the forecast of `tagrpo diagnose --only forecast` for the groups of a recipe.

    Raises:
        InputError: no eval run with grades; or it has no neighbors, and no shift is assumed.
    """
    from evaluator.signal.cost import mean_tokens
    from evaluator.signal.diagnosis import DiagnosisSettings, diagnose
    from evaluator.signal.sources.eval_runs import eval_source
    from trainer_adapter.plans.compute import group_shape

    n = recipe.neighbors
    with db.open() as database:
        source = eval_source(database, [run])
    wanted = DiagnosisSettings(g=recipe.responses, n=n, shift_sd=assume_shift_sd, seed=seed)
    [prediction] = diagnose(source, ["forecast"], wanted).predictions
    of_original, of_neighbor = mean_tokens(source.checkpoints[0])
    shape = group_shape(recipe)
    row = None if shape is None else prediction.forecast.row(shape)
    tokens = of_original
    if n and of_original is not None:
        tokens = None if of_neighbor is None else (of_original + n * of_neighbor) / (n + 1)
    return Pilot(
        prediction.checkpoint, prediction.forecast, None if row is None else (row.low, row.high), tokens
    )
