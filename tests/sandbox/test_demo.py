"""The demo's plan: which commands, in which order, for which recipes and seeds."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.core import TyperGroup

from sandbox.__main__ import parser
from sandbox.demo.plan import FULL, QUICK, DemoPlan, Training, comparisons
from sandbox.demo.steps import Step, demo_steps, step_keys
from service.errors import InputError
from ui.cli.app import SETTINGS, commands

PLAN = DemoPlan(Path("some") / "folder")
LARGE = replace(PLAN, recipes=("grpo_matched", "ta_grpo", "ta_grpo_star"), seeds=2)


def steps_of(plan: DemoPlan, *words: str) -> list[Step]:
    return [step for step in demo_steps(plan) if step.arguments[: len(words)] == words]


@pytest.mark.parametrize("plan", [PLAN, LARGE, replace(PLAN, size=QUICK)], ids=["default", "large", "quick"])
def test_every_step_is_a_command_with_options_it_knows(plan: DemoPlan) -> None:
    for step in demo_steps(plan):
        assert step.title
        assert step.words
        if step.arguments[0] == "sandbox":
            assert parser().parse_args(step.arguments[1:]).command == step.arguments[1]
            assert shlex.split(step.shell) == ["python", "-m", *step.arguments]
            continue
        found, names = commands(), []
        while isinstance(found, TyperGroup):
            names.append(step.arguments[len(names)])
            found = found.commands[names[-1]]
        found.make_context(names[-1], list(step.arguments[len(names) :]), **SETTINGS)
        assert shlex.split(step.shell) == ["tagrpo", *step.arguments]


def test_each_recipe_is_trained_once_a_seed_at_equal_responses() -> None:
    trained = steps_of(LARGE, "train", "run")
    assert [step.arguments[2] for step in trained] == 2 * ["grpo_matched", "ta_grpo", "ta_grpo_star"]
    for place, step in enumerate(trained):
        seed = 1 + place // 3
        of_step = 16 * (8 if step.arguments[2] == "ta_grpo" else 32)
        assert f"verl.trainer.total_training_steps={FULL.responses // of_step}" in step.arguments
        assert {f"run.seed={seed}", f"verl.data.seed={seed}"} <= set(step.arguments)
        assert step.training == Training(step.arguments[2], seed)
    assert len(steps_of(LARGE, "eval", "run")) == 1 + 7 + 3  # pilot; held-out; neighbors of the first seed


def test_models_are_compared_with_the_base_and_with_the_first_recipe() -> None:
    assert comparisons(PLAN) == [
        ("grpo-s1", "base"),
        ("ta_grpo-s1", "base"),
        ("ta_grpo-s1", "grpo-s1"),
    ]
    assert ("ta_grpo_star-s2", "grpo_matched-s2") in comparisons(LARGE)
    assert ("ta_grpo_star-s2", "grpo_matched-s1") not in comparisons(LARGE)


def test_more_recipes_and_seeds_leave_the_trainings_before_them_as_they_are() -> None:
    small, large = step_keys(replace(PLAN, recipes=("grpo_matched", "ta_grpo"))), step_keys(LARGE)
    kept = [key for key in small if key in large]
    left = [key for key in small if key not in large]
    assert [key for key in left if " train run " in key] == []
    assert [key.split()[1:3] for key in left] == [["eval", "report"], ["diagnose", "pilot.sandbox-1"]]
    assert len(kept) == len(small) - 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recipes": ("ta_grpo", "nope")}, "no recipe 'nope'; `tagrpo train recipes` shows them"),
        ({"recipes": ()}, "--recipes is empty"),
        ({"recipes": ("ta_grpo", "ta_grpo")}, "a recipe appears twice"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(PLAN, **change)  # type: ignore[arg-type]
