"""Seconds of a training step of real verl on the CPU: our `ta_grpo` against verl's own `grpo`.

Both sides run `python -m verl.trainer.main_ppo` with the same CPU platform and rollout, model, reward
function, questions a step, responses a question (ours 3 neighbors, 4 x 8; verl's 32 to the question), KL
reference and two mini-batches. The stock side is verl's own trainer, agent loop, estimator and loss; its
replay buffer looks for finished responses as often as ours, which verl's own does every two seconds only. The
sides run in alternation, each run in processes of its own; the first two steps of a run are not counted.

The policy is a Qwen 3 of 0.36 million parameters and one token a byte, taught for a minute to answer in 10 to
40 tokens and to be right one time in four. It hardly changes (learning rate 1e-6), so both sides draw
responses of the same length; the last line has the mean lengths, and the overhead by tokens.

    python -m benchmarks.speed.verl_step [--questions 16] [--steps 8] [--rounds 2]

The last line is one JSON object: median seconds of a step and of its phases for each side, the overhead in
per cent, what our metrics and our rollout record cost, and the seconds until the first step began.
"""

import argparse
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROLLOUTS, NEIGHBORS = 32, 3
LONGEST_PROMPT, LONGEST_RESPONSE = 64, 40
WARM_UP = 2
PHASES = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights")
SIDES = ("stock", "ours")
LIMIT_S = 400.0
TEACHING_STEPS = 160
_FILLERS = ("so", "we add", "then", "split it", "by tens", "and ones", "it is")


def save_policy(folder: Path) -> None:
    """Teach a small Qwen 3 to answer with a digit of four."""
    import torch
    from tiny_model import save_tiny_tokenizer
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    save_tiny_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=24,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    draw = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(TEACHING_STEPS):
        rows, starts = [], []
        for _ in range(48):
            asked = tokenizer.apply_chat_template(
                [{"role": "user", "content": draw.choice(phrasings(draw.randrange(10_000)))}],
                add_generation_prompt=True,
                return_dict=False,
            )
            starts.append(len(asked))
            rows.append([*asked, *tokenizer(trace(draw))["input_ids"], end])
        width = max(map(len, rows))
        ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
        labels = ids.clone()
        for place, (row, start) in enumerate(zip(rows, starts, strict=True)):
            labels[place, :start] = labels[place, len(row) :] = -100
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


def phrasings(number: int) -> list[str]:
    """Return a question and its neighbors, of 17 to 23 bytes."""
    a, b = divmod(number, 100)
    return [
        f"What is {a:02d} + {b:02d}?",
        f"Add {a:02d} to {b:02d} now.",
        f"Sum of {a:02d} and {b:02d}:",
        f"{a:02d} and {b:02d} make what?",
    ]


def trace(draw: random.Random) -> str:
    """Return a response of 10 to 38 bytes whose answer is one of four digits."""
    words = "".join(f"{draw.choice(_FILLERS)} " for _ in range(draw.randrange(0, 6)))[:28]
    return f"{words}\\boxed{{{draw.randrange(4)}}}"


def export(folder: Path, model: Path, count: int) -> None:
    """Export questions with their neighbors, and without any for the stock side."""
    from rephraser.sets.types import Neighbor, SetEntry
    from service.questions import make_question
    from trainer_adapter.verl.export import export_verl
    from trainer_adapter.verl.prompts import PromptTemplate

    draw = random.Random(1)
    for name, kept in (("ours", NEIGHBORS), ("stock", 0)):
        entries = []
        for place, number in enumerate(random.Random(2).sample(range(10_000), count)):
            first, *others = phrasings(number)
            neighbors = tuple(
                Neighbor(f"c_{place}_{k}", text, "rules", "rules", "h", "", "unverified", None, False)
                for k, text in enumerate(others[:kept])
            )
            entries.append(SetEntry(make_question(first, str(draw.randrange(4))), neighbors))
        export_verl(
            tuple(entries),
            folder / name,
            layout="grouped" if kept else "flat",
            template=PromptTemplate(instruction="", tokenizer=str(model), max_prompt_tokens=LONGEST_PROMPT),
            data_source="sums",
            set_ref="sums@1",
            content_hash="0",
        )


def arguments(side: str, folder: Path, place: Path, options: argparse.Namespace) -> list[str]:
    """Return what verl is told on one side."""
    from trainer_adapter.methods.recipes import RECIPES
    from trainer_adapter.verl.plugin.overrides import hydra_arguments, recipe_overrides
    from trainer_adapter.verl.plugin.settings import RunSettings

    train = next((folder / side).glob("train*.parquet"))
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    common: dict[str, Any] = {
        "data.train_files": str(train),
        "data.val_files": str(train),
        "data.train_batch_size": options.questions,
        "data.max_prompt_length": LONGEST_PROMPT,
        "data.max_response_length": LONGEST_RESPONSE,
        "data.seed": 42,
        "actor_rollout_ref.model.path": str(folder / "policy"),
        f"{actor}.ppo_mini_batch_size": options.questions // 2,
        f"{actor}.optim.lr": 1e-6,
        "reward.custom_reward_function.path": "pkg://trainer_adapter.verl.reward",
        "reward.custom_reward_function.name": "compute_score",
        "trainer.total_training_steps": options.steps,
        "trainer.experiment_name": side,
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": -1,
        "trainer.resume_mode": "disable",
    }
    if side == "stock":
        common |= {
            "trainer.v1.trainer_mode": "sync",
            "trainer.v1.sampler.custom_sampler.path": str(Path(__file__).with_name("verl_step_buffer.py")),
            "trainer.v1.sampler.custom_sampler.name": "OftenPolled",
            "algorithm.adv_estimator": "grpo",
            f"{rollout}.n": ROLLOUTS,
            f"{actor}.use_kl_loss": True,
            f"{actor}.kl_loss_coef": 0.001,
            f"{actor}.kl_loss_type": "low_var_kl",
        }
        return [*hydra_arguments(common), *options.override]
    settings = RunSettings(poll_interval_s=options.poll, record=str(place / "record"))
    return [*hydra_arguments(recipe_overrides(RECIPES["ta_grpo"], settings) | common), *options.override]


def run(side: str, folder: Path, number: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train on one side; return the steps that count, and the seconds until the first began."""
    from verl_run import run_main_ppo
    from verl_step_probe import FIT_MARK

    from trainer_adapter.verl.plugin import REGISTRATION

    place = folder / f"{side}-{number}"
    place.mkdir()
    began, began_clock = time.time(), time.perf_counter()
    ended = run_main_ppo(
        arguments(side, folder, place, options),
        folder=place,
        limit_s=LIMIT_S,
        modules=[*([REGISTRATION] if side == "ours" else []), "verl_step_probe"],
        environment={
            "TAGRPO_BENCHMARK_POLL_S": str(options.poll),
        },
    )
    whole = time.perf_counter() - began_clock
    if ended.returncode != 0 or len(ended.steps) != options.steps:
        raise RuntimeError(f"{side}: verl ended with {ended.returncode}\n{ended.output[-6000:]}")
    fit = re.search(rf"{FIT_MARK} ([\d.]+)", ended.output)
    if fit is None:
        raise RuntimeError(f"{side}: verl did not say when training began")
    return {"start_s": float(fit[1]) - began, "whole_s": whole, "steps": ended.steps[WARM_UP:]}


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one side's numbers over the steps of all its runs."""
    steps = [step for one in runs for step in one["steps"]]

    def median(name: str) -> float:
        return statistics.median(step[name] for step in steps)

    found: dict[str, Any] = {
        "step_s": median("timing_s/step"),
        **{f"{name}_s": median(f"timing_s/{name}") for name in PHASES},
        **{
            f"{name}_s": median(f"timing_s/{name}")
            for name in ("our_metrics", "our_record")
            if f"timing_s/{name}" in steps[0]
        },
        "response_tokens": statistics.mean(step["response_length/mean"] for step in steps),
        "prompt_tokens": statistics.mean(step["prompt_length/mean"] for step in steps),
        "start_s": statistics.median(one["start_s"] for one in runs),
        "whole_s": statistics.median(one["whole_s"] for one in runs),
    }
    found["between_phases_s"] = found["step_s"] - sum(found[f"{name}_s"] for name in PHASES)
    return {name: round(value, 4) for name, value in found.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the last line; each round runs both sides in turn."""
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as held:
        folder = Path(options.folder or held)
        folder.mkdir(exist_ok=True, parents=True)
        if not (folder / "policy" / "config.json").is_file():
            save_policy(folder / "policy")
            export(folder, folder / "policy", options.questions * options.steps)
        for number in range(options.rounds):
            # Who goes first changes, so that a machine that warms up or tires favours neither.
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                runs[side].append(run(side, folder, number, options))
                found = medians(runs[side][-1:])
                print(f"round {number + 1}, {side}: {json.dumps(found)}", flush=True)
    sides = {side: medians(found) for side, found in runs.items()}
    stock, ours = sides["stock"], sides["ours"]
    by_token = stock["step_s"] / stock["response_tokens"], ours["step_s"] / ours["response_tokens"]
    return {
        "questions": options.questions,
        "responses": ROLLOUTS * options.questions,
        "steps": options.steps,
        "rounds": options.rounds,
        "overhead_percent": round(100 * (ours["step_s"] / stock["step_s"] - 1), 1),
        "overhead_percent_by_token": round(100 * (by_token[1] / by_token[0] - 1), 1),
        "our_metrics_percent": round(100 * ours["our_metrics_s"] / stock["step_s"], 1),
        "our_record_percent": round(100 * ours["our_record_s"] / stock["step_s"], 1),
        **sides,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=16, help="of a step, each with 32 responses")
    parser.add_argument("--steps", type=int, default=8, help=f"of a run; the first {WARM_UP} are not counted")
    parser.add_argument("--rounds", type=int, default=2, help="how often both sides are run")
    parser.add_argument("--poll", type=float, default=0.05, help="seconds between two looks for responses")
    parser.add_argument("--folder", type=Path, help="keeps model, data and logs here")
    parser.add_argument("--override", action="append", default=[], help="for verl, on both sides")
    options = parser.parse_args()
    if options.steps <= WARM_UP or options.questions % 2:
        parser.error(f"give more than {WARM_UP} steps, and an even number of questions")
    # verl's processes find the probe there
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
