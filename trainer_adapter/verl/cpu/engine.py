"""The training engine on the CPU: verl's, which reads the prompt of several responses once.

verl's engine computes every row from its first token, though the 32 rows of a question begin with the same
prompt and only the log-probabilities of responses are used. Here the rows of a micro-batch share the keys and
values of their prompts, and logits are made for responses only; the numbers are the same up to rounding. What
this cannot do (images, distillation, models whose layers do not keep every token's keys and values) goes
verl's way. In a step of the demo, of 512 responses, old log-probs, reference and update take 2.4 seconds of
processor time instead of 4.5.

It is loaded by verl's own setting `actor_rollout_ref.model.external_lib`, and found by its platform's vendor.
"""

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer
from verl.utils import tensordict_utils
from verl.utils.model import extract_multi_modal_inputs
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from trainer_adapter.verl.cpu.platform import CpuPlatform

_OTHER_WAYS = ("use_fused_kernels", "calculate_sum_pi_squared", "distillation_use_topk", "distillation_only")


class PromptRows(NamedTuple):
    """The rows of a micro-batch, with each prompt once.

    Attributes:
        prompts_PL: tokens of the distinct prompts, padded on the right.
        prompt_lengths_P: their lengths.
        prompt_B: which of them each row has.
        responses_BT: tokens of the responses, padded on the right.
        response_lengths_B: their lengths.
    """

    prompts_PL: torch.Tensor
    prompt_lengths_P: torch.Tensor
    prompt_B: torch.Tensor
    responses_BT: torch.Tensor
    response_lengths_B: torch.Tensor


def prompt_rows(prompts: torch.Tensor, responses: torch.Tensor) -> PromptRows:
    """Return the rows of two jagged tensors of tokens, one row a response."""
    tokens, ends = prompts.values().tolist(), prompts.offsets().tolist()
    numbers: dict[tuple[int, ...], int] = {}
    of_row = [numbers.setdefault(tuple(tokens[start:end]), len(numbers)) for start, end in pairwise(ends)]
    lengths = [len(each) for each in numbers]
    lengths_B = responses.offsets().diff()
    prompts_PL = torch.zeros(len(numbers), max(lengths), dtype=torch.int64)
    for row, each in enumerate(numbers):
        prompts_PL[row, : len(each)] = torch.tensor(each)
    return PromptRows(
        prompts_PL,
        torch.tensor(lengths),
        torch.tensor(of_row),
        torch.nested.to_padded_tensor(
            responses, padding=0, output_size=(len(of_row), max(int(lengths_B.max()), 1))
        ).long(),
        lengths_B,
    )


def response_logits(model: Callable[..., Any], rows: PromptRows) -> torch.Tensor:
    """Return the logits from which each token of each response was drawn, shape [B, T, vocabulary].

    Those at padding are of no meaning.
    """
    width, longest = rows.prompts_PL.shape[1], rows.responses_BT.shape[1]
    prompt_mask_PL = (torch.arange(width) < rows.prompt_lengths_P[:, None]).long()
    last = torch.unique(rows.prompt_lengths_P - 1)
    read = model(
        input_ids=rows.prompts_PL,
        attention_mask=prompt_mask_PL,
        position_ids=torch.arange(width).expand_as(rows.prompts_PL),
        use_cache=True,
        logits_to_keep=last,
    )
    first_PV = read.logits[
        torch.arange(len(rows.prompts_PL)), torch.searchsorted(last, rows.prompt_lengths_P - 1)
    ]
    first_B1V = first_PV[rows.prompt_B][:, None]
    past = read.past_key_values
    past.batch_select_indices(rows.prompt_B)
    # The last token predicts nothing that is looked at. Every rank calls the model twice, whatever its rows.
    fed = max(longest - 1, 1)
    mask_BT = (torch.arange(fed) < rows.response_lengths_B[:, None]).long()
    others = model(
        input_ids=rows.responses_BT[:, :fed],
        attention_mask=torch.cat([prompt_mask_PL[rows.prompt_B], mask_BT], dim=1),
        position_ids=rows.prompt_lengths_P[rows.prompt_B][:, None] + torch.arange(fed),
        past_key_values=past,
        use_cache=True,
    )
    return torch.cat([first_B1V, others.logits], dim=1)[:, :longest]


def can_share_prompts(model: Any) -> bool:
    """Return whether every layer of a model keeps the keys and values of every token while it is trained."""
    text = model.config.get_text_config(decoder=True)
    layers = DynamicCache(config=model.config).layers
    accepted = inspect.signature(model.forward).parameters.keys()
    return (
        set(getattr(text, "layer_types", None) or ()) <= {"full_attention"}
        and all(type(layer) is DynamicLayer for layer in layers)
        and {"position_ids", "past_key_values", "logits_to_keep"} <= accepted
        and not getattr(model, "is_gradient_checkpointing", False)
    )


class SharedPromptEngine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """verl's engine for language models, which reads each prompt of a micro-batch once."""

    _shares_prompts: bool | None = None

    def forward_step(self, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        """Return loss and output of a micro-batch, as verl's method of this name does."""
        if not self._can_share(micro_batch):
            return super().forward_step(micro_batch, loss_function, forward_only)
        rows = prompt_rows(micro_batch["prompts"], micro_batch["responses"])
        logits_BTV = response_logits(self.module, rows)
        temperature = micro_batch["temperature"]
        if isinstance(temperature, torch.Tensor) or temperature != 1:
            logits_BTV = logits_BTV / torch.as_tensor(temperature, dtype=torch.float32).view(-1, 1, 1)
        total_BT = logits_BTV.logsumexp(-1)
        chosen_BT = logits_BTV.gather(-1, rows.responses_BT[..., None])[..., 0]
        values = {"log_probs": chosen_BT - total_BT}
        if tensordict_utils.get_non_tensor_data(micro_batch, key="calculate_entropy", default=False):
            expected_BT = (logits_BTV.softmax(-1) * logits_BTV).sum(-1)
            values["entropy"] = total_BT - expected_BT
        output = {name: self._as_verl(value, rows, micro_batch) for name, value in values.items()}
        loss, metrics = torch.tensor(1.0), {}
        if loss_function is not None:
            loss, metrics = loss_function(
                model_output=output, data=micro_batch, dp_group=self.get_data_parallel_group()
            )
        detached = {name: value.detach() for name, value in output.items()}
        return loss, {"model_output": detached, "loss": loss.detach().item(), "metrics": metrics}

    def _can_share(self, micro_batch: Any) -> bool:
        flags = (
            tensordict_utils.get_non_tensor_data(micro_batch, key=name, default=False) for name in _OTHER_WAYS
        )
        held = [micro_batch.get(name, None) for name in ("prompts", "responses", "position_ids")]
        jagged = all(isinstance(each, torch.Tensor) and each.is_nested for each in held)
        return (
            jagged
            and held[2].dim() == 2
            and not any(flags)
            and not extract_multi_modal_inputs(micro_batch.get("multi_modal_inputs", []))
            and self._shares()
        )

    def _shares(self) -> bool:
        if self._shares_prompts is None:
            self._shares_prompts = can_share_prompts(self.module)
        return self._shares_prompts

    @staticmethod
    def _as_verl(values_BT: torch.Tensor, rows: PromptRows, micro_batch: Any) -> torch.Tensor:
        """Return values at the places where verl looks for them: one before the token that they are of."""
        offsets = micro_batch["input_ids"].offsets()
        tokens = torch.arange(values_BT.shape[1])
        places_BT = (offsets[:-1] + rows.prompt_lengths_P[rows.prompt_B] - 1)[:, None] + tokens
        real_BT = tokens < rows.response_lengths_B[:, None]
        flat = values_BT.new_zeros(int(offsets[-1])).index_put((places_BT[real_BT],), values_BT[real_BT])
        return torch.nested.nested_tensor_from_jagged(flat, offsets)


EngineRegistry.register(
    model_type="language_model", backend=["fsdp2"], device="cuda", vendor=CpuPlatform.vendor_name
)(SharedPromptEngine)
