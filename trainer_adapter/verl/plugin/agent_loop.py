"""The agent loop: asks a question and its neighbors, and anchors what is trained on."""

from typing import Any

import numpy as np
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.verl.plugin.checks import check_config
from trainer_adapter.verl.plugin.overrides import keeps_log_probs
from trainer_adapter.verl.plugin.settings import RunSettings, recipe_of, settings_of
from trainer_adapter.verl.plugin.splitting import prompt_of, seed_of

DRAW_FIELD = "tagrpo_draw"
"""Column the trainer adds to rows for training: how often the question was drawn before in this step.

Rows for validation have none, and are asked as they are.
"""

ABOUT_FIELD = "tagrpo"
"""What the loop adds to a response's `extra_fields`."""

_SEED_NAMES = {"sglang": "sampling_seed"}
_checked_configs: list[tuple[Any, Recipe, RunSettings]] = []


class NeighborAgentLoop(SingleTurnAgentLoop):  # type: ignore[misc]
    """Draws one response for the question of a row or one of its neighbors.

    verl asks for `rollout.n` responses a row by their session number. The prompt ids it returns are those of
    the anchor: from them verl computes old, new and reference log-probs alike.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.recipe, self.settings = _checked(self.config)

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any) -> AgentLoopOutput:
        """Return the response of session `session_id` to the row in `kwargs`.

        `extra_fields` gets `variant` (0 for the question, k for its k-th neighbor), `question_id`,
        `neighbor_id`, `strategy`, `draw`, `session`, the ids of the prompt that was asked, and the log-probs
        of sampling.
        """
        question, session = list(kwargs["raw_prompt"]), int(kwargs["session_id"])
        training = DRAW_FIELD in kwargs
        neighbors = kwargs.get("neighbors")
        usable = [] if neighbors is None or not training else list(neighbors)[: self.recipe.neighbors]
        variant = prompt_of(session, 1 + len(usable), self.recipe.rollouts) if usable else 0
        asked = question if variant == 0 else list(usable[variant - 1])
        identity, draw = question_id(kwargs), int(kwargs.get(DRAW_FIELD, 0))
        params = dict(sampling_params)
        if training:
            params["logprobs"] = True
        if self.settings.seed is not None and params.get("temperature", 1.0) != 0:
            name = _SEED_NAMES.get(self.rollout_config.name, "seed")
            params[name] = seed_of(
                self.settings.seed, int(kwargs.get("global_steps", 0)), identity, draw, session
            )
        output = await super().run(params, priority, **{**kwargs, "raw_prompt": asked})
        if not training:
            return output
        output.extra_fields[ABOUT_FIELD] = {
            **_described(kwargs, variant),
            "question_id": identity,
            "draw": draw,
            "session": session,
            "prompt_ids": np.asarray(output.prompt_ids, dtype=np.int32),
            "log_probs": None
            if output.response_logprobs is None
            else np.asarray(output.response_logprobs, dtype=np.float32),
        }
        if variant and self.recipe.anchor != "own":
            output.prompt_ids = await self.ct_build_initial_tokens(question)
        if not keeps_log_probs(self.recipe):
            output.response_logprobs = None
        return output


def question_id(row: Any) -> str:
    """Return the id of the row's question, as exported; its number in the file where it has none."""
    about = row.get("extra_info")
    named = about.get("question_id") if isinstance(about, dict) else None
    return str(named if named is not None else row.get("index", row.get("uid")))


def _described(row: Any, variant: int) -> dict[str, Any]:
    """Return which prompt was asked: of a row with neighbors in it, or of one of a flat export."""
    extra = row.get("extra_info")
    about = extra if isinstance(extra, dict) else {}
    if "variant" in about:
        return {
            "variant": int(about["variant"]),
            "neighbor_id": about.get("neighbor_id"),
            "strategy": about.get("strategy"),
        }
    columns = {"neighbor_id": row.get("neighbor_ids"), "strategy": about.get("neighbor_strategies")}
    return {
        "variant": variant,
        **{
            name: None if variant == 0 or values is None else values[variant - 1]
            for name, values in columns.items()
        },
    }


def _checked(config: Any) -> tuple[Recipe, RunSettings]:
    """Return what the configuration carries, read and checked once a process: a loop is made per response."""
    for checked, recipe, settings in _checked_configs:
        if checked is config:
            return recipe, settings
    plain: Any = OmegaConf.to_container(config, resolve=True)
    recipe = recipe_of(plain)
    check_config(plain, recipe)
    _checked_configs[:] = [(config, recipe, settings_of(plain))]
    return recipe, _checked_configs[0][2]
