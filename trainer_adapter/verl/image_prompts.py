"""Checks of prompts with images before training: model support and token counts."""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.engines.images import open_held, open_processor, takes_images
from service.errors import InputError, PrerequisiteError, first_line
from trainer_adapter.verl.plugin.images.placing import with_images

if TYPE_CHECKING:
    from trainer_adapter.runs.composing import Composition
    from trainer_adapter.runs.data import TrainingData

COLUMN = "images"
PROCESSORS = (
    *("Qwen2VLProcessor", "Qwen2_5_VLProcessor", "Qwen3VLProcessor"),
    *("Glm4vProcessor", "Glm46VProcessor", "Gemma4Processor"),
)
"""Of the models that verl 0.9.1 trains with images (`hf_processor` in verl/utils/tokenizer/tokenizer.py)."""

_ROWS_AT_ONCE = 50
_NAMED = 5
_OPTIONS = "data.mm_processor_kwargs."


def holds_images(file: Path) -> bool:
    """Return whether a training file has a column of images; False where it is no parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return COLUMN in pq.read_schema(file).names
    except (OSError, pa.ArrowInvalid):
        return False


def load_processor(model: str) -> Any:
    """Return the processor of a model that verl trains with images.

    Raises:
        InputError: the model takes no images, or verl does not train it with images.
        PrerequisiteError: transformers is missing, or the model cannot be loaded.
    """
    if importlib.util.find_spec("transformers") is None:
        raise PrerequisiteError("transformers is not installed: pip install 'tagrpo[train]'")
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model)
        processor = open_processor(model) if takes_images(config) else None
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = first_line(error)
        raise PrerequisiteError(
            f"model {model}: its image processor could not be loaded ({reason}). The folder needs "
            "preprocessor_config.json next to the weights."
        ) from error
    if processor is None:
        raise InputError(
            f"model {model}: does not support images, but some questions of the set have images. Choose a "
            "model that does (Qwen/Qwen2.5-VL-3B-Instruct), or publish a set without images."
        )
    if type(processor).__name__ not in PROCESSORS:
        raise InputError(
            f"model {model}: verl cannot train models with {type(processor).__name__} on images. It "
            f"supports {', '.join(PROCESSORS)}."
        )
    return processor


def prompt_lengths(
    file: Path, processor: Any, template: Mapping[str, Any], options: Mapping[str, Any], neighbors: int
) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of tokens of each prompt of a file, those of its images among them.

    Args:
        template: arguments of the chat template.
        options: arguments of the processor, verl's `data.mm_processor_kwargs`.
        neighbors: how many of a question are asked.

    Raises:
        InputError: a prompt with more or fewer places than images.
    """
    # Not above: every process of verl loads this module, by way of the hooks.
    from trainer_adapter.verl.export_rows import prompts_of, read_rows

    for row in (row for rows in read_rows(file, _ROWS_AT_ONCE, images=True) for row in rows):
        images = [open_held(held) for held in row.get(COLUMN) or ()]
        of_images: int | None = None
        for name, messages in prompts_of(row, neighbors):
            try:
                content = with_images(messages, images)
            except ValueError as error:
                raise InputError(f"{file.name}: {name}: {error}. Export the set again.") from error
            text = processor.apply_chat_template(
                content, add_generation_prompt=True, tokenize=False, **template
            )
            length = len(processor.tokenizer(text, add_special_tokens=False)["input_ids"])
            if of_images is None:  # as many in each prompt of the row
                full = processor(text=[text], images=images, **options)["input_ids"][0] if images else ()
                of_images = len(full) - length if images else 0
            yield name, length + of_images


def check_image_lengths(composition: "Composition", data: "TrainingData") -> list[str]:
    """Count all prompts of an export with the tokens of their images; return what a user should know.

    Raises:
        InputError: the model takes no images, or prompts are over the limit, with the first of them.
        PrerequisiteError: the model is a folder of this machine without a processor that can be loaded.
    """
    model: str | None = composition.value("actor_rollout_ref.model.path")
    if model is None:
        return ["questions have images, but without a model their tokens cannot be counted"]
    try:
        processor = load_processor(model)
    except PrerequisiteError as error:
        if Path(model).is_dir() and importlib.util.find_spec("transformers") is not None:
            raise
        return [f"tokens of prompts with images were not counted; some may be too long: {error}"]
    if (template := composition.value("actor_rollout_ref.model.custom_chat_template")) is not None:
        processor.chat_template = template
    given = {each.name: each.value for each in composition.values if each.name.startswith(_OPTIONS)}
    options = {name.removeprefix(_OPTIONS): value for name, value in given.items()}
    limit, longest, over = int(composition.value("data.max_prompt_length")), 0, list[str]()
    for file in filter(None, (data.train_file, data.validation_file)):
        neighbors = composition.recipe.neighbors
        for name, length in prompt_lengths(file, processor, data.chat_template_kwargs, options, neighbors):
            longest = max(longest, length)
            if length > limit:
                over.append(f"{name} in {file.name} has {length}")
    if not over:
        return [f"the longest prompt has {longest} tokens, including those of its images"]
    named = "; ".join(over[:_NAMED]) + ("; ..." if len(over) > _NAMED else "")
    raise InputError(
        f"{data.folder}: {len(over):,} prompt{'s' if len(over) > 1 else ''} of more than {limit} tokens "
        f"including images ({named}). verl stops at these. Pass data.max_prompt_length={longest}, or reduce "
        f"the images: with +{_OPTIONS}min_pixels=3136 +{_OPTIONS}max_pixels=200704 an image has at most 256 "
        "tokens in Qwen 2.5 VL."
    )
