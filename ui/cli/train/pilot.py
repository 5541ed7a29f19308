"""What a pilot (an eval run over the neighbor set) says of a training: dead groups, length of responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ui.cli.settings import Db

if TYPE_CHECKING:
    from trainer_adapter.methods.recipes import Recipe


@dataclass(frozen=True)
class Pilot:
    """A pilot's forecast.

    Attributes:
        run: its name.
        no_gradient: predicted shares of groups with equal rewards: `recipe`, `grpo`, `grpo_matched`.
        interval: of the recipe's share, 95%; None where groups of several kinds are averaged.
        mean_tokens: of a response, all prompts of the recipe alike; None where not known.
    """

    run: str
    no_gradient: Mapping[str, float]
    interval: tuple[float, float] | None
    mean_tokens: float | None


def read_pilot(run: str, recipe: "Recipe", assume_shift_sd: float | None, seed: int, db: Db) -> Pilot:
    """Return the forecast of `tagrpo diagnose forecast` for the groups of a recipe.

    Raises:
        InputError: no eval run with grades; or it has no neighbors, and no shift is assumed.
    """
    from evaluator.signal.cost import mean_tokens
    from evaluator.signal.diagnosis import Settings, diagnose
    from evaluator.signal.sources.eval_runs import eval_source
    from evaluator.signal.zero_gradient import JOINT_GROUP, MATCHED_GROUP, NEIGHBOR_GROUP, ORIGINAL_GROUP

    n = recipe.neighbors
    with db.open() as database:
        source = eval_source(database, [run])
    wanted = Settings(g=recipe.responses, n=n, shift_sd=assume_shift_sd, seed=seed)
    [prediction] = diagnose(source, ["forecast"], wanted).predictions
    by_name = {row.shape.name: row for row in prediction.rows}
    alone = by_name[ORIGINAL_GROUP]
    of_original, of_neighbor = mean_tokens(source.checkpoints[0])
    shares = {"grpo": alone.share, "recipe": alone.share}
    interval: tuple[float, float] | None = (alone.low, alone.high)
    if n:
        shares["grpo_matched"] = by_name[MATCHED_GROUP].share
        if recipe.group == "joint":
            joint = by_name[JOINT_GROUP]
            shares["recipe"], interval = joint.share, (joint.low, joint.high)
        else:
            shares["recipe"] = (alone.share + n * by_name[NEIGHBOR_GROUP].share) / (n + 1)
            interval = None
    tokens = of_original
    if n and of_original is not None:
        tokens = None if of_neighbor is None else (of_original + n * of_neighbor) / (n + 1)
    return Pilot(prediction.checkpoint, shares, interval, tokens)
