"""`tagrpo train`: list, show, plan, run."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ui.cli import output
from ui.cli.output import DbOption, JsonOption
from ui.cli.train import reports as reports

if TYPE_CHECKING:
    from trainer_adapter.runs.assignments import Assigned
    from trainer_adapter.runs.composing import Machine
    from trainer_adapter.runs.running import Wanted

app = typer.Typer(
    no_args_is_help=True,
    help="Train a policy with verl by a recipe: choose, plan, run, go on.",
    epilog="Example: tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4",
)

RecipeArgument = Annotated[
    str, typer.Argument(help="Name of `tagrpo train list`, or a TOML file.", show_default=False)
]
ChangesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="KEY=VALUE: an axis (anchor=own, loss.kl_coef=0), a setting of the plug-in (tagrpo_run.seed=7), "
        "or an override of verl's configuration (trainer.save_freq=5).",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder of `tagrpo sets export --to verl`.", show_default=False),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="Policy: a folder, or a name on the Hub.", show_default=False),
]
GpusOption = Annotated[int, typer.Option("--gpus", min=1, help="GPUs of each node.")]
NodesOption = Annotated[int, typer.Option("--nodes", min=1, help="Nodes of the Ray cluster.")]
CpuOption = Annotated[
    bool, typer.Option("--cpu", help="Without a GPU: for tries with tiny models, in float32.")
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        help="A Ray cluster that runs already (auto on its head node); else verl starts its own.",
        show_default=False,
    ),
]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the recipes, each as one choice on every axis.

    Example: [bold]tagrpo train list[/bold]
    """
    from trainer_adapter.methods.recipes import RECIPES

    if as_json:
        output.print_json({"recipes": [recipe.to_json() for recipe in RECIPES.values()]})
    else:
        reports.print_recipes(list(RECIPES.values()))


@app.command()
def show(
    recipe: RecipeArgument,
    changes: ChangesArgument = None,
    data: DataOption = None,
    model: ModelOption = None,
    gpus: GpusOption = 1,
    nodes: NodesOption = 1,
    cpu: CpuOption = False,
    ray_address: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all that verl is told: the recipe on its axes, every override, and where each value comes from.

    Files, folders and the model appear where they are given.

    Example: [bold]tagrpo train show ta_grpo --model Qwen/Qwen3-1.7B --gpus 4[/bold]
    """
    from trainer_adapter.runs.composing import compose_run
    from trainer_adapter.runs.data import read_data

    assigned = _assigned(recipe, changes)
    composition = compose_run(
        assigned.recipe,
        _machine(gpus, nodes, cpu, ray_address),
        settings=assigned.settings,
        model=model,
        data=None if data is None else read_data(data),
        overrides=assigned.overrides,
    )
    if as_json:
        output.print_json(reports.composition_record(composition))
    else:
        reports.print_composition(composition)


@app.command()
def plan(
    recipe: RecipeArgument,
    model: Annotated[
        str, typer.Option("--model", help="Policy: a folder, or a name on the Hub.", show_default=False)
    ],
    changes: ChangesArgument = None,
    data: DataOption = None,
    questions: Annotated[
        int | None,
        typer.Option(
            "--questions", min=1, help="In place of --data: training questions.", show_default=False
        ),
    ] = None,
    gpus: GpusOption = 1,
    nodes: NodesOption = 1,
    gpu_memory_gib: Annotated[float, typer.Option("--gpu-memory-gib", min=1, help="Memory of a GPU.")] = 80.0,
    tokens_per_second: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-second", help="Response tokens a GPU generates in a second.", show_default=False
        ),
    ] = None,
    training_tflops: Annotated[
        float | None,
        typer.Option(
            "--training-tflops",
            help="10^12 operations a second a GPU achieves in training.",
            show_default=False,
        ),
    ] = None,
    mean_tokens: Annotated[
        float | None,
        typer.Option(
            "--mean-tokens", help="Mean tokens of a response; else those of the pilot.", show_default=False
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run", help="A pilot: an eval run over the neighbor set with this model.", show_default=False
        ),
    ] = None,
    assume_shift_sd: Annotated[
        float | None,
        typer.Option(
            "--assume-shift-sd",
            help="For a pilot without neighbors: spread of their difficulty on the logit scale.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the forecast.")] = 0,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate memory, responses, tokens and time of a training before it starts.

    Beside the recipe stand GRPO at equal epochs and at equal responses. With a pilot, the forecast of groups
    without a gradient. Memory follows from formulas that are printed with it; nothing is measured.

    Exit code 1: it does not fit the GPUs, or the forecast speaks against it.

    Example: [bold]tagrpo train plan ta_grpo --model Qwen/Qwen3-4B --questions 7498 --gpus 4[/bold]
    """
    from trainer_adapter.runs.composing import Machine, compose_run
    from trainer_adapter.runs.data import read_data
    from trainer_adapter.runs.memory import plan_memory
    from trainer_adapter.runs.planning import Speed, plan_work, warnings
    from trainer_adapter.runs.shapes import find_shape
    from ui.cli.train.pilot import read_pilot

    if (data is None) == (questions is None):
        raise typer.BadParameter("name the export with --data, or give the number of --questions")
    assigned = _assigned(recipe, changes)
    export = None if data is None else read_data(data)
    composition = compose_run(
        assigned.recipe,
        Machine(gpus, nodes, ray_address="auto" if nodes > 1 else None),
        settings=assigned.settings,
        model=model,
        data=export,
        overrides=assigned.overrides,
    )
    shape = find_shape(model)
    pilot = None
    if run is not None:
        pilot = read_pilot(run, assigned.recipe, assume_shift_sd, seed, db)
        mean_tokens = mean_tokens or pilot.mean_tokens
    elif assume_shift_sd is not None:
        raise typer.BadParameter("--assume-shift-sd belongs to --run")
    speed = Speed(tokens_per_second, training_tflops, mean_tokens)
    asked = questions if export is None else export.questions
    works = plan_work(composition, shape, asked or 0, speed, None if pilot is None else pilot.no_gradient)
    memory = plan_memory(composition, shape, gpu_memory_gib)
    said = warnings(composition, works[0])
    if not memory.fits:
        said.insert(0, reports.too_large(memory))
    if as_json:
        output.print_json(reports.plan_record(composition, shape, memory, works, speed, pilot, said))
    else:
        reports.print_plan(composition, shape, memory, works, speed, pilot)
    if said:
        raise output.needs_attention("; ".join(said))


@app.command()
def run(
    recipe: RecipeArgument,
    model: Annotated[
        str, typer.Option("--model", help="Policy: a folder, or a name on the Hub.", show_default=False)
    ],
    changes: ChangesArgument = None,
    set_ref: Annotated[
        str | None,
        typer.Option("--set", help="Neighbor set NAME@VERSION, exported for this run.", show_default=False),
    ] = None,
    data: DataOption = None,
    validation_share: Annotated[
        float, typer.Option("--validation-share", min=0, max=0.99, help="Of the questions of --set.")
    ] = 0.0,
    gpus: GpusOption = 1,
    nodes: NodesOption = 1,
    cpu: CpuOption = False,
    ray_address: RayOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the run; else RECIPE-MODEL.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Of the run; else runs/NAME.", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run from its last checkpoint.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command; write nothing, start nothing.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Keep verl's output and command in the run's folder; show the steps."),
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train with stock verl, from a neighbor set to checkpoints; go on after an interruption.

    Prints the exact command and keeps it with the run, whose folder holds checkpoints, log, metrics, the
    rollout record and every setting with its source. Ctrl-C and SIGTERM stop verl and end every process it
    started; the same command with --resume goes on from the last checkpoint.

    Exit code 1: training failed or was stopped.

    Example: [bold]tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4[/bold]

    Example: [bold]tagrpo train run ta_grpo --data out/verl --model tiny --cpu trainer.total_epochs=1[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.runs import running
    from trainer_adapter.runs.run_folder import COMMAND

    if (set_ref is None) == (data is None):
        raise typer.BadParameter("name the neighbor set with --set, or an export with --data")
    wanted = _wanted(
        _assigned(recipe, changes),
        model,
        _machine(gpus, nodes, cpu, ray_address),
        name=name,
        folder=folder,
        set_ref=set_ref,
        data=data,
        validation_share=validation_share,
    )

    def opened() -> Database:
        return Database.open(locate_database(db), create=set_ref is None)

    if dry_run:
        prepared = running.dry_run(wanted, opened)
        for remark in prepared.notes:
            output.note(remark)
        if as_json:
            output.print_json(reports.prepared_record(prepared))
        else:
            output.say(prepared.shell)
        return

    def announce(prepared: running.Prepared) -> None:
        for remark in prepared.notes:
            output.note(remark)
        kept = f"its command is {COMMAND}, verl's output in logs/" if quiet else f"\n{prepared.shell}"
        output.note(f"run {prepared.name} in {prepared.folder.path}: {kept}")

    with output.progress(name or recipe, quiet=as_json or not quiet) as bar:
        echo = _show_steps(bar) if quiet else partial(typer.echo, err=True)
        trained = running.train(wanted, opened, resume=resume, announce=announce, echo=echo)
    if as_json:
        output.print_json(reports.trained_record(trained))
    else:
        reports.print_trained(trained)
    if not trained.finished:
        raise output.needs_attention(reports.why_unfinished(trained))


def _show_steps(bar: output.Progress) -> Callable[[str], None]:
    """Return what takes verl's lines and shows how far training is."""
    from trainer_adapter.runs.logs import step_of, total_steps_of

    total: int | None = None
    step = 0
    bar.update(0, None, "verl starts")

    def take(line: str) -> None:
        nonlocal total, step
        total, step = total_steps_of(line) or total, step_of(line) or step
        bar.update(step, total, "steps" if step else "verl starts")

    return take


def _assigned(recipe: str, changes: list[str] | None) -> "Assigned":
    from trainer_adapter.methods.recipes import find_recipe
    from trainer_adapter.runs.assignments import assign

    return assign(find_recipe(recipe), changes or [])


def _machine(gpus: int, nodes: int, cpu: bool, ray_address: str | None) -> "Machine":
    from trainer_adapter.runs.composing import Machine

    return Machine(gpus, nodes, cpu, ray_address)


def _wanted(
    assigned: "Assigned",
    model: str,
    machine: "Machine",
    *,
    name: str | None,
    folder: Path | None,
    set_ref: str | None,
    data: Path | None,
    validation_share: float,
) -> "Wanted":
    from trainer_adapter.runs.running import Wanted

    return Wanted(
        assigned.recipe,
        assigned.settings,
        assigned.overrides,
        model,
        machine,
        name,
        folder,
        set_ref,
        data,
        validation_share,
    )
