"""The agent loop: asks a question and its neighbors, and anchors what is trained on."""

from typing import Any

import numpy as np
from omegaconf import OmegaConf
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from service.engines.images import FORBIDDEN, image_tokens
from service.errors import InputError
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.verl.plugin import ABOUT_FIELD
from trainer_adapter.verl.plugin.checks import check_config
from trainer_adapter.verl.plugin.grading import grade, reward_function
from trainer_adapter.verl.plugin.images.placing import images_of, prompt_text, with_images
from trainer_adapter.verl.plugin.overrides import keeps_log_probs
from trainer_adapter.verl.plugin.sessions import Stages, prompt_of, seed_of, stages_of
from trainer_adapter.verl.plugin.settings import RunSettings, recipe_of, settings_of
from trainer_adapter.verl.reward import CUT_OFF_FIELD

DRAW_FIELD = "tagrpo_draw"
"""Column that the trainer adds to training rows: how often the question was drawn before in this step.

Rows for validation lack it, and are asked unchanged.
"""

_LONGEST_TAG = 8
"""Tokens of `<think>` and a line's end, if they are not tokens of their own."""

_SEED_NAMES = {"sglang": "sampling_seed"}
_checked_configs: list[tuple[Any, Recipe, RunSettings]] = []


class NeighborAgentLoop(SingleTurnAgentLoop):  # type: ignore[misc]
    """Draw one response for the question of a row or one of its neighbors.

    The returned prompt ids are those of the anchor: from them verl computes old, new and reference log-probs.
    Images of a question are also those of its neighbors.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.recipe, self.settings = _checked(self.config)
        self.never_drawn = image_tokens(getattr(self.processor, "config", None))

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any) -> Any:
        """Return the response of session `session_id` to the row in `kwargs`, described in `extra_fields`."""
        trains = self._trains(kwargs)
        session = _session(kwargs, self.recipe.rollouts) if trains else 0
        neighbors = kwargs.get("neighbors") if trains else None
        if trains and neighbors is None and self.recipe.neighbors:
            raise InputError(
                f"recipe {self.recipe.name} needs {self.recipe.neighbors} neighbors per question, but the "
                "training data has no column neighbors. Export the set with --layout grouped."
            )
        usable = 0 if neighbors is None else min(len(neighbors), self.recipe.neighbors)
        if not usable:
            return await self._draw(sampling_params, priority, kwargs, session, 0)
        if self.recipe.sampling == "split":
            variant = prompt_of(session, 1 + usable, self.recipe.rollouts)
            return await self._draw(sampling_params, priority, kwargs, session, variant)
        stages = stages_of(
            str(kwargs["uid"]),
            int(kwargs["global_steps"]),
            lambda: self._begin_stages(sampling_params, priority, kwargs, usable),
        )
        if stages.is_first(session):
            return await stages.response(session)
        variant = await stages.prompt(session)
        return await self._draw(sampling_params, priority, kwargs, session, variant)

    def _trains(self, row: dict[str, Any]) -> bool:
        """Return whether a row is for training: verl's own trainer marks none, but exports name the split."""
        if self.settings.trainer == "tagrpo":
            return DRAW_FIELD in row
        about = row.get("extra_info")
        return isinstance(about, dict) and about.get("split") == "train"

    def _begin_stages(
        self, params: dict[str, Any], priority: int, row: dict[str, Any], usable: int
    ) -> Stages:
        reward = reward_function(self.config)
        return Stages(
            self.recipe.rollouts,
            usable,
            None if self.settings.seed is None else self._seed(row, self.recipe.rollouts),
            lambda session: self._draw(params, priority, {**row, "session_id": session}, session, 0),
            lambda outputs: grade(reward, self.tokenizer, outputs, row),
        )

    def _seed(self, row: dict[str, Any], session: int) -> int:
        step, draw = int(row.get("global_steps", 0)), int(row.get(DRAW_FIELD, 0))
        return seed_of(self.settings.seed or 0, step, question_id(row), draw, session)

    async def _draw(
        self, sampling_params: dict[str, Any], priority: int, row: dict[str, Any], session: int, variant: int
    ) -> Any:
        """Draw the response of a session for the row's question or, from `variant` 1 on, a neighbor."""
        question, training = list(row["raw_prompt"]), self._trains(row)
        images = images_of(question)
        asked = question if variant == 0 else with_images(row["neighbors"][variant - 1], images)
        params = dict(sampling_params)
        if self.never_drawn:  # a response with one would have fewer images than placeholders
            params["logit_bias"] = dict.fromkeys(sorted(self.never_drawn), FORBIDDEN)
        if training:
            params["logprobs"] = True
        seeded = self.settings.seed is not None and "global_steps" in row  # verl's V0 trainer names no step
        if seeded and params.get("temperature", 1.0) != 0:
            engine = self.config.actor_rollout_ref.rollout.name
            params[_SEED_NAMES.get(engine, "seed")] = self._seed(row, session)
        output = await super().run(params, priority, **{**row, "raw_prompt": asked})
        if len(output.response_ids) >= self.response_length:
            end = self.tokenizer.decode(output.prompt_ids[-_LONGEST_TAG:])
            output.extra_fields[CUT_OFF_FIELD] = end.rstrip().endswith("<think>")
        if not training:
            return output
        output.extra_fields[ABOUT_FIELD] = {
            **_described(row, variant),
            "foreign": variant > 0 and self.recipe.anchor != "own",  # drawn for another prompt
            "question_id": question_id(row),
            "session": session,
            "weights_version": output.extra_fields.get("global_steps"),
            "prompt_ids": np.asarray(output.prompt_ids, dtype=np.int32),
            "log_probs": None
            if output.response_logprobs is None
            else np.asarray(output.response_logprobs, dtype=np.float32),
        }
        if self.settings.trainer == "verl" and self.settings.record:
            output.extra_fields[ABOUT_FIELD] |= self._texts_for_record(output, row)
        if variant and self.recipe.anchor != "own":
            pictured = {"images": images} if images else {}  # which verl 0.9.0 does not take
            output.prompt_ids = await self.ct_build_initial_tokens(question, **pictured)
        if not keeps_log_probs(self.recipe):
            output.response_logprobs = None
        return output

    def _texts_for_record(self, output: Any, row: dict[str, Any]) -> dict[str, Any]:
        """Return what verl's own trainer leaves to the reward function to record."""
        # Not above: the database comes with it, and this module is loaded in every process of verl.
        from trainer_adapter.record.rollout import is_recorded

        if not is_recorded(question_id(row), self.settings.record_share):
            return {}
        ids, version = output.response_ids, output.extra_fields.get("global_steps")
        return {
            "uid": str(row["uid"]),
            "step": int(row["global_steps"]) if "global_steps" in row else int(version or 0) + 1,
            "prompt": prompt_text(self.tokenizer, output.prompt_ids, self.never_drawn),
            "tokens": len(ids),
            "truncated": len(ids) >= self.response_length and ids[-1] != self.tokenizer.eos_token_id,
        }


_counted: dict[str, int] = {}
"""Responses begun per question, where verl numbers none; a question that has all is forgotten."""


def _session(row: dict[str, Any], rollouts: int) -> int:
    """Return the number of a response among those of its question: verl's, or counted in this process."""
    if "session_id" in row:
        return int(row["session_id"])
    uid = str(row.get("uid"))
    session = _counted.pop(uid, 0)
    if session + 1 < rollouts:
        _counted[uid] = session + 1
    return session


def question_id(row: Any) -> str:
    """Return the exported id of the row's question; without one, its number in the file."""
    about = row.get("extra_info")
    named = about.get("question_id") if isinstance(about, dict) else None
    return str(named if named is not None else row.get("index", row.get("uid")))


def questions_of(batch: Any) -> list[str]:
    """Return the ids of the questions of a batch of verl's prompts."""
    names = [name for name in ("extra_info", "index", "uid") if name in batch]
    rows = ({name: batch[name][row] for name in names} for row in range(len(batch)))
    return [question_id({name: getattr(value, "data", value) for name, value in row.items()}) for row in rows]


def _described(row: Any, variant: int) -> dict[str, Any]:
    """Return the sampled prompt: of a row that contains neighbors, or of a flat export's row."""
    about = row.get("extra_info") or {}
    if "variant" in about:
        return {name: about.get(name) for name in ("variant", "neighbor_id", "strategy")}
    columns = {"neighbor_id": row.get("neighbor_ids"), "strategy": about.get("neighbor_strategies")}
    named = {name: values[variant - 1] if variant and values else None for name, values in columns.items()}
    return {"variant": variant, **named}


def _checked(config: Any) -> tuple[Recipe, RunSettings]:
    """Return the recipe and settings of the config, checked once per process: a loop is made per response."""
    for checked, recipe, settings in _checked_configs:
        if checked is config:
            return recipe, settings
    plain: Any = OmegaConf.to_container(config, resolve=True)
    recipe = recipe_of(plain)
    settings = settings_of(plain)
    check_config(plain, recipe, settings)
    _checked_configs[:] = [(config, recipe, settings)]
    return recipe, settings
