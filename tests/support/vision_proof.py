"""What the proofs on questions with images share: a tiny model that sees, its data, and a run of verl."""

import io
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tiny_vision import save_tiny_vision_model
from verl_exports import export_entries
from verl_proof import run
from verl_run import VerlRun

from rephraser.sets.types import Neighbor, SetEntry
from service.questions.images import read_image
from service.questions.question import make_question
from trainer_adapter.verl.prompts import PromptTemplate

NAMES = ("ta_grpo", "ta_grpo", "a_grae", "a_grae", *["grpo_replay"] * 3)
SIDES = (40, 56, 90)
"""Of the pictures, which so take 4 and 9 tokens."""


def picture(number: int) -> bytes:
    """Return a PNG of stripes, another one for each number."""
    import numpy as np
    from PIL import Image

    side = SIDES[number % len(SIDES)]
    pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def export_pictured(folder: Path, model: Path) -> Path:
    """Export twelve sums with a picture each and two neighbors: one says the same, one something else."""
    entries, pictures = [], dict[str, Any]()
    for number in range(12):
        a, b = number % 4, number // 4
        texts = [f"<image>What is {a}+{b}?", f"Look:<image> add {a} to {b}."]
        neighbors = tuple(
            Neighbor(f"c_{number}_{place}", text, "rules", "rules", "h", "", "unverified", None, False)
            for place, text in enumerate(texts)
        )
        image = read_image(picture(number))
        pictures[image.id] = image
        entries.append(SetEntry(make_question(texts[0], str(a + b), images=[image.id]), neighbors))
    template = PromptTemplate(instruction="Box it.", tokenizer=str(model), max_prompt_tokens=160)
    export_entries(folder, entries, template, load_images=lambda ids: {id: pictures[id] for id in ids})
    return folder / "train.parquet"


def save_vision_place(folder: Path) -> Path:
    """Save the model and the export `set`."""
    save_tiny_vision_model(folder / "model")
    export_pictured(folder / "set", folder / "model")
    return folder


def question_ids(place: Path) -> set[str]:
    """Return the ids of the export's questions."""
    rows = pq.read_table(place / "set" / "train.parquet", columns=["extra_info"]).to_pylist()
    return {row["extra_info"]["question_id"] for row in rows}


def run_with_images(place: Path, name: str, *overrides: str, **environment: str) -> VerlRun:
    """Train two steps of TA-GRPO, two of A-GRAE and three with replay in one run of verl."""
    return run(
        place,
        name,
        NAMES,
        "data.custom_cls.path=pkg://trainer_adapter.verl.plugin.images.dataset",
        "data.custom_cls.name=ImageDataset",
        "data.max_prompt_length=160",
        "data.filter_overlong_prompts=true",
        *overrides,
        **environment,
    )


class Seeing:
    """The model as transformers has it, and what it says of responses to the export's questions."""

    def __init__(self, place: Path) -> None:
        from transformers import Qwen2_5_VLForConditionalGeneration

        from service.engines.images import open_processor

        self._model = Qwen2_5_VLForConditionalGeneration.from_pretrained(place / "model").eval()
        self._processor = open_processor(str(place / "model"))
        rows = pq.read_table(place / "set" / "train.parquet").to_pylist()
        self._rows = {row["extra_info"]["question_id"]: row for row in rows}

    def log_probs(self, question_id: str, response: Any, *, image_of_another: bool = False) -> Any:
        """Return the log-probs of a response's tokens after the question, by one forward without padding."""
        import torch

        given = self.given(question_id, image_of_another=image_of_another)
        length = given["input_ids"].shape[1]
        for name, tokens in (
            ("input_ids", response),
            ("attention_mask", torch.ones_like(response)),
            ("mm_token_type_ids", torch.zeros_like(response)),
        ):
            given[name] = torch.cat([given[name], tokens[None]], dim=1)
        with torch.no_grad():
            log_probs = torch.log_softmax(self._model(**given).logits[0].float(), -1)
        return log_probs[length - 1 : -1].gather(-1, response[:, None])[:, 0]

    def given(self, question_id: str, *, image_of_another: bool = False) -> Any:
        """Return what the model is given of a question: its tokens and its pixels."""
        row = self._rows[question_id]
        pixels = _opened(row["images"][0]["bytes"])
        if image_of_another:
            pixels = pixels.point(lambda value: 255 - value)
        text, *_ = (message["content"] for message in row["prompt"])
        first, second = text.split("<image>")
        parts = [{"type": "text", "text": first}] * bool(first)
        content = [*parts, {"type": "image", "image": pixels}, {"type": "text", "text": second}]
        rendered = self._processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        return self._processor(text=[rendered], images=[pixels], return_tensors="pt")


def _opened(data: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")
