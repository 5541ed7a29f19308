"""A policy of another make on the corpus of a world, for `sandbox_plain.py --policy`.

    python -m benchmarks.studies.sandbox_other_policy FOLDER --world E --make gpt2
    python -m benchmarks.studies.sandbox_other_policy FOLDER --world E --make qwen3 --steps 500

`gpt2` has learned positions, LayerNorm, GELU and untied embeddings, as wide and deep as the world's own
policy, and is trained by AdamW (1,700 steps of 64 examples); `qwen3` is the world's own, ended after
`--steps` of its 1,000 steps. Both see the same examples in the same order. The last line is one JSON object
with the loss at the end, in nats a token.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from sandbox.corpus import draw_examples
from sandbox.pretraining import SHAPE, encode, pretrain
from sandbox.tokenizer import END, PAD, make_tokenizer
from sandbox.worlds import World, find_world

BATCH, RATE, WARM_UP, REPORT_EVERY = 64, 3e-3, 50, 100


def train_gpt2(world: World, tokenizer: Any, steps: int) -> tuple[Any, float]:
    """Return a GPT-2 trained on the world's corpus, and its mean loss over the last steps."""
    from transformers import GPT2Config, GPT2LMHeadModel

    end, pad = tokenizer.convert_tokens_to_ids(END), tokenizer.convert_tokens_to_ids(PAD)
    sizes = {"n_positions": 256, "n_embd": SHAPE.width, "n_layer": SHAPE.layers, "n_head": SHAPE.heads}
    tokens = {"eos_token_id": end, "bos_token_id": None, "pad_token_id": pad}
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), tie_word_embeddings=False, **sizes, **tokens, **drop)
    )
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = end, pad
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    examples, losses = draw_examples(world, 0), []
    for step in range(steps):
        decay = 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP) * (0.95 * decay + 0.05)
        rows = encode(tokenizer, list(islice(examples, BATCH)))
        width = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), width), pad)
        learnt = torch.zeros((len(rows), width), dtype=torch.bool)
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)] = torch.tensor(row.ids)
            learnt[place, row.begin : len(row.ids)] = True
        hidden = model.transformer(ids[:, :-1]).last_hidden_state
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden[learnt[:, 1:]]), ids[learnt])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % REPORT_EVERY == 0:
            print(step + 1, round(sum(losses[-REPORT_EVERY:]) / REPORT_EVERY, 4), flush=True)
    last = losses[-REPORT_EVERY:]
    return model.eval(), sum(last) / len(last)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a new folder for the policy")
    parser.add_argument("--world", default="E")
    parser.add_argument("--make", choices=("gpt2", "qwen3"), default="gpt2")
    parser.add_argument("--steps", type=int, help="1,700 of gpt2, 500 of qwen3")
    parser.add_argument("--threads", type=int, default=1)
    said = parser.parse_args()
    if said.folder.exists():
        parser.error(f"{said.folder} exists; name a new folder")
    torch.set_num_threads(said.threads)
    world, tokenizer = find_world(said.world), make_tokenizer()
    if said.make == "gpt2":
        steps = said.steps or 1700
        model, loss = train_gpt2(world, tokenizer, steps)
    else:
        steps, reports = said.steps or 500, []
        model = pretrain(world, tokenizer, seed=0, threads=said.threads, report=reports.append, stop=steps)
        loss = reports[-1].loss
    model.save_pretrained(said.folder)
    tokenizer.save_pretrained(said.folder)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"make": said.make, "steps": steps, "loss": round(loss, 4), "parameters": size}))


if __name__ == "__main__":
    main()
