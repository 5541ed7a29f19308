"""Whether training and evaluation work on this machine's GPU: `make gpu-check`, 15 minutes at most.

Trains two steps of `grpo`, `ta_grpo` and `ta_rescue` with a small random Qwen 3 (`--model` names a real one),
evaluates the result, and writes figures, versions and logs to `gpu-check.md` in the current folder. Without a
GPU it trains on the CPU, and the page says so. It exits with 1 and names the problem if anything fails.

    python -m benchmarks.gpu_check
    python -m benchmarks.gpu_check --model Qwen/Qwen3-0.6B
"""

import argparse
import importlib.util
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

LIMIT_S = 900.0
REWARD = Path(__file__).with_name("gpu_reward.py")
RECIPES = ("grpo", "ta_grpo", "ta_rescue")
STEPS = 2
PROBLEMS, SAMPLES = 4, 4
PACKAGES = (
    "verl",
    "vllm",
    "torch",
    "transformers",
    "ray",
    "tensordict",
    "TransferQueue",
    "flash_attn",
    "tagrpo",
)
METRICS = (
    "actor/pg_loss",
    "actor/grad_norm",
    "actor/kl_loss",
    "tagrpo/tokens/mean_length",
    "timing_s/gen",
    "timing_s/update_actor",
    "timing_s/step",
    "actor/perf/max_memory_allocated_gb",
)
_PLACE = re.compile(r"(?<![\w.])/(?:[\w.@+-]+/)+[\w.@+-]*")


@dataclass(frozen=True)
class Outcome:
    """What became of a command: its time, what it printed, and what is wrong; None where nothing is."""

    what: str
    command: str
    seconds: float
    log: str
    problem: str | None
    figures: tuple[str, ...] = ()


def check(model: str | None, *, cpu: bool, limit_s: float = LIMIT_S) -> list[Outcome]:
    """Return what became of the trainings and the evaluation; nothing comes after what failed.

    Args:
        model: a folder, or a name on the Hub; None makes a random Qwen 3.
        cpu: go the CPU's way.
        limit_s: for all together.
    """
    outcomes: list[Outcome] = []
    ends = time.monotonic() + limit_s
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as made:
        folder = Path(made)
        policy = model or str(save_random_model(folder / "model"))
        write_data(folder, policy)
        for recipe in RECIPES:
            outcomes.append(_run(f"train {recipe}", _training(recipe, policy, cpu), folder, ends))
            if outcomes[-1].problem is None:
                outcomes[-1] = _with_metrics(outcomes[-1], folder / recipe)
            if outcomes[-1].problem is not None:
                return outcomes
        outcomes.append(_run("evaluate", _evaluation(folder, cpu), folder, ends))
        if outcomes[-1].problem is None:
            outcomes[-1] = _with_samples(outcomes[-1])
    return outcomes


def save_random_model(folder: Path) -> Path:
    """Save a random Qwen 3 of 1.5 million weights with the sandbox's tokenizer; heads as vLLM takes them."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from sandbox.tokenizer import save_tokenizer

    tokenizer = save_tokenizer(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def write_data(folder: Path, tokenizer: str) -> None:
    """Write an export of eight questions with two rewordings each, and a benchmark of four."""
    from rephraser.sets.types import Neighbor, SetEntry
    from service.questions import make_question
    from trainer_adapter.verl.export import export_verl
    from trainer_adapter.verl.prompts import PromptTemplate

    entries = []
    for number in range(8):
        texts = (f"Add {number} and 3.", f"Which number is {number} plus 3?")
        neighbors = [
            Neighbor(f"c_{number}_{place}", text, "made", "by hand", "", "", "accepted", None, False)
            for place, text in enumerate(texts)
        ]
        question = make_question(f"What is {number} + 3?", str(number + 3))
        entries.append(SetEntry(question, tuple(neighbors)))
    export_verl(
        entries,
        folder / "data",
        template=PromptTemplate(tokenizer=tokenizer, max_prompt_tokens=128),
        data_source="made",
        set_ref="gpu-check@1",
        content_hash="made",
    )
    rows = ({"problem": entry.question.text, "answer": entry.question.answer} for entry in entries[:PROBLEMS])
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "sums.jsonl").write_text(text, encoding="utf-8")


def _training(recipe: str, model: str, cpu: bool) -> list[str]:
    words = ["train", "run", recipe, "--data", "data", "--model", model, f"folder={recipe}", "--name", recipe]
    words += ["--cpu"] if cpu else ["--gpus", "1"]
    words += ["responses=4", *([] if recipe == "grpo" else ["neighbors=2"])]
    words += [
        f"verl.reward.custom_reward_function.path={REWARD}",
        "verl.data.train_batch_size=4",
        "verl.actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "verl.data.max_response_length=64",
        f"verl.trainer.total_training_steps={STEPS}",
        f"verl.trainer.save_freq={STEPS}",
        "verl.actor_rollout_ref.rollout.agent.num_workers=1",  # 48 responses need none of eight
        "verl.reward.num_workers=1",
        "verl.actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    ]
    return words if cpu else [*words, "verl.actor_rollout_ref.rollout.gpu_memory_utilization=0.3"]


def _evaluation(folder: Path, cpu: bool) -> list[str]:
    trained = folder / RECIPES[-1] / "checkpoints" / f"global_step_{STEPS}" / "actor" / "huggingface"
    words = ["eval", "run", "sums.jsonl", "--name", "check", "--model", str(trained)]
    return [
        *words,
        f"sampler={'local' if cpu else 'vllm'}",
        "--n",
        str(SAMPLES),
        "max_tokens=64",
        "--json",
    ]


def _run(what: str, words: Sequence[str], folder: Path, ends: float) -> Outcome:
    command = [sys.executable, "-m", "tagrpo", *words]
    started = time.monotonic()
    print(f"{what} ...", file=sys.stderr, flush=True)
    log = folder / f"{what.replace(' ', '-')}.log"
    problem = None
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(max(1.0, ends - started))
            problem = None if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            problem = "not done within the time that all has (--minutes)"
            process.terminate()  # tagrpo ends what verl has started
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    text = log.read_text(encoding="utf-8", errors="replace")
    return Outcome(what, f"tagrpo {' '.join(words)}", time.monotonic() - started, text, problem)


def _with_metrics(outcome: Outcome, folder: Path) -> Outcome:
    """Return the training's outcome with its figures; a problem where a step or a number is missing."""
    kept = folder / "metrics" / "1.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else []
    steps = {int(each["step"]): each["data"] for each in map(json.loads, lines)}
    trained = [steps[step] for step in sorted(steps) if "actor/pg_loss" in steps[step]]
    if len(trained) != STEPS:
        return _failed(outcome, f"{len(trained)} steps have metrics, {STEPS} were to be trained")
    wrong = [name for data in trained for name in METRICS[:2] if not math.isfinite(data.get(name, math.nan))]
    if wrong:
        return _failed(outcome, f"{wrong[0]} is missing or no finite number")
    if not any(data["actor/grad_norm"] > 0 for data in trained):
        return _failed(outcome, "no step has a gradient: the responses to each question were rewarded alike")
    figures = tuple(
        f"step {number}: " + ", ".join(f"{name} {data[name]:.4g}" for name in METRICS if name in data)
        for number, data in enumerate(trained, start=1)
    )
    return _changed(outcome, figures=figures)


def _with_samples(outcome: Outcome) -> Outcome:
    """Return the evaluation's outcome; a problem where not all samples were drawn."""
    start = outcome.log.find("\n{") + 1
    try:
        record, _ = json.JSONDecoder().raw_decode(outcome.log[start:])
        (run,) = record["runs"]
    except (ValueError, KeyError, TypeError):
        return _failed(outcome, "printed no result")
    if run.get("drawn") != PROBLEMS * SAMPLES:
        return _failed(outcome, f"drew {run.get('drawn')} samples of {PROBLEMS * SAMPLES}")
    return _changed(outcome, figures=(json.dumps(run, ensure_ascii=False)[:300],))


def _failed(outcome: Outcome, problem: str) -> Outcome:
    return _changed(outcome, problem=problem)


def _changed(outcome: Outcome, **changes: Any) -> Outcome:
    return Outcome(**{**vars(outcome), **changes})


def page(outcomes: Sequence[Outcome], device: str, model: str | None, *, cpu: bool) -> str:
    """Return the page about a check, without paths of this machine."""
    failed = next((each for each in outcomes if each.problem is not None), None)
    end = "everything went well" if failed is None else f"**failed** at *{failed.what}*: {failed.problem}"
    lines = [f"# GPU check: {device}", ""]
    if cpu:
        lines += [
            "**No GPU was used.** This went the CPU's way of training (`--cpu`) and took the local sampler:",
            "it says that the check itself works, and nothing about a GPU, vLLM or flash-attn.",
            "",
        ]
    total = sum(each.seconds for each in outcomes)
    lines += [
        f"{datetime.now(UTC):%Y-%m-%d}, {total:.0f} s, policy: {_clean(model or 'a random Qwen 3')}: {end}.",
        "",
    ]
    lines += [
        "| package | version |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in _versions()),
        "",
    ]
    for each in outcomes:
        lines += [f"## {each.what}, {each.seconds:.0f} s", "", "```text", _clean(each.command)]
        lines += [_clean(text) for text in each.figures]
        lines += [*(_clean(line) for line in each.log.splitlines()[-12:]), "```", ""]
        if each.problem is not None:
            lines += [f"Failed: {each.problem}.", ""]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _PLACE.sub("...", text).rstrip()[:400]


def _versions() -> Iterator[tuple[str, str]]:
    yield "Python", sys.version.split()[0]
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"
    if driver := _driver():
        yield "GPU, driver", driver


def _driver() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip().replace("\n", "; ") or None


def gpu_name() -> str | None:
    """Return the name of the first GPU that torch sees; None where there is none."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def main(words: Sequence[str] | None = None) -> int:
    """Check, write the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--model", help="small Qwen 3: a folder, or a name on the Hub; by default a random one"
    )
    parser.add_argument("--cpu", action="store_true", help="go the CPU's way although a GPU is here")
    parser.add_argument("--out", type=Path, default=Path("gpu-check.md"), help="page to write")
    parser.add_argument("--minutes", type=float, default=LIMIT_S / 60, help="that all may take")
    given = parser.parse_args(words)
    lacking = [name for name in ("torch", "verl") if importlib.util.find_spec(name) is None]
    if lacking:
        print(f"gpu-check: {' and '.join(lacking)} not installed; see docs/train.md", file=sys.stderr)
        return 2
    name = None if given.cpu else gpu_name()
    if name is None:
        print("gpu-check: NO GPU IS USED; this goes the CPU's way and says nothing of a GPU", file=sys.stderr)
    outcomes = check(given.model, cpu=name is None, limit_s=60 * given.minutes)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(page(outcomes, name or "CPU", given.model, cpu=name is None), encoding="utf-8")
    failed = [each for each in outcomes if each.problem is not None]
    for each in failed:
        print(f"gpu-check: {each.what}: {each.problem}", file=sys.stderr)
        print("\n".join(each.log.splitlines()[-20:]), file=sys.stderr)
    print(f"gpu-check: {'FAILED' if failed else 'done'}, {given.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
