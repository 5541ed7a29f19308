"""Samples per second of the local sampler, against transformers' `generate`.

A random Llama of some 14 million parameters (32,000 tokens, an end token about every hundred) draws
the same problems by the same settings, each side in a process of its own, in alternation: naive is `generate`
with a cache for one sample after the other; batched is `generate` over batches of 64 rows with padding, which
wait for their longest row; the sampler leases cells from a database and stores every text. Naive draws one
sample of each problem, as its speed does not depend on how many there are.

    python -m benchmarks.speed.sampling [--problems 64] [--samples 8] [--tokens 192] [--rounds 1]

The last line is one JSON object: the ratios (by the clock, and by seconds of CPU, which other work on the
machine hardly changes), samples and tokens per second of each side, peak memory in MB.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import peak_mb, run_apart

BATCH = 64
TEMPERATURE, TOP_P = 0.6, 0.95
VOCABULARY = 32_000
SIDES = ("naive", "batched", "sampler")


def texts(count: int) -> list[str]:
    """Return problems of 40 to 400 bytes, which are as many tokens."""
    draw = random.Random(0)
    return [f"{number}: " + "add one and two, " * draw.randrange(2, 24) for number in range(count)]


def save_model(folder: Path) -> int:
    """Save a random Llama with a tokenizer of one token a byte; return the number of its parameters."""
    import torch
    from tiny_model import CHAT_TEMPLATE, SPECIAL_TOKENS
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2TokenizerFast

    pieces = [*SPECIAL_TOKENS, *sorted(ByteLevel.alphabet())]
    pieces += [f"w{number}" for number in range(VOCABULARY - len(pieces))]
    tokenizer = Qwen2TokenizerFast(
        vocab={piece: number for number, piece in enumerate(pieces)},
        merges=[],
        unk_token=SPECIAL_TOKENS[0],
        pad_token=SPECIAL_TOKENS[0],
        eos_token=SPECIAL_TOKENS[2],
        additional_special_tokens=list(SPECIAL_TOKENS[1:]),
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=256,
            intermediate_size=1024,
            num_hidden_layers=6,
            num_attention_heads=8,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=[2, *range(1000, VOCABULARY, 100)],
            pad_token_id=0,
        )
    )
    model.lm_head.weight.data.mul_(16)  # so that nuclei hold tens of tokens, not tens of thousands
    for layer in model.model.layers:
        layer.mlp.down_proj.weight.data.mul_(20)
        layer.self_attn.o_proj.weight.data.mul_(20)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def naive(model: Any, prompts: list[list[int]], samples: int, tokens: int) -> Iterator[list[int]]:
    """Draw one sample of each prompt, one after the other."""
    import torch

    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings(tokens))
        yield out[0, len(prompt) :].tolist()


def batched(model: Any, prompts: list[list[int]], samples: int, tokens: int) -> Iterator[list[int]]:
    """Draw all samples in batches of 64 rows, sorted by length and padded on the left."""
    import torch

    rows = sorted((prompt for prompt in prompts for _ in range(samples)), key=len)
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        width = max(len(row) for row in part)
        ids = torch.tensor([[0] * (width - len(row)) + row for row in part])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in part])
        out = model.generate(ids, attention_mask=mask, **settings(tokens))[:, width:]
        stops = set(model.generation_config.eos_token_id)
        for row in out.tolist():
            end = next((place for place, token in enumerate(row) if token in stops), len(row) - 1)
            yield row[: end + 1]


def settings(tokens: int) -> dict[str, Any]:
    """Return the arguments of `generate` for the same settings as the sampler's."""
    return {
        "do_sample": True,
        "temperature": TEMPERATURE,
        "top_p": TOP_P,
        "top_k": 0,
        "max_new_tokens": tokens,
        "use_cache": True,
    }


def draw(side: str, folder: Path, problems: int, samples: int, tokens: int) -> dict[str, float]:
    """Draw with one side in this process; return seconds, samples, tokens, and peak MB."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, logging

    logging.set_verbosity_error()
    if side == "sampler":
        return sampled(folder, problems, samples, tokens)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    prompts = [
        tokenizer(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            ),
            add_special_tokens=False,
        )["input_ids"]
        for text in texts(problems)
    ]
    run = {"naive": naive, "batched": batched}[side]
    with torch.inference_mode():
        list(run(model, prompts[:1], 1, 2))
        began, began_cpu = time.perf_counter(), time.process_time()
        drawn = list(run(model, prompts, samples, tokens))
        for one in drawn:
            tokenizer.decode(one)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "samples": len(drawn), "tokens": sum(map(len, drawn))}


def sampled(folder: Path, problems: int, samples: int, tokens: int) -> dict[str, float]:
    """Draw with the local sampler into a database; loading the weights is not counted, planning is."""
    from sampling_runs import plan_run, stored_samples

    from evaluator.evals.problems import make_problem
    from service.database import Database
    from service.models.local import LocalSampler

    sampler = LocalSampler(str(folder), device="cpu", batch_size=BATCH)
    given = {"temperature": TEMPERATURE, "top_p": TOP_P}
    with tempfile.TemporaryDirectory() as place, Database.open(Path(place) / "sampling.db") as db:
        warm_up = plan_run(db, 1, problems=1, name="warm-up", max_tokens=2, **given)
        sampler.fill(warm_up, lambda *_: None)
        began, began_cpu = time.perf_counter(), time.process_time()
        chosen = [make_problem(text, "3") for text in texts(problems)]
        work = plan_run(db, samples, problems=chosen, max_tokens=tokens, **given)
        sampler.fill(work, lambda _, words: print(words, file=sys.stderr))
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        stored = stored_samples(work)
    total = sum(one.completion_tokens or 0 for one in stored)
    if len(stored) != problems * samples:
        raise RuntimeError(f"{len(stored)} of {problems * samples} samples are there")
    return {"seconds": seconds, "cpu_seconds": cpu, "samples": len(stored), "tokens": total}


def measure(problems: int, samples: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Return what the last line holds; each round measures all sides in turn."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        parameters = save_model(Path(folder))
        for number in range(rounds):
            for side, results in found.items():
                sizes = ("--problems", problems, "--samples", samples, "--tokens", tokens)
                result = run_apart(__file__, "--side", side, "--folder", folder, *sizes)
                results.append(result)
                print(
                    f"round {number + 1}, {side}: {result['samples'] / result['seconds']:.2f} samples/s, "
                    f"{result['tokens'] / result['seconds']:,.0f} tokens/s, peak {result['peak_mb']:,.0f} MB",
                    flush=True,
                )

    def rate(side: str, what: str, per: str = "seconds") -> float:
        return statistics.median(one[what] / one[per] for one in found[side])

    return {
        "problems": problems,
        "samples": samples,
        "max_tokens": tokens,
        "parameters": parameters,
        "local_ratio": round(rate("sampler", "samples") / rate("naive", "samples"), 2),
        "local_cpu_ratio": round(
            rate("sampler", "samples", "cpu_seconds") / rate("naive", "samples", "cpu_seconds"), 2
        ),
        "local_token_ratio": round(rate("sampler", "tokens") / rate("naive", "tokens"), 2),
        "local_to_batched_ratio": round(rate("sampler", "samples") / rate("batched", "samples"), 2),
        **{f"{side}_samples_per_second": round(rate(side, "samples"), 2) for side in SIDES},
        **{f"{side}_tokens_per_second": round(rate(side, "tokens"), 1) for side in SIDES},
        **{f"{side}_peak_mb": round(max(one["peak_mb"] for one in found[side]), 1) for side in SIDES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=64)
    parser.add_argument("--samples", type=int, default=8, help="of each problem")
    parser.add_argument("--tokens", type=int, default=192, help="most tokens of a response")
    parser.add_argument("--rounds", type=int, default=1, help="how often all sides are measured")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        result = draw(options.side, options.folder, options.problems, options.samples, options.tokens)
        result["peak_mb"] = peak_mb()
        print(json.dumps(result))
        return
    print(json.dumps(measure(options.problems, options.samples, options.tokens, options.rounds)))


if __name__ == "__main__":
    main()
