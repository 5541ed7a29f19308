"""The plan of a demo: size, recipes, seeds and paths."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose

QUESTIONS, CANDIDATES, PILOT, BASE, HELDOUT = "sandbox", "candidates", "pilot", "base", "heldout"
"""Names in the demo's database: the question and neighbor set, the run that proposes, the eval runs."""

PLAN_VERSION = 8
"""Counts changes of the demo's commands: what an older demo left is not gone on with by other commands."""

RECIPES_SHOWN = ("grpo", "ta_grpo")
QUICK_RECIPES = ("ta_grpo",)
"""One training, because verl needs most of a minute to start."""
LEARNING_RATES = {"grpo": 2e-4, "ta_grpo": 1e-4, "ta_rescue": 1e-4}
"""Of the recipes that were tuned in world A (`docs/studies/recipes.md`); others train at `LEARNING_RATE`."""
LEARNING_RATE = 3e-4
NEIGHBORS, G = 3, 2
"""Neighbors per question, and responses per text of a joint group: 8 per question, as in GRPO."""
CHANGES: dict[str, dict[str, Any]] = {"ta_grpo": {"responses": G}}
"""The demo's changes of recipes."""
KS = (1, 2, 4, 8, 16, 32)


def demo_recipe(name: str) -> Recipe:
    """Return a recipe as the demo trains it."""
    return compose(RECIPES[name], CHANGES.get(name, {}))


@dataclass(frozen=True)
class DemoSize:
    """How much the demo does; none of it may change while a demo's folder is in use."""

    world: str = "A"  # of the sandbox
    train: int = 96  # questions
    heldout: int = 128
    responses: int = 3584  # of each training, so that recipes compare at equal responses
    samples: int = 32  # responses to a held-out question
    pilot: int = 8  # responses to a prompt of the neighbor set
    questions_a_step: int = 16
    mini_batch: int = 8  # questions


FULL = DemoSize()
QUICK = DemoSize(train=32, heldout=40, responses=512, samples=32)


@dataclass(frozen=True)
class DemoPlan:
    """What is asked for: where, how much, by which recipes, with how many seeds."""

    folder: Path
    size: DemoSize = FULL
    recipes: tuple[str, ...] = RECIPES_SHOWN
    seeds: int = 1

    def __post_init__(self) -> None:
        if not self.recipes:
            raise InputError("--recipes is empty; give names of `tagrpo train recipes`, with commas.")
        if len(set(self.recipes)) < len(self.recipes):
            raise InputError(f"--recipes {','.join(self.recipes)}: a recipe appears twice. Remove one.")
        for name in set(self.recipes) - RECIPES.keys():
            raise InputError(f"there is no recipe {name!r}; `tagrpo train recipes` lists them.")

    @property
    def database(self) -> Path:
        return self.folder / "tagrpo.db"

    @property
    def policy(self) -> Path:
        return self.folder / "policy"

    @property
    def solver(self) -> Path:
        return self.folder / "solver"

    @property
    def truth(self) -> Path:
        return self.folder / "truth.jsonl"

    @property
    def report(self) -> Path:
        return self.folder / "report"

    def fixed(self) -> dict[str, Any]:
        """Return what a second run in the same folder may not change."""
        return {"plan": PLAN_VERSION, **asdict(self.size)}

    def compared(self) -> dict[str, Any]:
        """Return what the report is about, which a second run may change."""
        return {"recipes": list(self.recipes), "seeds": self.seeds}

    def trainings(self) -> "list[Training]":
        """Return the trainings, seed by seed, so that every seed is a comparison of its own."""
        return [Training(recipe, seed) for seed in range(1, self.seeds + 1) for recipe in self.recipes]

    def run_folder(self, training: "Training") -> Path:
        return self.folder / "runs" / training.name

    def steps(self, recipe: str) -> int:
        """Return the steps in which a recipe draws its responses, rounded; one at least."""
        return max(1, round(self.size.responses / self.drawn_a_step(recipe)))

    def drawn_a_step(self, recipe: str) -> int:
        """Return the responses that a recipe draws in a step, where it drops no group."""
        return self.size.questions_a_step * demo_recipe(recipe).rollouts

    def model(self, training: "Training") -> Path:
        """Return the trained model, which verl writes beside its own checkpoint for transformers to read."""
        last = f"global_step_{self.steps(training.recipe)}"
        return self.run_folder(training) / "checkpoints" / last / "actor" / "huggingface"


@dataclass(frozen=True)
class Training:
    """One training of the demo."""

    recipe: str
    seed: int

    @property
    def name(self) -> str:
        """Of the run, in its folder and in the database."""
        return f"{self.recipe}-s{self.seed}"


def comparisons(plan: DemoPlan) -> list[tuple[str, str]]:
    """Return which runs are compared: with the base, and the recipes with the first one, seed by seed."""
    pairs = [(each.name, BASE) for each in plan.trainings()]
    first, *others = plan.recipes
    for seed in range(1, plan.seeds + 1):
        pairs += [(Training(each, seed).name, Training(first, seed).name) for each in others]
    return pairs
