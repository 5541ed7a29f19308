"""`tagrpo train`: plan and run a training with verl, read what trainings logged and sampled."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from evaluator.reports.document import Heading
from service.config.fields import settings_of
from service.config.reading import Reading
from service.errors import InputError, Interrupted, Terminated
from service.telling import TellStage
from trainer_adapter.config import PlanAssumptions, TrainConfig
from trainer_adapter.methods.recipes import RECIPES
from ui.cli import output
from ui.cli.configs import Verb
from ui.cli.lazy import lazy_imports
from ui.cli.output import record_parts, terminal, value_table
from ui.cli.settings import Limit, Overwrite, Session, db, resume_command

with lazy_imports():
    from rephraser.questions import store as questions_store
    from service.runs import store
    from trainer_adapter.methods import registry
    from trainer_adapter.plans import planning
    from trainer_adapter.plans import script as scripts
    from trainer_adapter.record import listing, reading, rescues, rollout, series
    from trainer_adapter.record import runs as train_runs
    from trainer_adapter.runs import composing, data, launching, run_folder, running, settings
    from trainer_adapter.verl import alarms
    from ui.charts import saving, training_steps

FLAGS = "--model --data --preset --gpus"
ASSUMED = ", ".join(setting.path for setting in settings_of(PlanAssumptions))
ROLLOUT_ID = re.compile(r"(?:(.+):)?(\d+:\d+)")


@Verb(TrainConfig, "recipe.name", FLAGS)
def plan(
    config: TrainConfig,
    *,
    questions: Annotated[int | None, Option(min=1)] = None,
    pilot: str | None = None,
    compare: str | None = None,
    responses: Annotated[int | None, Option(min=1)] = None,
    assume: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help=f"Assumed value: {ASSUMED}.")
    ] = None,
    script: Path | None = None,
) -> None:
    """Estimate memory, responses, tokens and time of a training run before it starts.

    The plan compares the recipe with GRPO, or with the recipes of --compare, for equal epochs and for equally
    many responses. --pilot adds a forecast of the groups without a gradient. Formulas estimate the memory;
    nothing is measured.

    Exit code 3: the training does not fit the GPUs, or the forecast advises against it.

    Example: tagrpo train plan ta_grpo --model Qwen/Qwen3-4B --questions 7498 --gpus 4

    Args:
        questions: Number of training questions, instead of --data.
        pilot: Eval run of the model on the set, for the forecast.
        compare: Recipes to compare with at equal responses, separated by commas. Default: GRPO.
        responses: Total responses of each training run. Default: the recipe's.
        script: With --data and --compare: write a script that trains, evaluates and reports all recipes.
    """
    assumptions = Reading(PlanAssumptions)
    assumptions.add_words(assume or ())
    others = [name.strip() for name in compare.split(",")] if compare else []
    asked: dict[str, Any] = {"questions": questions, "pilot": pilot, "responses": responses}
    made = planning.plan_training(config, assumptions.build(), db.open, compare=others, **asked)
    if script is not None:
        scripts.write_script(script, made, others)
        output.note(f"comparison script: {script}. Try it with --dry-run first")
    output.note(*planning.uncounted(made.methods))
    missing = [
        name for name in ("tokens_per_second", "training_tflops") if getattr(made.assumed, name) is None
    ]
    terminal.show(
        made.to_json(),
        "",
        *(f"the time estimate is incomplete; add --assume {name}=N" for name in missing),
        "memory is estimated, in GiB; phases: rollout and update",
        hidden=("recipe", "warnings"),
    )
    if made.warnings:
        raise output.needs_attention("; ".join(made.warnings))


@Verb(TrainConfig, "recipe.name", f"{FLAGS} --cpu", optional=True)
def recipes(config: TrainConfig | None) -> None:
    """List the recipes with their choice on every axis; with a name, show every verl setting of one.

    Paths of files, folders and the model are placeholders unless you give them.

    Example: tagrpo train recipes ta_grpo --model Qwen/Qwen3-1.7B --gpus 4
    """
    if config is None:
        columns = (
            "recipe=name N=neighbors G=responses sampling group advantage weights anchor filter reward "
            "clip_high=loss.clip_high dual_clip=loss.dual_clip aggregation=loss.aggregation kl=loss.kl_coef"
        )
        terminal.rows("recipes", [recipe.to_json() for recipe in RECIPES.values()], columns)
        return
    exported = None if config.data is None else data.read_data(config.data)
    composition = composing.compose_training(config, exported)
    registry.user_sources(composition.recipe.formulas)  # which have to be there
    recipe, preset = composition.recipe, composition.preset
    record: dict[str, Any] = {"preset": preset.name, "recipe": recipe.to_json()}
    record |= {"plug_in": composition.settings.model_dump(), "machine": config.machine}
    record |= {"overrides": composition.values, "arguments": composition.arguments()}
    gpus = f"{config.gpus} GPU{'s' if config.gpus > 1 else ''}"
    machine = "CPU" if config.cpu else gpus if config.nodes == 1 else f"{config.nodes} nodes of {gpus}"
    axes = ("sampling", "group", "advantage", "weights", "anchor", "loss", "filter", "reward")
    overrides = [each for each in composition.values if not isinstance(each.value, dict)]
    rows = [[each.key, json.dumps(each.value), each.source, each.reason] for each in overrides]
    sources = dict.fromkeys(each.source for each in overrides)
    terminal.emit(
        record,
        Heading(f"{recipe.name}: {recipe.summary}"),
        f"preset {preset.name}: {preset.summary}; the paper's prompt: {preset.prompt_words}",
        f"N={recipe.neighbors}, G={recipe.responses}: {recipe.rollouts} responses per question",
        *record_parts({"recipe": {axis: record["recipe"][axis] for axis in axes}}),
        Heading(f"overrides of verl's configuration, {machine}"),
        value_table(["key", "value", "source", "why"], rows),
        Heading("sources"),
        *(f"{source}: {settings.SOURCES[source]}" for source in sources),
    )


@Verb(TrainConfig, "recipe.name", f"{FLAGS} --set --name --nodes --cpu")
def run(config: TrainConfig, *, dry_run: bool = False, hide_log: bool = False) -> None:
    """Train with verl, from a neighbor set to checkpoints; resume after an interruption.

    A recipe is a training method, such as grpo or ta_grpo (`tagrpo train recipes` lists them). KEY=VALUE is
    an axis of the recipe (anchor=own, loss.kl_coef=0), a setting of the plug-in (run.seed=7), or with the
    prefix `verl.` one of verl (verl.trainer.save_freq=5).

    The run's folder contains checkpoints, log, metrics, responses and every setting with its source. `tagrpo
    ui`, `tagrpo train metrics` and `tagrpo train rollouts` read it, also during the training. Run the same
    command again, or `tagrpo resume NAME`, to resume from the last checkpoint.

    Exit codes: 1 training failed, 130 or 143 it was stopped (Ctrl-C, SIGTERM).

    Example: tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4

    Args:
        dry_run: Print the command without writing or starting anything.
        hide_log: Write verl's output and command only to the run's folder; show steps.
    """

    def announce(prepared: "running.Prepared") -> None:
        output.note(*prepared.notes)
        if not dry_run:
            kept = f"command in {run_folder.COMMAND}, verl's output in logs/"
            kept = kept if hide_log else f"\n{prepared.shell}"
            output.note(f"run {prepared.name} in {prepared.folder.path}: {kept}")

    open_database = partial(db.open, create=config.set is None)
    if dry_run:
        prepared = running.dry_run(config, open_database)
        announce(prepared)
        names = ("command", "environment", "spec", "versions", "notes")
        planned = {"run": prepared.name, "folder": prepared.folder.path}
        planned |= {"settings": prepared.composition.values}
        terminal.emit(planned | {name: getattr(prepared, name) for name in names}, prepared.shell)
        return
    with terminal.progress(config.name or config.recipe.name, quiet=not hide_log) as bar:
        echo = _show_steps(bar) if hide_log else output.write_line
        trained = running.train(config, open_database, announce=announce, echo=echo)
    attempt, folder = trained.attempt, trained.folder
    record: dict[str, Any] = {"run": trained.run, "folder": folder.path, **vars(attempt)}
    record |= {name: getattr(trained, name) for name in ("log", "errors", "hints")}
    terminal.show({**record, "finished": attempt.finished, "alarms": list(folder.alarms())})
    if not attempt.finished:
        why = trained.failure(resume_command(trained.run, *(["--hide-log"] if hide_log else [])))
        if attempt.stopped_by is None:
            raise output.failed(why)
        raise (Interrupted if attempt.stopped_by == "SIGINT" else Terminated)(why)


def merge(checkpoint: Path, out: Annotated[Path, Option()]) -> None:
    """Merge a checkpoint into a folder that transformers and vLLM read.

    verl saves a checkpoint in shards; its own tool merges them in bfloat16.

    Example: tagrpo train merge runs/ta/checkpoints/global_step_56 --out ta-grpo-4b

    Args:
        checkpoint: Checkpoint of a training run: runs/NAME/checkpoints/global_step_N.
        out: New folder for the merged model.
    """
    shards = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    if not any(shards.glob("model_world_size_*")):
        raise InputError(f"{checkpoint}: contains no verl checkpoint. Give .../checkpoints/global_step_N.")
    if out.exists():
        raise InputError(f"{out} already exists. Choose another folder.")
    words = ["--backend", "fsdp", "--local_dir", str(shards), "--target_dir", str(out)]
    done = subprocess.run([sys.executable, "-m", "verl.model_merger", "merge", *words], stdout=2)
    if done.returncode:
        raise output.failed(f"verl's tool ended with exit code {done.returncode}; its last lines say why.")
    terminal.show({"model": out})


def _show_steps(tell: TellStage) -> Callable[[str], None]:
    """Return what takes verl's lines and shows how far training is."""
    step, total = 0, 0
    tell("verl starts", 0, None)

    def take(line: str) -> None:
        nonlocal step, total
        if alarms.MARK in line:
            output.note(line[line.index(alarms.MARK) :])
        step, total = launching.step_of(line) or step, launching.total_steps_of(line) or total
        tell("steps" if step else "verl starts", step, total or None)

    return take


def metrics(
    runs: Annotated[list[str] | None, Argument(metavar="[RUN]...")] = None,
    metric: list[str] | None = None,
    seeds: bool = False,
    chart: Path | None = None,
    overwrite: Overwrite = False,
) -> None:
    """Show the logged metrics of training runs step by step.

    Example: tagrpo train metrics ta --metric "tagrpo/zero/*"

    Args:
        runs: Training runs; optional if there is only one.
        metric: Logged metric; * matches any characters. Default: four main ones.
        seeds: Combine runs that differ only in the seed: mean, lowest and highest value of common steps.
        chart: Plot one metric to a .png, .svg or .json file.
    """
    if chart is not None:
        saving.check_chart(chart, overwrite=overwrite)
    with db.reading() as session:
        asked: Sequence[str | None] = runs or [None]
        named = (train_runs.choose_train_run(session, each) for each in asked)
        chosen = list({run.id: run for run in named}.values())
        records = {run.id: train_runs.open_record(session, run) for run in chosen}
    for record in records.values():
        if unread := record.unread_metrics():
            lines = output.plural(unread, "line")
            output.note(f"{lines} of metrics.jsonl cannot be read. A kill leaves one.")
    logged = sorted({name for each in records.values() for name in series.metric_names(each)})
    names = series.match_metrics(logged, metric)
    if chart is not None and len(names) != 1:
        raise InputError(f"--chart plots one metric, but {len(names)} match: {', '.join(names)}.")
    groups = series.seed_groups(chosen) if seeds else [(run,) for run in chosen]
    rows = series.metric_rows(records, groups, names)
    if chart is not None:
        most = max(map(len, groups))
        points = rows if most > 1 else [{**row, "low": None} for row in rows]
        curves = training_steps.step_chart(points, title=names[0], y_title="as logged", seeds=most)
        saving.save_chart(curves, chart)
        output.note(f"chart written to {chart}")
    steps: dict[tuple[str, int], dict[str, object]] = {}
    for row in rows:
        spread = f"{row['value']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
        step = steps.setdefault((row["label"], row["step"]), {})
        step[row["metric"]] = spread if row["n"] > 1 else row["value"]
    cells = [[*place, *map(step.get, names)] for place, step in steps.items()]
    table = value_table(["run", "step", *names], cells)
    nothing = "no step has logged these metrics; --metric '*' shows all"
    terminal.emit({"metrics": rows}, table if rows else nothing)


def rollouts(
    target: Annotated[str | None, Argument(metavar="[RUN|RUN:STEP:ROW|FOLDER|RUN=FOLDER]")] = None,
    *,
    step: Annotated[str | None, Option(metavar="N or N:M")] = None,
    question: Annotated[str | None, Option(metavar="ID")] = None,
    variant: Annotated[int | None, Option(min=0)] = None,
    grade: str | None = None,
    text: str | None = None,
    rescued: Literal["all", "yes", "never"] | None = None,
    after: str | None = None,
    limit: Limit = 25,
    add: bool = False,
    prune: Annotated[str | None, Option(metavar="N or N:LAST")] = None,
    yes: bool = False,
) -> None:
    """List the responses of a training run, even while it trains; with an id, show one response.

    Example: tagrpo train rollouts ta --step 1 --variant 0 --grade wrong

    Args:
        target: Run (optional if there is only one), one rollout to show, or a folder to --add.
        step: Only this step, or only steps N to M.
        question: Only this question: its id or first characters.
        variant: Only this prompt: 0 is the question's own, k its k-th neighbor.
        grade: Only this grade: correct, wrong or unknown.
        text: Only rollouts whose response contains this text.
        rescued: List questions whose own responses were all wrong (all, rescued or never rescued), and the
            neighbors that rescued them. Needs a recipe such as ta_rescue.
        after: Continue after this rollout or question.
        add: Register the folder of a training run that started elsewhere or was moved.
        prune: Remove the responses of all steps except every N-th and the last LAST ones (10). Metrics stay.
        yes: With --prune: remove the files. Default: only list the steps.
    """
    if add:
        _add(target)
        return
    single = ROLLOUT_ID.fullmatch(target or "")
    with db.reading() as session:
        run = train_runs.choose_train_run(session, single[1] if single else target)
        name, record = run.name, train_runs.open_record(session, run)
    output.note(*record.problems())
    if rescued is not None:
        _list_rescued(name, record, rescued, after, limit)
    elif single:
        chosen = record.rollout(single[2])
        values = {"run": name, **asdict(chosen), "id": f"{name}:{single[2]}", "grade": chosen.grade}
        ratios = values.pop("token_ratios")
        ratios = ratios and rollout.TokenRatios.from_text(ratios).pieces(chosen.response)
        terminal.show({**values, "token_log_ratios": ratios}, hidden=("token_log_ratios",))
    elif prune is not None:
        every, last = _range(prune if ":" in prune else f"{prune}:10")
        if not every or every < 1 or last is None or last < 0:
            raise InputError(f"--prune {prune}: give N, at least 1, or N:LAST.")
        pruned = record.prune(keep_every=every, keep_last=last, remove=yes)
        note = None if yes else "Nothing was removed. Add --yes to remove these files."
        terminal.show({"run": name, **pruned}, note)
    else:
        first, last = _range(step)
        if first is not None and last is None:
            last = max(record.steps(), default=first)
        filters = listing.RolloutFilters(first, last, question, variant, grade, text)
        since = after and after.rpartition(f"{name}:")[2]
        page = listing.list_rollouts(record, filters, after=since, limit=limit)
        output.note(*set(page.problems) - set(record.problems()))
        terminal.rows(
            "rollouts",
            [{**asdict(each), "id": f"{name}:{each.id}", "grade": each.grade} for each in page.rollouts],
            "rollout=id step question=question_id variant session grade reward advantage tokens "
            "answer=extracted",
            empty="no such rollouts",
            run=name,
            after=page.after and f"{name}:{page.after}",
        )


def _range(text: str | None) -> tuple[int | None, int | None]:
    """Return the ends of N, N:M, N: or :M; None where it is open."""
    low, colon, high = (text or ":").partition(":")
    try:
        ends = [int(end) if end else None for end in (low, high if colon else low)]
    except ValueError:
        raise InputError(f"{text!r} is not a range. Give a number, or two as in 1:5.") from None
    return ends[0], ends[1]


def _list_rescued(run: str, record: "reading.Record", rescued: str, after: str | None, limit: int) -> None:
    counts, spec = record.counts(), record.run.spec
    totals = rescues.rescue_totals(counts, spec)
    outcome = {"yes": rescues.RESCUED, "never": rescues.NEVER}.get(rescued)
    page = rescues.page_rescues(counts, spec, outcome=outcome, after=after, limit=limit + 1)
    with db.reading() as session:
        stored = questions_store.load_questions(session, [each.question_id for each in page])
    texts = {id: question.text for id, question in stored.items()}
    shares = {"dead_share": totals.dead_share, "revived_share": totals.revived_share}
    questions = [
        {**asdict(each), "text": texts.get(each.question_id), "outcome": each.outcome}
        for each in page[:limit]
    ]
    after_id = page[limit - 1].question_id if len(page) > limit else None
    report = {"run": run, "totals": {**asdict(totals), **shares}, "questions": questions, "after": after_id}
    notes = ["", *totals.sentences(), output.next_page(after_id)]
    terminal.show(report, *notes, hidden=("totals", "after"))


def _add(target: str | None) -> None:
    if target is None:
        raise InputError("--add needs the folder in which a training run records its rollouts.")
    name, _, folder = ("", "", target) if Path(target).is_dir() else target.rpartition("=")
    recorded = reading.Record(Path(folder))  # a wrong folder leaves no new database
    with db.open(create=True) as database, database.write() as session:
        run = train_runs.register(session, recorded, name or None)
        training = train_runs.read_train_run(session, run)
    terminal.show({"run": run.name, "folder": str(Path(folder).resolve()), **training.to_json()})


def standing(session: Session, run: "store.Run") -> dict[str, Any]:
    """Return what a training run is, and how far it has come, for `runs show`."""
    training = train_runs.read_train_run(session, run)
    logged = {} if training.problem else train_runs.open_record(session, run).metrics()
    return {**training.to_json(), "alarms": [each._asdict() for each in alarms.alarms_of(logged.items())]}
