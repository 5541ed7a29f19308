"""Checks before verl starts: packages, machine, settings, and prompts that fit the data."""

import contextlib
import importlib.util
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError, TagrpoError
from trainer_adapter.plans.memory import GIB, plan_memory
from trainer_adapter.runs.assignments import Override, updates_of_a_batch
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.data import TrainingData
from trainer_adapter.runs.model_sizes import find_shape
from trainer_adapter.runs.presets import DEFAULT
from trainer_adapter.verl.export import prompts_of, read_rows
from trainer_adapter.verl.hooks import Hook
from trainer_adapter.verl.image_prompts import load_processor, prompt_lengths
from trainer_adapter.verl.plugin.checks import check_config, check_version, untested_version
from trainer_adapter.verl.prompts import PromptTemplate, prompt_counter

_INSTALL = "Install a torch build for this machine, then the extra `train` (docs/install.md)"
PACKAGES = ("verl", "torch", "transformers", "ray", "tensordict", "TransferQueue")
"""Whose versions are kept with a run, beside those of every run."""


def check_packages(hooks: tuple[Hook, ...]) -> None:
    """Raise unless the packages of the extra `train` are installed, with a verl that has these hooks."""
    modules = {"TransferQueue": "transfer_queue"}
    missing = [
        package for package in PACKAGES if importlib.util.find_spec(modules.get(package, package)) is None
    ]
    if missing:
        raise PrerequisiteError(f"training needs {', '.join(missing)}. {_INSTALL}.")
    check_version(hooks)


def has_verl() -> bool:
    """Return whether verl and hydra are here to compose a configuration; neither is imported."""
    return importlib.util.find_spec("verl") is not None and importlib.util.find_spec("hydra") is not None


def check_machine(composition: Composition) -> list[str]:
    """Raise unless this machine has the rollout engine and the GPUs; return what a user should know."""
    config = composition.config
    if config.cpu:
        return []
    engine = composition.value("actor_rollout_ref.rollout.name")
    if engine in ("vllm", "sglang") and importlib.util.find_spec(engine) is None:
        raise PrerequisiteError(
            f"rollouts need {engine}, which is not installed. Install the extra `vllm` (docs/install.md), "
            "or pass --cpu for a trial without a GPU."
        )
    if config.ray_address:
        return []
    import torch

    gpus = torch.cuda.device_count()
    if gpus < config.gpus:
        raise PrerequisiteError(
            f"{config.gpus} GPUs were requested, but the machine has {gpus}. Use --gpus {gpus}, or --cpu "
            "for a trial."
            if gpus
            else "this machine has no GPU. Pass --cpu for a trial with a tiny model, or use a GPU machine."
        )
    with contextlib.suppress(TagrpoError):
        shape = find_shape(str(composition.value(f"{_MODEL}.path")))
        memory = torch.cuda.get_device_properties(0).total_memory / GIB
        if shortage := plan_memory(composition, shape, memory).shortage:
            return [f"`tagrpo train plan` estimates that {shortage}"]
    return []


def check_fit(composition: Composition, data: TrainingData) -> list[str]:
    """Raise where recipe, settings and data do not go together; return what a user should know."""
    recipe = composition.recipe
    if recipe.neighbors and data.layout != "grouped":
        raise InputError(
            f"{data.folder}: the layout is {data.layout}, but recipe {recipe.name} samples the neighbors of "
            "a question together. Export with --layout grouped."
        )
    if recipe.neighbors and not any(data.neighbors_per_question):
        raise InputError(
            f"{data.folder}: no question of {data.set_ref} has a neighbor, but recipe {recipe.name} samples "
            f"{recipe.neighbors}. Publish a set with neighbors, or train grpo or grpo_matched."
        )
    batch, rows = int(composition.value("data.train_batch_size")), composition.rows_of(data)
    if batch > rows:
        raise InputError(
            f"a batch has {batch:,} questions, but the training file has only {rows:,}. Pass "
            f"verl.data.train_batch_size={rows} or less, and "
            "verl.actor_rollout_ref.actor.ppo_mini_batch_size no larger."
        )
    updates_of_a_batch(batch, int(composition.value("actor_rollout_ref.actor.ppo_mini_batch_size")))
    if data.validation_file is None and not isinstance(composition.setting("data.val_files"), Override):
        for key, never in (("test_freq", -1), ("val_before_train", False), ("val_only", False)):
            if (value := composition.value(f"trainer.{key}", never)) not in (never, 0):
                raise InputError(
                    f"verl.trainer.{key}={value}: there is no validation file, so verl would validate on the "
                    "training data. Hold questions back with validation_share=0.02, or set a file with "
                    "verl.data.val_files."
                )
    untested = [untested_version()] if has_verl() else []
    return [*filter(None, untested), *_notes(composition, data), *check_lengths(composition, data)]


def _notes(composition: Composition, data: TrainingData) -> Sequence[str]:
    recipe, notes = composition.recipe, []
    packing = composition.setting("actor_rollout_ref.model.use_remove_padding")
    if packing is not None and packing.value is False and not composition.config.cpu:
        where = "installed here" if packing.source == "machine" else "used"
        notes.append(f"flash-attn is not {where}: training uses PyTorch's attention, which is slower")
    asked = composition.preset.prompt()
    words = [(each.instruction, each.system) for each in (data.template, asked)]
    if composition.preset.name != DEFAULT and words[0] != words[1]:
        notes.append(
            "the prompt comes from the export or from prompt_file, not from --preset "
            f"{composition.preset.name}"
        )
    if composition.preset.oddity is not None and recipe.reward == composition.preset.reward:
        notes.append(composition.preset.oddity)
    sizes = data.neighbors_per_question.items()
    if fewer := sum(count for size, count in sizes if size < recipe.neighbors):
        notes.append(
            f"{fewer:,} of {data.questions:,} questions have fewer than {recipe.neighbors} neighbors; their "
            f"{recipe.rollouts} responses are spread over the prompts that exist"
        )
    rows = composition.rows_of(data)
    left = rows % int(composition.value("data.train_batch_size"))
    if left:
        notes.append(f"{left:,} of {rows:,} questions do not fill a batch; each epoch skips others")
    return notes


def check_configuration(composition: Composition, folder: Path) -> list[str]:
    """Raise unless verl's config accepts the overrides and trains the recipe; return notes for the user."""
    if not has_verl():  # a dry run on another machine; training itself asks for verl first
        return ["verl is not installed here, so these overrides were not checked against its config"]
    check_config(compose_with_hydra(composition, folder), composition.recipe, composition.settings)
    return []


def compose_with_hydra(composition: Composition, folder: Path) -> dict[str, Any]:
    """Return verl's whole configuration as `main_ppo` will read it; verl is not imported for it."""
    spec = importlib.util.find_spec("verl")
    if spec is None or spec.origin is None or not has_verl():
        raise PrerequisiteError(f"verl is not installed. {_INSTALL}.")
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    arguments = [text for text in composition.arguments(folder) if not text.startswith("hydra.")]
    search = "hydra.searchpath=[pkg://trainer_adapter.verl.configs]"
    GlobalHydra.instance().clear()
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            initialize_config_dir(str(Path(spec.origin).parent / "trainer" / "config"), version_base=None),
        ):
            config = compose("ppo_trainer", overrides=[search, *arguments])
            plain = OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # A key that verl lacks, added with a `+` as Hydra proposes, would be ignored.
        lines = [line for line in lines if not line.startswith("To append to your config")]
        raise InputError(f"verl's config rejects this override: {' '.join(lines[:2])}") from error
    assert isinstance(plain, dict)
    return plain


def versions() -> dict[str, str]:
    """Return the versions that shape a training run; packages that are not installed are left out."""
    from service.runs.store import package_versions

    versions = package_versions()
    for package in (*PACKAGES, "vllm", "sglang", "flash_attn"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package.lower()] = metadata.version(package)
    return versions


_MODEL = "actor_rollout_ref.model"
_TEMPLATE = f"{_MODEL}.custom_chat_template"
_OPTIONS = "data.mm_processor_kwargs."
_ROWS_AT_ONCE = 500
_NAMED = 5


def check_lengths(composition: Composition, data: TrainingData) -> list[str]:
    """Raise if a prompt is longer than verl takes; return what a user should know.

    An export that counted with the model's own tokenizer has left such prompts out. Any other export, and one
    with images, is counted again here, unless this machine cannot load the tokenizer.
    """
    limit = int(composition.value("data.max_prompt_length"))
    named = composition.value(f"{_MODEL}.tokenizer_path") or composition.value(f"{_MODEL}.path")
    model, counted_by = str(named), data.template.tokenizer
    same = counted_by is not None and _resolved(counted_by) == _resolved(model)
    if same and not data.images and composition.value(_TEMPLATE) is None:
        if data.longest_prompt > limit:
            raise InputError(
                f"data.max_prompt_length is {limit}, but the longest prompt of {data.folder} has "
                f"{data.longest_prompt} tokens. Export with --max-prompt-tokens {limit}."
            )
        return []
    try:
        count = _prompt_counter(composition, data, model)
    except PrerequisiteError as error:
        if Path(model).is_dir() and importlib.util.find_spec("transformers") is not None:
            raise  # what is in a folder of this machine is no better when the training starts
        return [f"prompts were not counted with the model's tokenizer, so some may be too long: {error}"]
    longest, over = 0, []
    for file in filter(None, (data.train_file, data.validation_file)):
        for name, length in count(file):
            longest = max(longest, length)
            if length > limit:
                over.append(f"{name} in {file.name} has {length}")
    if over:
        named = "; ".join(over[:_NAMED]) + ("; ..." if len(over) > _NAMED else "")
        what = f"by {model}"
        way_out = (
            "verl stops at such questions and truncates such neighbors. Export with --tokenizer "
            f"{model} --max-prompt-tokens {limit}, which excludes and lists them."
        )
        if data.images:
            what = "including images"
            way_out = (
                f"verl stops at these. Pass verl.data.max_prompt_length={longest}, or reduce the images: "
                f"with verl.+{_OPTIONS}min_pixels=3136 verl.+{_OPTIONS}max_pixels=200704 an image has at "
                "most 256 tokens in Qwen 2.5 VL."
            )
        raise InputError(
            f"{data.folder}: {len(over):,} prompt{'s' if len(over) > 1 else ''} of more than {limit} tokens "
            f"{what} ({named}). {way_out}"
        )
    if data.images:
        return [f"the longest prompt has {longest} tokens, including those of its images"]
    how = f"counted tokens with {counted_by}" if counted_by else "estimated prompt lengths"
    return [f"the export {how}; counted with {model}, the longest prompt has {longest} tokens"]


def _prompt_counter(
    composition: Composition, data: TrainingData, model: str
) -> Callable[[Path], Iterable[tuple[str, int]]]:
    """Return the function that gives name and length of the prompts of a file that the recipe asks."""
    neighbors, chat_template = composition.recipe.neighbors, composition.value(_TEMPLATE)
    arguments = data.template.chat_template_kwargs
    if data.images:
        processor = load_processor(model)
        processor.chat_template = chat_template or processor.chat_template
        given = {each.name: each.value for each in composition.values if each.name.startswith(_OPTIONS)}
        options = {name.removeprefix(_OPTIONS): value for name, value in given.items()}
        return lambda file: prompt_lengths(file, processor, arguments, options, neighbors)
    template = PromptTemplate(tokenizer=model, chat_template_kwargs=arguments)
    count = prompt_counter(template, chat_template=chat_template)

    def lengths(file: Path) -> Iterator[tuple[str, int]]:
        for rows in read_rows(file, _ROWS_AT_ONCE):
            prompts = [prompt for row in rows for prompt in prompts_of(row, neighbors)]
            names, messages = zip(*prompts, strict=True)
            yield from zip(names, count(messages), strict=True)

    return lengths


def _resolved(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).is_dir() else model
