r"""Settings of a paper's experiments, apart from its method: any recipe can be trained with any of them.

Sources: [TA] arXiv 2601.22478 v5, [AG] A-GRAE, arXiv 2602.05548, [CW] CW-GRPO, arXiv 2605.11538, and the
public code of each where the paper says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.methods.registry import settings_of_advantage
from trainer_adapter.runs.settings import VerlSetting
from trainer_adapter.verl.prompts import DEFAULT_INSTRUCTION, PromptTemplate

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_G = 8
"""Responses to a prompt that recipes have; a preset with another number scales all of a recipe's by it."""


@dataclass(frozen=True)
class TrainPreset:
    """What a paper trains with, whatever the method."""

    name: str  # as `--preset` takes it
    summary: str  # whose it is
    settings: tuple[VerlSetting, ...]  # for verl; of two with one key the last counts
    prompt_words: str  # where the paper's own words of the prompt stand
    models: tuple[str, ...]  # that the paper trains, by their names on the Hub
    instruction: str = ""  # below the question, in our words
    system: str | None = None  # the system message, in our words; None for none
    responses: int = _G  # G, of each prompt
    kl_coef: float | None = None  # of recipes that have a KL term; None leaves theirs
    reward: str | None = None  # of recipes whose reward is binary; None leaves it
    alpha: float | None = None  # of A-GRAE's recipes; None leaves it
    oddity: str | None = None  # of its reward, which a user should know of; None for none

    def value(self, key: str) -> Any:
        """Return the preset's value of a key of verl."""
        return next(setting.value for setting in reversed(self.settings) if setting.name == key)

    def changes(self, recipe: Recipe, advantage: str | None = None) -> dict[str, Any]:
        """Return what the preset changes on the axes of a recipe; nothing on those of a user's own file."""
        if RECIPES.get(recipe.name) is not recipe:
            return {}
        changed: dict[str, Any] = {}
        if self.responses != _G:
            changed["responses"] = recipe.responses * self.responses // _G
        if self.reward is not None and recipe.reward == "binary":
            changed["reward"] = self.reward
        settings = settings_of_advantage(advantage) if advantage else recipe.settings
        if self.alpha is not None and "alpha" in settings:
            changed["alpha"] = self.alpha
        if self.kl_coef is not None and recipe.loss.kl_coef > 0:
            changed["loss"] = {"kl_coef": self.kl_coef}
        return changed

    def applied(self, recipe: Recipe, changes: Mapping[str, Any] | None = None) -> Recipe:
        """Return the recipe with the preset's axes, and above them with `changes`, the user's."""
        given = dict(changes or {})
        own = self.changes(recipe, given.get("advantage"))
        loss = {**own.pop("loss", {}), **given.pop("loss", {})}
        try:
            return compose(recipe, {**own, **given, "loss": loss})
        except InputError as error:
            if not own:
                raise
            spelled = " ".join(f"{key}={value}" for key, value in own.items())
            key = next(reversed(own))
            value = {**vars(recipe), **recipe.settings}[key]
            raise InputError(
                f"{error} --preset {self.name} sets {spelled}. To change it, add an override after the "
                f"recipe's name, such as {key}={value}."
            ) from error

    def prompt(self, words: str | None = None, **template: Any) -> PromptTemplate:
        """Return how questions are asked: in `words`, where the paper has its own, else in ours."""
        asked = PromptTemplate(self.instruction, self.system, **template)
        if words is None:
            return asked
        return replace(asked, instruction=words) if self.system is None else replace(asked, system=words)


_TA = TrainPreset(
    "ta",
    "TA-GRPO (arXiv 2601.22478)",
    (
        VerlSetting("data.max_prompt_length", 512, "Table 2"),
        VerlSetting("data.max_response_length", 3072, "Table 2"),
        VerlSetting("data.train_batch_size", 256, "Table 2", "questions, each with (N+1)G responses"),
        VerlSetting(f"{_ACTOR}.ppo_mini_batch_size", 128, "Table 2", "questions per update"),
        VerlSetting(f"{_ACTOR}.optim.lr", 1e-6, "Table 2"),
        VerlSetting(f"{_ROLLOUT}.temperature", 1.0, "Table 2"),
        VerlSetting("trainer.total_epochs", 2, "Table 2"),
        VerlSetting(f"{_ACTOR}.optim.lr_scheduler_type", "cosine", "v1 runs"),
        VerlSetting(f"{_ACTOR}.optim.lr_warmup_steps_ratio", 0.1, "v1 runs"),
    ),
    "Box 2 of its Appendix A, below the question",
    (
        "Qwen/Qwen3-1.7B",
        "Qwen/Qwen3-4B",
        "meta-llama/Llama-3.2-1B-Instruct",
        "meta-llama/Llama-3.2-3B-Instruct",
    ),
    instruction=DEFAULT_INSTRUCTION,
)

_A_GRAE = TrainPreset(
    "a_grae",
    "A-GRAE (arXiv 2602.05548), its experiments on MATH",
    (
        VerlSetting("data.max_prompt_length", 1024, "AG code"),
        VerlSetting("data.max_response_length", 2048, "AG C.2", "the paper's scripts have 3,072"),
        VerlSetting("data.train_batch_size", 1024, "AG 4.1", "questions"),
        VerlSetting(f"{_ACTOR}.ppo_mini_batch_size", 256, "AG 4.1", "questions per update"),
        VerlSetting(f"{_ACTOR}.optim.lr", 1e-6, "AG 4.1"),
        VerlSetting(f"{_ROLLOUT}.temperature", 1.0, "AG C.2"),
        VerlSetting("trainer.total_epochs", 20, "AG C.2"),
        VerlSetting(f"{_ACTOR}.optim.lr_scheduler_type", "constant", "AG code", "verl's default there"),
        VerlSetting(f"{_ACTOR}.optim.lr_warmup_steps_ratio", 0.0, "AG code", "as above"),
    ),
    "its Appendix C.2, as the system message",
    ("Qwen/Qwen2.5-Math-7B", "meta-llama/Llama-3.2-3B-Instruct", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"),
    system="Reason in steps, then give the final answer inside \\boxed{}.",
    kl_coef=0.0,
)

_A_GRAE_GEO3K = replace(
    _A_GRAE,
    name="a_grae-geo3k",
    summary="A-GRAE (arXiv 2602.05548), its experiments on Geometry3K, which has images",
    settings=(
        *_A_GRAE.settings,
        VerlSetting(
            "data.max_prompt_length", 1024, "ours", "the paper does not state it; images are included"
        ),
        VerlSetting("data.max_response_length", 2048, "AG C.2"),
        VerlSetting("data.train_batch_size", 512, "AG C.2", "questions"),
        VerlSetting(f"{_ACTOR}.ppo_mini_batch_size", 128, "ours", "a quarter, as on MATH"),
        VerlSetting(f"{_ACTOR}.optim.lr", 1e-6, "AG C.2"),
    ),
    models=("Qwen/Qwen2.5-VL-3B-Instruct",),
    system=(
        "The question names options. Think first, to yourself, between <think> and </think>; then give the "
        "option that you choose inside \\boxed{}."
    ),
    responses=5,
    reward="accuracy_10_format_90",
    alpha=0.5,
    oddity="the paper prints 0.1 for accuracy and 0.9 for format, which look swapped; "
    "reward=accuracy_90_format_10 uses the reverse",
)

_A_GRAE_MEDICAL = replace(
    _A_GRAE_GEO3K,
    name="a_grae-medical",
    summary="A-GRAE (arXiv 2602.05548), its experiments on medical images",
    settings=(
        *_A_GRAE_GEO3K.settings,
        VerlSetting("data.train_batch_size", 32, "AG C.2", "questions"),
        VerlSetting(f"{_ACTOR}.ppo_mini_batch_size", 8, "ours", "a quarter, as on MATH"),
        VerlSetting("trainer.total_epochs", 10, "AG C.2"),
    ),
)

_CW = TrainPreset(
    "cw",
    "CW-GRPO (arXiv 2605.11538)",
    (
        VerlSetting("data.max_prompt_length", 512, "CW Table 5"),
        VerlSetting("data.max_response_length", 4096, "CW Table 5"),
        VerlSetting("data.train_batch_size", 12, "CW Table 5", "used as the number of questions per update"),
        VerlSetting(f"{_ACTOR}.ppo_mini_batch_size", 12, "CW Table 5", "one update per batch"),
        VerlSetting(f"{_ACTOR}.optim.lr", 1e-6, "CW Table 5"),
        VerlSetting(f"{_ROLLOUT}.temperature", 0.7, "CW Table 5"),
        VerlSetting("trainer.total_training_steps", 100, "CW Table 5"),
        VerlSetting("trainer.total_epochs", 100, "ours", "enough epochs for 100 steps"),
        VerlSetting(f"{_ACTOR}.optim.lr_warmup_steps_ratio", 0.1, "CW Table 5"),
        VerlSetting(f"{_ACTOR}.optim.lr_scheduler_type", "cosine", "CW code"),
        VerlSetting(f"{_ACTOR}.optim.min_lr_ratio", 0.1, "CW code"),
    ),
    "Figure 4 of its Appendix B, as the system message",
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "Qwen/Qwen2.5-Math-7B-Instruct"),
    system="You solve problems that a user poses. Think first, between <think> and </think>; then answer, "
    "between <answer> and </answer>, with the result inside \\boxed{}. Write English only.",
    responses=12,
    kl_coef=0.04,
    reward="accuracy_format",
)

PRESETS: dict[str, TrainPreset] = {
    preset.name: preset for preset in (_TA, _A_GRAE, _A_GRAE_GEO3K, _A_GRAE_MEDICAL, _CW)
}
"""Every preset by name."""

DEFAULT = "ta"
