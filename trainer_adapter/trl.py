"""TA-GRPO in TRL's `GRPOTrainer`: a rollout function and a reward, over an export of a set for verl.

    from trl import GRPOConfig, GRPOTrainer
    trainer = GRPOTrainer(
        model="policy", reward_funcs=correctness, rollout_func=NeighborRollout(),
        train_dataset=load_export("out/verl"), args=GRPOConfig(num_generations=32, ...))

TRL measures an advantage against the `num_generations` responses of a question; so drawing some of them for
its neighbors makes its groups joint (arXiv 2601.22478, Eq. 3). Written for TRL 1.16, whose `rollout_func` is
marked experimental and whose methods for tokenising and drawing are private.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from service.errors import InputError
from trainer_adapter.verl.reward import compute_score

Anchor: TypeAlias = Literal["question", "own", "corrected"]
Messages: TypeAlias = list[dict[str, str]]


def load_export(folder: str | Path, split: str = "train") -> Any:
    """Return the rows of `tagrpo sets export --format verl` as a `datasets.Dataset`.

    Raises:
        InputError: no such file, or one without neighbors.
    """
    from datasets import Dataset

    path = Path(folder) / f"{split}.parquet"
    if not path.is_file():
        raise InputError(
            f"{path} is not there; `tagrpo sets export NAME@1 --format verl --out FOLDER` writes it."
        )
    dataset = Dataset.from_parquet(str(path))
    if "neighbors" not in dataset.column_names:
        raise InputError(f"{path} has no column `neighbors`; export the set with --layout grouped.")
    return dataset


async def correctness(
    completions: Sequence[Any],
    reward_model: Sequence[Mapping[str, Any]],
    extra_info: Sequence[Mapping[str, Any]],
    log_metric: Any = None,
    **_: Any,
) -> list[float | None]:
    """Return 1.0 for a right answer in a box, 0.0 for any other, None where the grader could not tell.

    A response with None is in no mean of its group, and is not trained on. Their share is logged as
    `tagrpo/unknown`.
    """
    texts = [each if isinstance(each, str) else each[-1]["content"] for each in completions]
    grades = await asyncio.gather(
        *(
            compute_score("", text, reference["ground_truth"], extra)
            for text, reference, extra in zip(texts, reward_model, extra_info, strict=True)
        )
    )
    if log_metric is not None:
        log_metric("tagrpo/unknown", sum(grade["unknown"] for grade in grades) / max(1, len(grades)))
    return [None if grade["unknown"] else float(grade["score"]) for grade in grades]


class NeighborRollout:
    """Draw a question's responses for itself and its neighbors in turn: TRL's `rollout_func`.

    Args:
        anchor: what a response is conditioned on when it is trained: the question (TA-GRPO); the prompt that
            it was drawn for (own, as in the paper's first version); or the question, weighed by the sampling
            mismatch (corrected), which TRL does itself with vLLM, `vllm_importance_sampling_correction=True`
            and `vllm_importance_sampling_mode="sequence_truncate"`.

    Where the model is evaluated, the question alone is asked.
    """

    def __init__(self, anchor: Anchor = "question") -> None:
        if anchor not in ("question", "own", "corrected"):
            raise InputError(f"anchor {anchor!r} is none of question, own, corrected.")
        self.anchor = anchor
        self._neighbors: dict[str, list[Messages]] | None = None

    def __call__(self, prompts: list[Messages], trainer: Any) -> dict[str, Any]:
        """Return the tokens of one response to each prompt of this process, and those it is trained on."""
        training = bool(trainer.model.training)
        if self._neighbors is None:
            self._neighbors = _neighbors(trainer.train_dataset)
            self._check(trainer, max((len(each) for each in self._neighbors.values()), default=0))
        asked = list(prompts)
        if training:
            # TRL has a question's responses beside each other, over all processes.
            first = trainer.accelerator.process_index * len(prompts)
            for row, prompt in enumerate(prompts):
                phrasings = [prompt, *self._neighbors[_key(prompt)]]
                asked[row] = phrasings[(first + row) % trainer.num_generations % len(phrasings)]
        asked_ids, images, multimodal = trainer._tokenize_prompts(asked)
        responses, log_probs = trainer._generate_single_turn(asked_ids, images, multimodal, 1)
        anchored = asked_ids if self.anchor == "own" else trainer._tokenize_prompts(prompts)[0]
        return {
            "prompt_ids": anchored,
            "completion_ids": responses,
            "logprobs": log_probs,
            "asked": ["".join(message["content"] for message in messages) for messages in asked],
        }

    def _check(self, trainer: Any, neighbors: int) -> None:
        group = trainer.num_generations
        if group % (neighbors + 1):
            raise InputError(
                f"num_generations is {group}; with {neighbors} neighbors a question has {neighbors + 1} "
                f"phrasings: say a multiple of {neighbors + 1}."
            )
        weighed = bool(trainer.use_vllm and trainer.vllm_importance_sampling_correction)
        if self.anchor == "question" and weighed:
            raise InputError(
                "vllm_importance_sampling_correction=True would weigh responses to neighbors by the mismatch "
                'of prompts; say False, or NeighborRollout("corrected").'
            )
        if self.anchor == "corrected" and not weighed:
            raise InputError(
                "the anchor `corrected` needs use_vllm=True and vllm_importance_sampling_correction=True, as "
                "TRL has the probabilities that it drew with from vLLM alone."
            )


def _neighbors(dataset: Any) -> dict[str, list[Messages]]:
    if "neighbors" not in dataset.column_names:
        raise InputError("train_dataset has no column `neighbors`; load_export(FOLDER) reads one that has.")
    return {_key(row["prompt"]): row["neighbors"] for row in dataset}


def _key(prompt: Messages) -> str:
    return json.dumps([[message["role"], message["content"]] for message in prompt])
