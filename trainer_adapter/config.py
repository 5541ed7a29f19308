"""The config of `tagrpo train run`: a recipe and its changes, the data, the machine, settings for verl."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from service.config import FREE, OPERATIONAL, Config, operational
from trainer_adapter.methods.recipes import (
    Aggregation,
    AnchorAxis,
    FilterAxis,
    GroupAxis,
    KlEstimator,
    RewardAxis,
    SamplingAxis,
)
from trainer_adapter.verl.export_config import SetRows
from trainer_adapter.verl.plugin.overrides import hydra_arguments, leaves
from trainer_adapter.verl.plugin.settings import PlugInSettings


class LossConfig(Config):
    """Changes to the loss of the recipe."""

    surrogate: str | None = Field(None, description="Policy loss per token: a name, or module:function.")
    clip_low: float | None = Field(None, description="Importance ratios are clipped at 1 minus this.")
    clip_high: float | None = Field(None, description="Importance ratios are clipped at 1 plus this.")
    dual_clip: float | Literal["none"] | None = None
    """Dual-clip bound on the loss for negative advantages, or none."""
    aggregation: Aggregation | None = Field(None, description="How token losses are aggregated.")
    kl_coef: float | None = Field(None, description="Weight of the KL penalty; 0 loads no reference policy.")
    kl: KlEstimator | None = Field(None, description="Estimator of the KL penalty, by its name in verl.")


class RecipeConfig(Config):
    """The training method: a recipe, and the axes that you change about it.

    An axis that is not set has the value of the recipe.
    """

    leading: ClassVar[str] = "name"

    name: str = Field(description="Name from `tagrpo train recipes`, or a TOML file.")
    title: str | None = None
    """Name of the changed recipe; by default with the changes, as ta_grpo[anchor=own]."""
    neighbors: int | None = Field(None, description="Number of neighbors sampled per question (N).")
    responses: int | None = Field(None, description="Responses per prompt (G); (N + 1) G per question.")
    sampling: SamplingAxis | None = None
    """split: sample all prompts; rescue: sample neighbors only of all-wrong questions."""
    group: GroupAxis | None = None
    """joint: the responses to a question and all its neighbors form one group; prompt: the responses to each
    prompt form a separate group."""
    advantage: str | None = Field(None, description="Advantage formula: a name, or module:function.")
    alpha: float | None = None
    """For A-GRAE: mean batch reward at which positive advantages reach full weight."""
    beta: float | None = Field(None, description="For A-GRAE's controls: factor or divisor.")
    k: int | None = Field(None, description="For advantage=pass_k: responses per set.")
    temperature: float | None = None
    """For advantage=dgpo: temperature of the question weights."""
    weight: float | None = None
    """For advantage=w_reinforce: advantage of a correct response."""
    settings: dict[str, int | float] = Field(default_factory=dict)
    """Settings of a custom advantage, as settings.NAME=VALUE."""
    weights: Literal["none"] | str | None = None
    """Token weights: none, a name, or module:function."""
    anchor: AnchorAxis | None = None
    """Prompt on which log-probs are conditioned, and any weight for prompt mismatch."""
    filter: FilterAxis | None = Field(None, description="How to handle groups without a gradient.")
    reward: RewardAxis | None = Field(None, description="Reward function.")
    loss: LossConfig = Field(default_factory=LossConfig)

    def changes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the axes that are set, and those of the loss."""
        axes, loss = ({key: value for key, value in each if value is not None} for each in (self, self.loss))
        axes = {key: value for key, value in axes.items() if key not in ("name", "title", "settings", "loss")}
        return {**axes, **self.settings}, loss


class TrainConfig(SetRows):
    """Train with verl, from a neighbor set to checkpoints."""

    rest: ClassVar[str] = "recipe"
    verb: ClassVar[str] = "train"

    recipe: RecipeConfig
    model: str | None = Field(None, description="Policy to train: a folder or Hub name.")
    set: str | None = Field(None, description="Neighbor set NAME@VERSION, which tagrpo exports for this run.")
    data: Path | None = None
    """Folder written by `tagrpo sets export --format verl`, instead of a set."""
    preset: Literal["ta", "a_grae", "a_grae-geo3k", "a_grae-medical", "cw"] = "ta"
    """Settings of a paper (TA-GRPO, A-GRAE or CW-GRPO), for any recipe."""
    name: str | None = Field(None, description="Name of the run; by default RECIPE-MODEL.")
    folder: Path | None = Field(None, description="Folder of the run; by default runs/NAME.")
    prompt_file: Path | None = None
    """Used only with set: file with the prompt's instruction. It replaces the preset's instruction (below the
    question, or as the system message)."""
    gpus: int = Field(1, ge=1, description="Number of GPUs per node.")
    nodes: int = Field(1, ge=1, description="Number of nodes in the Ray cluster.")
    cpu: bool = Field(False, description="Train on the CPU in float32, for trials with tiny models.")
    ray_address: str | None = operational(None)
    """Running Ray cluster to use (auto on its head node); by default verl starts its own."""
    run: PlugInSettings = Field(default_factory=PlugInSettings)
    verl: tuple[str, ...] = Field((), json_schema_extra=FREE | OPERATIONAL)
    """Overrides of verl's config in Hydra syntax, such as trainer.save_freq=5; in a file also as a table. On
    the command line, write verl.trainer.save_freq=5, or verl.+KEY=VALUE to add a key. When resuming, only
    overrides that do not shape results may change."""

    @field_validator("verl", mode="before")
    @classmethod
    def _spell(cls, given: Sequence[Any]) -> Any:
        """Spell tables as Hydra wants them."""
        texts = (
            hydra_arguments(dict(leaves(each))) if isinstance(each, Mapping) else [each] for each in given
        )
        return tuple(chain.from_iterable(texts))

    @model_validator(mode="after")
    def _check(self) -> "TrainConfig":
        if self.set is not None and self.data is not None:
            raise ValueError("give a neighbor set with --set, or an export with --data, not both.")
        if self.cpu and self.devices > 1:
            raise ValueError("--cpu uses one machine and one process. Remove --gpus and --nodes.")
        fields, of_set = type(self).model_fields, (*SetRows.model_fields, "prompt_file")
        given = [name for name in of_set if getattr(self, name) != fields[name].default]
        if self.data is not None and given:
            raise ValueError(
                f"{', '.join(given)}: only for --set. An export already contains its prompts and answers: "
                "give system, instruction and answer_kind to `tagrpo sets export`."
            )
        return self

    @property
    def devices(self) -> int:
        """GPUs of all nodes; 1 on the CPU."""
        return self.gpus * self.nodes

    @property
    def machine(self) -> dict[str, Any]:
        """The settings that say where verl runs."""
        return {name: getattr(self, name) for name in ("gpus", "nodes", "cpu", "ray_address")}


class PlanAssumptions(Config):
    """What `train plan` cannot know."""

    gpu_memory_gib: float = Field(80.0, ge=1, le=10_000, description="Memory of one GPU in GiB.")
    tokens_per_second: float | None = Field(None, gt=0)
    """Tokens that one GPU generates per second."""
    training_tflops: float | None = Field(None, gt=0, description="Training speed of one GPU in TFLOP/s.")
    mean_tokens: float | None = Field(None, gt=0)
    """Mean tokens per response; by default as in the pilot."""
    shift_sd: float | None = Field(None, ge=0)
    """Assumed spread of neighbor difficulty (logits), for a pilot without neighbors."""
    seed: int = Field(0, ge=0, description="Random seed of the forecast.")
