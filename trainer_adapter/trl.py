"""TA-GRPO in TRL's `GRPOTrainer`: a rollout function and a reward, over an export of a set for verl.

    from trl import GRPOConfig, GRPOTrainer
    trainer = GRPOTrainer(
        model="policy", reward_funcs=correctness, rollout_func=NeighborRollout(),
        train_dataset=load_export("out/verl"), args=GRPOConfig(num_generations=32, ...))

TRL measures an advantage against the `num_generations` responses of a question; so drawing some of them for
its neighbors makes its groups joint (arXiv 2601.22478, Eq. 3). Anchors that weigh these responses take a
trainer of two lines: `class Trainer(NeighborWeights, GRPOTrainer): pass`.

Written for TRL 1.16, whose `rollout_func` is marked experimental and whose methods for tokenising, drawing
and scoring are private.
"""

from __future__ import annotations

import asyncio
import json
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, get_args

import torch

from service.errors import InputError
from trainer_adapter.methods.recipes import AnchorAxis
from trainer_adapter.methods.step_advantages import anchor_weights
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.verl.reward import compute_score

Messages: TypeAlias = list[dict[str, str]]


def load_export(folder: str | Path, split: str = "train") -> Any:
    """Return the rows of `tagrpo sets export --format verl` as a `datasets.Dataset`."""
    from datasets import Dataset

    path = Path(folder) / f"{split}.parquet"
    if not path.is_file():
        raise InputError(
            f"{path} does not exist. Create it with `tagrpo sets export NAME@1 --format verl --out FOLDER`."
        )
    dataset = Dataset.from_parquet(str(path))
    if "neighbors" not in dataset.column_names:
        raise InputError(f"{path} has no column `neighbors`. Export the set with --layout grouped.")
    if "images" in dataset.column_names:
        raise InputError(f"{path} has questions with images. Train on these with verl.")
    return dataset


async def correctness(
    completions: Sequence[Any],
    reward_model: Sequence[Mapping[str, Any]],
    extra_info: Sequence[Mapping[str, Any]],
    log_metric: Any = None,
    rollout: Sequence[NeighborRollout] = (),
    **_: Any,
) -> list[float | None]:
    """Return 1.0 for a right answer in a box, 0.0 for any other, None if the grader could not tell.

    TRL does not train on a response with None. Their share is logged as `tagrpo/unknown`.
    """
    texts = [each if isinstance(each, str) else each[-1]["content"] for each in completions]
    grades = await asyncio.gather(
        *(
            compute_score("", text, reference["ground_truth"], extra)
            for text, reference, extra in zip(texts, reward_model, extra_info, strict=True)
        )
    )
    for row, grade in enumerate(grades[: len(rollout)]):
        rollout[row].grades[row] = grade
    if log_metric is not None:
        log_metric("tagrpo/unknown", sum(grade["unknown"] for grade in grades) / max(1, len(grades)))
    return [None if grade["unknown"] else float(grade["score"]) for grade in grades]


class NeighborRollout:
    """Draw a question's responses for itself and its neighbors in turn: TRL's `rollout_func`.

    In evaluations, the question alone is asked.

    Args:
        anchor: prompt of a response in training: the one that it was drawn for (own), or the question. The
            other three take the question and weigh responses to neighbors, with a `NeighborWeights` trainer:
            each token by min(ratio, `threshold`) of its probabilities under both prompts (corrected), or a
            response that is not better than its group by min(1, ratio) (tapered) or 0 (dropped).
    """

    def __init__(self, anchor: AnchorAxis = "question", *, threshold: float = 2.0) -> None:
        if anchor not in get_args(AnchorAxis):
            raise InputError(f"anchor {anchor!r} is unknown. Choose from {', '.join(get_args(AnchorAxis))}.")
        if not threshold > 0:
            raise InputError(f"threshold is {threshold}, but must be above 0.")
        self.anchor = anchor
        self.threshold = threshold
        self.grades: dict[int, dict[str, Any]] = {}
        """Of the last batch by row, for `Recorded`."""
        self._neighbors: dict[str, list[Messages]] | None = None

    def __call__(self, prompts: list[Messages], trainer: Any) -> dict[str, Any]:
        """Return the tokens of one response to each prompt of this process, and those it is trained on."""
        training = bool(trainer.model.training)
        self.grades.clear()
        if self._neighbors is None:
            self._neighbors = _neighbors(trainer.train_dataset)
            self._check(trainer, max((len(each) for each in self._neighbors.values()), default=0))
        asked, variants = list(prompts), [0] * len(prompts)
        if training:
            # TRL has a question's responses beside each other, over all processes.
            first = trainer.accelerator.process_index * len(prompts)
            for row, prompt in enumerate(prompts):
                phrasings = [prompt, *self._neighbors[_key(prompt)]]
                variants[row] = (first + row) % trainer.num_generations % len(phrasings)
                asked[row] = phrasings[variants[row]]
        asked_ids, images, multimodal = trainer._tokenize_prompts(asked)
        responses, log_probs = trainer._generate_single_turn(asked_ids, images, multimodal, 1)
        anchored = asked_ids if self.anchor == "own" else trainer._tokenize_prompts(prompts)[0]
        return {
            "prompt_ids": anchored,
            "completion_ids": responses,
            "logprobs": log_probs,
            "asked": [_text(messages) for messages in asked],
            "asked_ids": asked_ids,
            "variant": variants,
            "sampling": log_probs or [None] * len(responses),
            "rollout": self,
        }

    def _check(self, trainer: Any, neighbors: int) -> None:
        group = trainer.num_generations
        if group % (neighbors + 1):
            raise InputError(
                f"num_generations is {group}; with {neighbors} neighbors it must be a multiple of "
                f"{neighbors + 1}."
            )
        if self.anchor != "own" and trainer.use_vllm and trainer.vllm_importance_sampling_correction:
            raise InputError(
                "vllm_importance_sampling_correction=True would weight responses to neighbors by the prompt "
                "mismatch. Set it to False."
            )
        if self.anchor not in ("question", "own") and not isinstance(trainer, NeighborWeights):
            raise InputError(
                f"the anchor {self.anchor} weights responses, which GRPOTrainer does not support. Use "
                "`class Trainer(NeighborWeights, GRPOTrainer): pass` instead."
            )


class NeighborWeights:
    """Mix-in before `GRPOTrainer`: weighs responses to neighbors by the anchor of `NeighborRollout`.

    A weight multiplies the advantage. Log-probs under both prompts are the trainer's own: two more passes
    over the batch, none for `dropped`. TRL logs `tagrpo/anchor/log_ratio/neighbors` and, of responses that
    may be weighed, `tagrpo/response_weights/mean`.
    """

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        rollout = inputs[0]["rollout"]
        if self.model.training and rollout.anchor not in ("question", "own"):  # type: ignore[attr-defined]
            batch["advantages"] = self._weighed(batch, inputs, rollout)
        return batch

    def _weighed(
        self: Any, batch: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]], rollout: NeighborRollout
    ) -> Any:
        """Return advantages times weights: [B], or [B, T] with the anchor `corrected`."""
        advantages_B, mask_BT = batch["advantages"], batch["completion_mask"]
        foreign_B = torch.tensor(
            [_text(row["prompt"]) != row["asked"] for row in inputs], device=advantages_B.device
        )
        log_ratio_B = None
        if rollout.anchor != "dropped":
            anchored_BT = batch.get("old_per_token_logps")
            if anchored_BT is None:
                anchored_BT = self._log_probs(batch, batch["prompt_ids"], batch["prompt_mask"])
            asked_BT = self._log_probs(batch, *self._padded([row["asked_ids"] for row in inputs]))
            ratio_BT = (anchored_BT - asked_BT).double() * mask_BT * foreign_B[:, None]
            log_ratio_B = ratio_BT.sum(-1)
            self._log_mean("tagrpo/anchor/log_ratio/neighbors", log_ratio_B[foreign_B])
            if rollout.anchor == "corrected":
                weights_BT = ratio_BT.exp().clamp(max=rollout.threshold)
                return (advantages_B[:, None] * weights_BT).to(advantages_B.dtype)
        weights_B = anchor_weights(rollout.anchor, advantages_B, foreign_B, log_ratio_B)
        assert weights_B is not None
        self._log_mean("tagrpo/response_weights/mean", weights_B[foreign_B & (advantages_B < 0)])
        return (advantages_B * weights_B).to(advantages_B.dtype)

    def _log_probs(self: Any, batch: Mapping[str, Any], prompt_ids: Any, prompt_mask: Any) -> Any:
        """Return the log-probs [B, T] of the responses behind other prompts."""
        ids = torch.cat([prompt_ids, batch["completion_ids"]], 1)
        mask = torch.cat([prompt_mask, batch["completion_mask"]], 1)
        width, at_once = batch["completion_ids"].shape[1], self.args.per_device_train_batch_size
        with torch.no_grad():
            made = self._get_per_token_logps_and_entropies(self.model, ids, mask, width, batch_size=at_once)
        return made[0]

    def _padded(self: Any, prompts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Return prompts as TRL pads them: ids and mask, shape [B, P]."""
        from trl.trainer.utils import pad

        device = self.accelerator.device
        ids = [torch.tensor(prompt, device=device) for prompt in prompts]
        padded = pad(ids, padding_value=self._tokenizer.pad_token_id, padding_side="left")
        return padded, pad([torch.ones_like(each) for each in ids], padding_value=0, padding_side="left")

    def _log_mean(self: Any, name: str, values: Any) -> None:
        sums = torch.stack([values.double().sum(), torch.tensor(float(len(values)), device=values.device)])
        total, count = self.accelerator.gather(sums).view(-1, 2).sum(0).tolist()
        if count:
            self._metrics["train"][name].append(total / count)


class Recorded:
    """Mix-in before `GRPOTrainer`, after `NeighborWeights`: records rollouts as `tagrpo train run` does.

    Set `record` on the trainer's class to the folder, and `run_name` to the name of the run. Rewards must
    come from `correctness`. Advantages are those before weights; log-probs are recorded if the trainer
    computes them. Metrics are those that TRL logs.
    """

    record: str | Path
    run_name: str
    _of_step: tuple[int, list[RolloutRecord]] = (0, [])

    def _generate_and_score_completions(self: Any, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        from accelerate.utils import gather_object

        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        if self.model.training:
            made = gather_object(self._records(batch, inputs))
            if self.accelerator.is_main_process:
                step = self.state.global_step + 1
                earlier = self._of_step[1] if self._of_step[0] == step else []
                groups = len({record.group for record in earlier})
                later = [replace(record, group=record.group + groups) for record in made]
                self._of_step = step, [*earlier, *later]
                self._writer.write(step, self._of_step[1])
        return batch

    def log(self: Any, logs: dict[str, float], *others: Any, **named: Any) -> None:
        """Log as TRL does, and record it."""
        super().log(logs, *others, **named)  # type: ignore[misc]
        step = self.state.global_step
        if self.accelerator.is_main_process:
            of_step = [logged for logged in self.state.log_history if logged["step"] == step]
            self._writer.write_metrics(step, dict(ChainMap(*of_step)))

    @cached_property
    def _writer(self: Any) -> RolloutWriter:
        spec = {"recipe": "trl", "model": self.model.config._name_or_path}
        return RolloutWriter(Path(self.record), self.run_name, spec=spec, background=False)

    def _records(
        self: Any, batch: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]
    ) -> list[RolloutRecord]:
        first, step = self.accelerator.process_index * len(inputs), self.state.global_step
        grades = inputs[0]["rollout"].grades
        if len(grades) != len(inputs):
            raise InputError("recording rollouts needs the grades of `correctness`. Add it to reward_funcs.")
        mask_BT, ids_BT = batch["completion_mask"].bool().cpu(), batch["completion_ids"].cpu()
        trained_BT = batch.get("old_per_token_logps")
        records = []
        for row, (given, mask_T, ids_T) in enumerate(zip(inputs, mask_BT, ids_BT, strict=True)):
            about, variant, grade = given["extra_info"], given["variant"], grades[row]
            ids = ids_T[mask_T].tolist()
            records.append(
                RolloutRecord(
                    step=step + 1,
                    question_id=about["question_id"],
                    neighbor_id=given["neighbor_ids"][variant - 1] if variant else None,
                    strategy=about["neighbor_strategies"][variant - 1] if variant else None,
                    variant=variant,
                    group=(first + row) // self.num_generations,
                    session=(first + row) % self.num_generations,
                    prompt=given["asked"],
                    response=self._tokenizer.decode(ids, skip_special_tokens=True),
                    tokens=len(ids),
                    truncated=bool(ids) and ids[-1] != self._tokenizer.eos_token_id,
                    reward=float(grade["score"]),
                    correct=None if grade["unknown"] else bool(grade["score"]),
                    reason=str(grade["reason"]),
                    extracted=grade["extracted"] or None,
                    advantage=float(batch["advantages"][row]),
                    old_log_prob=None if trained_BT is None else float(trained_BT[row].cpu()[mask_T].sum()),
                    sampling_log_prob=None if given["sampling"] is None else float(sum(given["sampling"])),
                    weights_version=step,
                )
            )
        return records


def _neighbors(dataset: Any) -> dict[str, list[Messages]]:
    if "neighbors" not in dataset.column_names:
        raise InputError("train_dataset has no column `neighbors`. Use load_export(FOLDER).")
    return {_key(row["prompt"]): row["neighbors"] for row in dataset}


def _key(prompt: Messages) -> str:
    return json.dumps([[message["role"], message["content"]] for message in prompt])


def _text(messages: Messages) -> str:
    return "".join(message["content"] for message in messages)
