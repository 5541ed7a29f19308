"""`tagrpo demo`: the whole way on a laptop, each step an ordinary command that is printed."""

import os
import shlex
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from evaluator.reports.document import Heading
from service.errors import PrerequisiteError, TagrpoError
from ui.cli import output
from ui.cli.lazy import lazy_imports

with lazy_imports():
    from sandbox import __main__ as sandbox
    from sandbox.demo import folder as folders
    from sandbox.demo import plan as plans
    from sandbox.demo import steps as demo_steps
    from ui import demo_report
    from ui.cli import app

NEEDED = ("torch", "transformers", "verl", "ray", "tensordict", "transfer_queue", "altair", "vl_convert")
"""Modules of the extras that the demo takes."""

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "OMP_NUM_THREADS": str(min(os.cpu_count() or 1, 4)),  # a model this small has no use for many
    "GOMP_SPINCOUNT": "1000",  # next to other programs, waiting threads would keep the cores busy
}


def demo(
    folder: Path | None = None,
    quick: bool = False,
    recipes: str | None = None,
    seeds: Annotated[int, Option(min=1)] = 1,
    responses: Annotated[int | None, Option(min=1)] = None,
) -> None:
    """Run the whole pipeline in a world small enough for a laptop: no GPU, no API key, no network.

    The demo proposes rephrasings, verifies them by comparing answers, and publishes them as a set. Then verl
    trains two recipes on the CPU with equally many responses, and tagrpo evaluates and compares them. Every
    step is an ordinary command that the demo prints. Run the same command again to resume.

    Example: tagrpo demo --quick

    Args:
        folder: Folder for all results. Default: tagrpo-demo, or tagrpo-demo-quick with --quick.
        quick: Use fewer questions and steps: the whole pipeline in a few minutes.
        recipes: Recipes to train and compare, separated by commas; the first is the baseline. `tagrpo train
            recipes` prints their names. Default: grpo,ta_grpo; ta_grpo with --quick.
        seeds: Number of training runs per recipe.
        responses: Number of responses per training run.
    """
    for name, value in ENVIRONMENT.items():  # before the packages that read it are imported
        os.environ.setdefault(name, value)
    size, usual = (plans.FULL, plans.RECIPES_SHOWN) if not quick else (plans.QUICK, plans.QUICK_RECIPES)
    if responses is not None:
        size = replace(size, responses=responses)
    names = usual if recipes is None else tuple(name.strip() for name in recipes.split(","))
    folder = folder or Path("tagrpo-demo-quick" if quick else "tagrpo-demo")
    plan = plans.DemoPlan(folder, size, names, seeds)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise PrerequisiteError(
            f"the demo needs packages that are not installed: {', '.join(missing)}. Run `make demo` in a "
            "clone of tagrpo, or install the extras `train`, `local` and `ui` (docs/install.md)."
        )
    with folders.open_demo_folder(plan) as held:
        _go(plan, held)


def _go(plan: "plans.DemoPlan", held: "folders.DemoFolder") -> None:
    steps, keys = demo_steps.demo_steps(plan), demo_steps.step_keys(plan)
    report, of, db = plan.report / demo_report.REPORT_FILE, len(steps), shlex.quote(str(plan.database))
    done = sum(key in held.done for key in keys)
    if done == of and report.is_file() and held.reported == plan.compared():
        output.say(f"All {of} steps of the demo in {plan.folder} are finished; nothing was changed.")
    else:
        output.say(
            Heading("TA-GRPO on a laptop"),
            f"{done} of {of} steps in {plan.folder} are finished. Each step is an ordinary command, printed "
            f"after a $. {output.plural(len(plan.trainings()), 'training')} of {', '.join(plan.recipes)}, "
            f"{plan.size.responses:,} responses each. You can stop at any time and run the same command to "
            f"resume. The steps run with {demo_steps.speed_settings()}, which affects speed only.",
        )
        chapter = ""
        for number, (step, key) in enumerate(zip(steps, keys, strict=True), start=1):
            if key in held.done:
                continue
            if step.chapter != chapter:
                chapter = step.chapter
                output.say(Heading(f"\n=== {chapter} ==="))
            output.say(Heading(f"\n{number}/{of}  {step.title}"), step.words)
            started = time.monotonic()
            _carry_out(step, f"step {number} of {of}")
            held.finish(key, time.monotonic() - started)
        output.say(Heading("\n=== The report ==="))
        timed = [(step, held.done[key]) for step, key in zip(steps, keys, strict=True)]
        demo_report.write_report(plan, timed)
        held.report(plan.compared())
    output.say(
        Heading("\nResults"),
        str(report),
        "Finished. Try next:",
        f"  tagrpo ui --db {db}    # open the pages: every number links to its responses",
        f"  tagrpo train rollouts {plan.trainings()[-1].name} --limit 5 --db {db}",
    )


def _carry_out(step: "demo_steps.Step", where: str) -> None:
    arguments = step.arguments
    way_on = f"the demo stopped at {where}; run the same command again to resume."
    if step.makes and folders.clear_part(step.makes):
        output.say(f"{step.makes[0]} already exists.")
        return
    output.say(f"$ {shlex.join(step.command)}", "")
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    if arguments[:2] == ("train", "run"):
        os.environ["OMP_NUM_THREADS"] = "1"  # verl's processes share the cores: with 2 a step is slower
    try:
        if arguments[0] == "sandbox":
            code = sandbox.main(arguments[1:])
        else:
            code = app.commands().main(list(arguments), prog_name="tagrpo", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except TagrpoError:
        output.note(way_on)
        raise
    finally:
        os.environ["OMP_NUM_THREADS"] = threads
    if code == output.ATTENTION and step.attention:
        output.say(f"(Exit code {code:d} is expected here: {step.attention}.)")
    elif code:
        output.note(way_on)
        raise typer.Exit(int(code))
