"""verl's dataset for questions with images, without its own image reader.

verl reads images with `qwen_vl_utils`, which needs torchvision and resizes them before the model's processor
does so again. Here the processor gets the original images, as in an evaluation.
"""

from typing import Any

from verl.utils.dataset.rl_dataset import RLHFDataset

from service.engines.images import open_held
from trainer_adapter.verl.plugin.images.placing import images_of


class ImageDataset(RLHFDataset):  # type: ignore[misc]
    """verl's dataset; selected by its own setting `data.custom_cls`."""

    def _build_messages(self, example: dict[str, Any], key: str) -> list[dict[str, Any]]:
        held = example.get(self.image_key)
        if held:
            example[self.image_key] = [open_held(each) for each in held]
        messages: list[dict[str, Any]] = super()._build_messages(example, key)
        return messages

    @classmethod
    def _process_multi_modal_info(
        cls, messages: list[dict[str, Any]], image_patch_size: int, config: Any
    ) -> tuple[list[Any] | None, None, None]:
        """Return the messages' images; videos and sounds are always empty."""
        return images_of(messages) or None, None, None
