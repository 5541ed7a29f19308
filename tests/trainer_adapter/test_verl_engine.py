"""The CPU's engine: losses, gradients and outputs are those of verl's own engine, which reads row by row."""

from pathlib import Path

import pytest
from forks import Forks
from verl_code import result_of

COMPARED = """
import functools, json
from types import SimpleNamespace
import torch, verl
from tensordict import NonTensorData, NonTensorStack, TensorDict
from transformers import Qwen3Config, Qwen3ForCausalLM
from verl.utils import tensordict_utils
from verl.utils.torch_functional import entropy_from_logits
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.utils.padding import no_padding_2_padding
from trainer_adapter.verl.cpu.engine import SharedPromptEngine, can_share_prompts

torch.manual_seed(0)
torch.set_num_threads(1)
config = Qwen3Config(
    vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, max_position_embeddings=64, attn_implementation="sdpa",
)
model = Qwen3ForCausalLM(config).double()
prompts = [torch.randint(0, 50, (n,)) for n in (3, 7, 5)]


def draw(of):
    global lengths, rows
    lengths = of
    rows = [(prompts[row % 3], torch.randint(0, 50, (n,))) for row, n in enumerate(lengths)]

def jagged(parts):
    return torch.nested.as_nested_tensor(parts, layout=torch.jagged)

def batch(temperature):
    data = TensorDict(
        {
            "prompts": jagged([prompt for prompt, _ in rows]),
            "responses": jagged([response for _, response in rows]),
            "input_ids": jagged([torch.cat(row) for row in rows]),
            "position_ids": jagged([torch.arange(len(torch.cat(row))) for row in rows]),
        },
        batch_size=len(rows),
    )
    tensordict_utils.assign_non_tensor(
        data, use_remove_padding=False, calculate_entropy=True, temperature=temperature
    )
    return data

def loss(model_output, data, dp_group):
    log_probs = no_padding_2_padding(model_output["log_probs"], data)
    entropy = no_padding_2_padding(model_output["entropy"], data)
    weights = torch.linspace(-1, 1, log_probs.numel()).view_as(log_probs)
    real = torch.arange(log_probs.shape[1]) < torch.tensor(lengths)[:, None]
    return ((log_probs * weights + entropy * 0.3) * real).sum(), {}

def step(kind, temperature):
    engine = object.__new__(kind)
    engine.module, engine._autocast_dtype = model, torch.float32
    engine.engine_config = SimpleNamespace(entropy_checkpointing=False)
    engine.pad_to_length = engine.use_ulysses_sp = False
    engine.compute_entropy_from_logits = entropy_from_logits
    engine.get_data_parallel_group = lambda: None
    model.zero_grad()
    data = batch(temperature)
    value, output = kind.forward_step(engine, data, loss, False)
    value.backward()
    shown = [no_padding_2_padding(output["model_output"][name], data) for name in ("log_probs", "entropy")]
    return [value.detach()] + shown + [each.grad.clone() for each in model.parameters()]

read = model.forward

def compare(of):
    draw(of)
    gaps = []
    for temperature in (1.0, 0.7):
        ours, verls = (step(kind, temperature) for kind in (SharedPromptEngine, FSDPEngineWithLMHead))
        real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        gaps += [
            float(((a - b) * (real if a.shape == real.shape else 1)).abs().max() / (1 + b.abs().max()))
            for a, b in zip(ours, verls, strict=True)
        ]
        assert len(gaps) > 20 and float(model.lm_head.weight.grad.abs().max()) > 0.1
    calls = []

    @functools.wraps(read)
    def forward(**kwargs):
        calls.append(tuple(kwargs["input_ids"].shape))
        return read(**kwargs)

    model.forward = forward
    step(SharedPromptEngine, 1.0)
    del model.forward
    return {"gap": max(gaps), "read": calls}

def shares(inputs):
    data = batch(1.0)
    if inputs is not None:
        data["multi_modal_inputs"] = NonTensorStack(*(NonTensorData(inputs) for _ in rows))
    engine = object.__new__(SharedPromptEngine)
    engine.module = model
    return SharedPromptEngine._can_share(engine, data)

window = Qwen3Config(
    **{**config.to_dict(), "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0,
       "layer_types": ["sliding_attention"] * 2}
)
print("RESULT " + json.dumps({
    "compared": [compare(of) for of in ([4, 9, 1, 6, 2, 9, 3], [1, 1, 1, 1])],
    "engine": EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__,
    "full": can_share_prompts(model),
    "text": [shares(None), shares({})],
    "images": shares({"pixel_values": torch.ones(1, 3)}),
    "window": can_share_prompts(Qwen3ForCausalLM(window)),
}))
"""


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_shared_prompts_change_no_number(verl_forks: Forks, tmp_path: Path) -> None:
    found = result_of(verl_forks, COMPARED, tmp_path)
    assert [of["read"] for of in found["compared"]] == [[[3, 7], [7, 8]], [[3, 7], [4, 1]]]
    # the norms of transformers calculate in single precision
    assert max(of["gap"] for of in found["compared"]) < 1e-6
    assert found["engine"] == "SharedPromptEngine"
    assert found["full"] is True
    assert found["window"] is False
    assert found["text"] == [True, True]
    assert found["images"] is False
