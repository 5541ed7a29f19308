"""Benchmarks from the Hub, against a small server that speaks its protocol on the loopback."""

import json
from pathlib import Path

import pytest
from hub_folder import HubSet, in_own_process, serve_hub

from evaluator.benchmarks import BENCHMARKS

ROWS = [{"problem": f"What is {n}+{n}?", "answer": f"{2 * n:03}", "solution": "No."} for n in range(30)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
PINNED = {name: BENCHMARKS[name].revision or "" for name in ("aime24", "aime25", "gpqa-diamond")}
SETS = {
    "HuggingFaceH4/aime_2024": HubSet({"train.jsonl": DATA}, PINNED["aime24"]),
    "math-ai/aime25": HubSet({"test.jsonl": DATA}, PINNED["aime25"]),
    "Idavidrein/gpqa": HubSet({"train.jsonl": DATA}, PINNED["gpqa-diamond"], gated=True),
    "org/mine": HubSet({"test.jsonl": DATA}),
}
SCRIPT = """
from evaluator.benchmarks import load_benchmark

def read(name):
    loaded = load_benchmark(name)
    return {"golds": [p.answer for p in loaded.problems], "source": loaded.source, "content": loaded.content}
"""


@pytest.mark.slow
def test_a_benchmark_is_read_at_its_pinned_commit(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('hub = "org/mine"\nkind = "integer"\nrows = 31\n')
    names = ("aime24", "aime25", "gpqa-diamond", "amc23", str(mine))
    with serve_hub(SETS) as hub:
        aime24, aime25, gpqa, missing, other = in_own_process(
            SCRIPT, hub.address, tmp_path, *([name] for name in names)
        )
    assert aime24["golds"] == [str(2 * n) for n in range(30)]
    # A pinned commit is the content, however its rows are spelled.
    assert aime24["content"] == aime25["content"] == "pinned revision"
    assert aime24["source"] == {
        "hub": "HuggingFaceH4/aime_2024",
        "configs": [],
        "split": "train",
        "commit": BENCHMARKS["aime24"].revision,
    }
    assert gpqa["error"] == "PrerequisiteError"
    assert "accept its terms at https://huggingface.co/datasets/Idavidrein/gpqa" in gpqa["message"]
    assert "HF_TOKEN" in gpqa["message"]
    assert missing["error"] == "InputError"
    assert other["error"] == "ChangedBenchmarkError"
    assert "mine has 31 problems, but this source has 30" in other["message"]
