"""What the proofs of the plug-in share: a small model with words of its own for neighbors, data, and runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiny_model import SPECIAL_TOKENS, byte_pieces, byte_tokenizer, tiny_qwen
from verl_exports import export_entries
from verl_run import VerlRun, run_main_ppo

from rephraser.sets.types import Neighbor, SetEntry
from service.questions.question import make_question
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.verl.plugin import REGISTRATION
from trainer_adapter.verl.plugin.overrides import hydra_arguments, recipe_overrides
from trainer_adapter.verl.plugin.settings import RunSettings
from trainer_adapter.verl.prompts import PromptTemplate

ROLLOUTS, QUESTIONS, MINI_BATCH, LONGEST = 6, 4, 2, 12
LIMIT_S = 800
MARKS = 1200
"""Tokens of the vocabulary that only neighbors use; so many that few are ever drawn."""

Schedule = Sequence[tuple[str, dict[str, Any]]]


def save_model(folder: Path) -> Path:
    """Save a random two-layer Qwen 2 whose input and output embeddings are apart, with its tokenizer."""
    marks = [mark(number) for number in range(MARKS)]
    pieces = [*SPECIAL_TOKENS, *byte_pieces(), *marks]
    byte_tokenizer(pieces, [*SPECIAL_TOKENS, *marks]).save_pretrained(folder)
    tiny_qwen(len(pieces), 48, tie_word_embeddings=False).save_pretrained(folder)
    return folder


def mark(number: int) -> str:
    return f"<|n{number}|>"


def export(folder: Path, model: Path, *, repeat: bool = False) -> Path:
    """Export twenty sums; most have two neighbors, some one or none, and each neighbor eight marks.

    With `repeat` every sum has two neighbors that say what it says.
    """

    def neighbor(number: int, text: str) -> Neighbor:
        marks = "" if repeat else " " + "".join(mark(8 * number + place) for place in range(8))
        return Neighbor(f"c_{number}", text + marks, "rules", "rules", "h", "", "unverified", None, False)

    entries = []
    for number in range(20):
        a, b = number % 5, number // 5
        texts = [f"Add {a} to {b}.", f"Find the sum of {a} and {b}."][
            : 1 if number == 7 else 0 if number == 8 else 2
        ]
        if repeat:
            texts = [f"What is {a}+{b}?"] * 2
        neighbors = tuple(neighbor(2 * number + place, text) for place, text in enumerate(texts))
        entries.append(SetEntry(make_question(f"What is {a}+{b}?", str(a + b)), neighbors))
    template = PromptTemplate(instruction="Box it.", tokenizer=str(model), max_prompt_tokens=96)
    export_entries(folder, entries, template)
    return folder / "train.parquet"


def fitted(name: str) -> Recipe:
    """Return a recipe with two neighbors or none, and six responses a question."""
    of_neighbors = {"neighbors": 2, "responses": ROLLOUTS // 3}
    return compose(RECIPES[name], of_neighbors if RECIPES[name].neighbors else {"responses": ROLLOUTS})


def scheduled(names: Sequence[str]) -> Schedule:
    """Return the schedule of a run with one recipe a step."""
    return [
        (name, {"neighbors": fitted(name).neighbors, "responses": fitted(name).responses}) for name in names
    ]


def save_place(folder: Path) -> Path:
    """Save the model and two exports, `set` and `repeated`."""
    save_model(folder / "model")
    export(folder / "set", folder / "model")
    export(folder / "repeated", folder / "model", repeat=True)
    return folder


def start(
    place: Path,
    name: str,
    names: Sequence[str],
    *overrides: str,
    data: str = "set",
    trainer: str = "tagrpo_probe",
    **environment: str,
) -> VerlRun:
    """Train one step with each recipe named, in one run of verl; `place/name` keeps what the probe sees.

    `trainer` "verl" is verl's own, which trains the first recipe in every step.
    """
    folder, rows = place / name, place / data / "train.parquet"
    folder.mkdir()
    probing = trainer == "tagrpo_probe"
    given = {"engine_correction": "token", "poll_interval_s": 0.05, "draw_again": 0.01}
    settings = RunSettings(**(given if probing else {"trainer": trainer}), record=str(folder / "record"))
    of_recipe = recipe_overrides(fitted(names[0]), settings)
    if probing:
        of_recipe |= {"trainer.v1.trainer_mode": trainer, "data.gen_batch_size": 1}
    return run_main_ppo(
        [
            *hydra_arguments(of_recipe),
            f"data.train_files={rows}",
            f"data.val_files={rows}",
            f"data.train_batch_size={QUESTIONS}",
            "data.max_prompt_length=96",
            f"data.max_response_length={LONGEST}",
            f"actor_rollout_ref.model.path={place / 'model'}",
            f"actor_rollout_ref.actor.ppo_mini_batch_size={MINI_BATCH}",
            "actor_rollout_ref.rollout.dtype=float64",  # no token depends on rounding, so on its neighbors
            "actor_rollout_ref.actor.optim.lr=1e-3",
            "actor_rollout_ref.actor.optim.weight_decay=0",
            f"reward.custom_reward_function.path={Path(__file__).parent / 'parity_reward.py'}",
            f"trainer.total_training_steps={len(names)}",
            "trainer.experiment_name=proof",
            "trainer.val_before_train=false",
            "trainer.save_freq=-1",
            "trainer.resume_mode=disable",
            *overrides,
        ],
        folder=folder,
        limit_s=LIMIT_S,
        modules=[REGISTRATION, *(["verl_probe"] if probing else [])],
        environment={
            "TAGRPO_PROBE_FOLDER": str(folder),
            "TAGRPO_PROBE_SCHEDULE": json.dumps(scheduled(names)),
            **environment,
        },
    )


def run(
    place: Path, name: str, names: Sequence[str], *overrides: str, data: str = "set", **environment: str
) -> VerlRun:
    """Do the same, to a good end."""
    ended = start(place, name, names, *overrides, data=data, **environment)
    assert ended.returncode == 0, ended.output[-6000:]
    return ended
