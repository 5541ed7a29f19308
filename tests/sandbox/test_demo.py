"""The demo: which commands, in which order, for which recipes and seeds; one at a time holds its folder."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.core import TyperGroup

from sandbox.__main__ import parser
from sandbox.demo.folder import STATE, open_demo_folder
from sandbox.demo.plan import FULL, QUICK, DemoPlan, comparisons
from sandbox.demo.steps import Step, demo_steps, step_keys
from service.errors import InputError
from ui.cli.app import SETTINGS, commands

ROOT = Path(__file__).parents[2]
PLAN = DemoPlan(Path("some") / "folder")
LARGE = replace(PLAN, recipes=("grpo_matched", "ta_grpo", "ta_grpo_star"), seeds=2)


def steps_of(plan: DemoPlan, *words: str) -> list[Step]:
    return [step for step in demo_steps(plan) if step.arguments[: len(words)] == words]


@pytest.mark.parametrize("plan", [PLAN, LARGE, replace(PLAN, size=QUICK)], ids=["default", "large", "quick"])
def test_every_step_is_a_command_with_options_it_knows(plan):
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


def test_each_recipe_is_trained_once_a_seed_at_equal_responses():
    trained = steps_of(LARGE, "train", "run")
    assert [step.arguments[2] for step in trained] == 2 * ["grpo_matched", "ta_grpo", "ta_grpo_star"]
    for place, step in enumerate(trained):
        seed = 1 + place // 3
        of_step = 16 * (8 if step.arguments[2] == "ta_grpo" else 32)
        assert f"verl.trainer.total_training_steps={FULL.responses // of_step}" in step.arguments
        assert {f"run.seed={seed}", f"verl.data.seed={seed}"} <= set(step.arguments)
        assert f"{step.arguments[2]}-s{seed}" in step.arguments
    assert len(steps_of(LARGE, "eval", "run")) == 1 + 7 + 3  # pilot; held-out; neighbors of the first seed


def test_models_are_compared_with_the_base_and_with_the_first_recipe():
    assert comparisons(PLAN) == [("grpo-s1", "base"), ("ta_grpo-s1", "base"), ("ta_grpo-s1", "grpo-s1")]
    assert ("ta_grpo_star-s2", "grpo_matched-s2") in comparisons(LARGE)
    assert ("ta_grpo_star-s2", "grpo_matched-s1") not in comparisons(LARGE)


def test_more_recipes_and_seeds_leave_the_trainings_before_them_as_they_are():
    small, large = step_keys(replace(PLAN, recipes=("grpo_matched", "ta_grpo"))), step_keys(LARGE)
    kept = [key for key in small if key in large]
    left = [key for key in small if key not in large]
    assert [key for key in left if " train run " in key] == []
    assert [key.split()[1:3] for key in left] == [["eval", "report"], ["diagnose", "pilot.sandbox-1"]]
    assert len(kept) == len(small) - 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recipes": ("ta_grpo", "nope")}, "no recipe 'nope'; `tagrpo train recipes` lists them"),
        ({"recipes": ()}, "--recipes is empty"),
        ({"recipes": ("ta_grpo", "ta_grpo")}, "a recipe appears twice"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        replace(PLAN, **change)  # type: ignore[arg-type]


@pytest.fixture
def plan(tmp_path):
    return DemoPlan(tmp_path / "demo", QUICK)


def test_other_settings_and_a_missing_database_are_refused_by_name(plan):
    with open_demo_folder(plan) as held:
        held.finish("python -m sandbox policy ./policy", 1)
    other = replace(plan, size=replace(QUICK, responses=60))
    changed = r"started with other settings \(responses was 512, now 60\)"
    with pytest.raises(InputError, match=changed), open_demo_folder(other):
        pass
    with open_demo_folder(plan) as held:  # no step has used the database yet
        held.finish("tagrpo questions import x --db ./tagrpo.db", 1)
    with pytest.raises(InputError, match=r"tagrpo\.db: the database is missing"), open_demo_folder(plan):
        pass


@pytest.mark.slow
def test_two_demos_at_once_are_refused(plan):
    script = (
        "import sys; from pathlib import Path\n"
        "from sandbox.demo.plan import QUICK, DemoPlan\n"
        "from sandbox.demo.folder import open_demo_folder\n"
        "with open_demo_folder(DemoPlan(Path(sys.argv[1]), QUICK)):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(plan.folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another demo is running here"), open_demo_folder(plan):
            pass
        other.kill()
    with open_demo_folder(plan) as held:  # a killed one holds nothing
        assert held.done == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "not a demo's state file"),
        (json.dumps({"format": "tagrpo demo", "format_version": 99}), "of this version"),
    ],
)
def test_a_state_that_cannot_be_used_is_named(plan, content, said):
    plan.folder.mkdir()
    (plan.folder / STATE).write_text(content)
    with pytest.raises(InputError, match=said), open_demo_folder(plan):
        pass
