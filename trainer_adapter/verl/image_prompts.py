"""Checks of prompts with images before training: model support and token counts."""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from service.engines.images import open_held, takes_images
from service.errors import InputError
from trainer_adapter.verl.plugin.images.placing import with_images

COLUMN = "images"
_ROWS_AT_ONCE = 50


def holds_images(file: Path) -> bool:
    """Return whether a training file has a column of images; False where it is no parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return COLUMN in pq.read_schema(file).names
    except (OSError, pa.ArrowInvalid):
        return False


def load_processor(model: str) -> Any:
    """Return the processor of a model that verl trains with images."""
    # Not above: every process of verl loads this module, by way of the hooks.
    from service.engines.checkpoint import check_installed, open_checkpoint

    check_installed("train")
    checkpoint = open_checkpoint(model, None)
    if not takes_images(checkpoint.config):
        raise InputError(
            f"model {model}: does not support images, but some questions of the set have images. Choose a "
            "model that does (Qwen/Qwen2.5-VL-3B-Instruct), or publish a set without images."
        )
    processor = checkpoint.processor
    name, verl = type(processor).__name__, importlib.util.find_spec("verl")
    if verl is None or verl.origin is None:
        return processor
    code = Path(verl.origin).parent.joinpath("utils", "tokenizer", "tokenizer.py").read_text(encoding="utf-8")
    if f'case "{name}":' not in code:  # verl would warn and train on the text alone
        raise InputError(
            f"model {model}: verl cannot train models with {name} on images. Choose another model, such as "
            "Qwen/Qwen2.5-VL-3B-Instruct."
        )
    return processor


def prompt_lengths(
    file: Path, processor: Any, template: Mapping[str, Any], options: Mapping[str, Any], neighbors: int
) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of tokens of each prompt of a file, those of its images among them."""
    from trainer_adapter.verl.export import prompts_of, read_rows

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
