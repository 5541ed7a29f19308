"""`tagrpo neighbors propose` and `resume`: start a run of candidates and verdicts, or continue one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ui.cli import output
from ui.cli.neighbors.rule_options import (
    Accept,
    FlaggedMore,
    Looks,
    QuestionSamples,
    Reject,
    RuleName,
    make_rule,
)
from ui.cli.output import DbOption, JsonOption
from ui.cli.questions.reports import plural
from ui.cli.runs.options import (
    ApiBase,
    Batch,
    BatchPoll,
    CandidateColumn,
    Candidates,
    Concurrency,
    MaxRequests,
    MaxUsd,
    PremisesApiBase,
    Price,
    Prices,
    QuestionColumn,
    Solver,
    SolverApiBase,
    SolverBatchSize,
    SolverDevice,
    SolverDtype,
    SolverPreset,
    SolverPromptFile,
    SolverSampler,
    Timeout,
)

if TYPE_CHECKING:
    from rephraser.proposing.file import FileCandidates
    from rephraser.run.execution import Execution, Prepared
    from service.database import Database
    from service.runs.store import Run

app = typer.Typer(no_args_is_help=True, help="Propose neighbors, judge them, review them.")


@app.command()
def propose(
    questions: Annotated[str, typer.Argument(help="Name of an imported question set.")],
    name: Annotated[str, typer.Option("--name", help="Name of the run; an existing one is continued.")],
    proposer: Annotated[
        Literal["llm", "rules", "file"],
        typer.Option(
            "--proposer", help="llm: any litellm model; rules: no model; file: candidates you have."
        ),
    ] = "llm",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Proposer in litellm's spelling: gpt-4-turbo, hosted_vllm/Qwen/Qwen3-4B."
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy", help="perspectives, paraphrase, rename, format, or a text file; may be repeated."
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Neighbors wanted for each question.")] = 3,
    solver: Solver = None,
    solver_sampler: SolverSampler = "auto",
    rounds: Annotated[
        int, typer.Option("--rounds", help="Rounds in all; after the first, open slots are proposed anew.")
    ] = 3,
    candidates: Candidates = None,
    question_column: QuestionColumn = None,
    candidate_column: CandidateColumn = None,
    temperature: Annotated[float, typer.Option(help="Of the proposer.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="Of the proposer.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of the proposer's answer.")] = 4096,
    solver_temperature: Annotated[float, typer.Option(help="Of the solvers.")] = 0.7,
    solver_top_p: Annotated[float, typer.Option(help="Of the solvers.")] = 0.95,
    solver_max_tokens: Annotated[int, typer.Option(help="Most tokens of a solver's answer.")] = 3072,
    solver_preset: SolverPreset = None,
    solver_prompt_file: SolverPromptFile = None,
    solver_device: SolverDevice = None,
    solver_dtype: SolverDtype = None,
    solver_batch_size: SolverBatchSize = None,
    samples_per_request: Annotated[int, typer.Option(help="Answers a solver draws in one request.")] = 4,
    content_attempts: Annotated[
        int, typer.Option(help="Requests in all where answers are unusable (refusals, echoes, ...).")
    ] = 3,
    output_format: Annotated[
        Literal["auto", "json", "tags"],
        typer.Option(
            "--output",
            help="How the proposer answers; auto: JSON where OpenAI enforces a schema, else tags.",
        ),
    ] = "auto",
    rule: Annotated[
        RuleName, typer.Option(help="Rule of the verdict; docs/verdicts.md compares them.")
    ] = "overlap",
    accept: Accept = None,
    reject: Reject = None,
    flagged_more: FlaggedMore = None,
    question_samples: QuestionSamples = None,
    looks: Looks = None,
    premises: Annotated[
        str | None,
        typer.Option(
            "--premises",
            help="Model that is asked whether each premise of the question is kept. None: not asked.",
        ),
    ] = None,
    min_distance: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Refuse candidates whose wording is nearer to the question or an earlier one: 0.15 of a "
            "model's, and none of rules or a file.",
            show_default=False,
        ),
    ] = None,
    token_limit: Annotated[int, typer.Option(help="Most tokens of a candidate.")] = 512,
    tokenizer: Annotated[
        str | None, typer.Option(help="tokenizer.json file or Hub name that counts them; else an estimate.")
    ] = None,
    tops_up: Annotated[
        list[str] | None,
        typer.Option(
            "--tops-up",
            help="A run whose neighbors count for --n: only what lacks is proposed. May be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first questions.")] = None,
    api_base: ApiBase = None,
    solver_api_base: SolverApiBase = None,
    premises_api_base: PremisesApiBase = None,
    max_usd: MaxUsd = None,
    max_requests: MaxRequests = None,
    price: Price = None,
    prices: Prices = None,
    max_concurrency: Concurrency = 64,
    timeout: Timeout = 120.0,
    batch: Batch = False,
    batch_poll: BatchPoll = 60.0,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Propose neighbors for questions, check them, and compare answers where a solver is named.

    Everything is stored as it comes. Run the same command again, or `tagrpo neighbors resume NAME`, to go on
    after an interruption or a spent budget: nothing is paid twice.

    Example: tagrpo neighbors propose math --name math-gpt4 --model gpt-4-turbo --n 3
    --solver hosted_vllm/Qwen/Qwen3-4B --solver-api-base http://localhost:8000/v1 --max-usd 50
    """
    from rephraser.proposing.strategies import load_strategy
    from rephraser.run.execution import prepare
    from rephraser.run.spec import PremiseSpec, RunSpec, Sampling
    from rephraser.run.start import (
        NothingLacksError,
        check_start,
        choose_output,
        local_strategies,
        read_candidate_file,
        start_run,
    )
    from rephraser.run.topping import runs_to_top_up
    from service.database import Database, locate_database
    from ui.cli.neighbors.solvers import make_solvers

    if proposer == "llm" and model is None:
        raise typer.BadParameter("an llm proposer needs --model, for example --model gpt-4-turbo")
    if proposer != "llm" and (model or strategy):
        raise typer.BadParameter(f"--model and --strategy belong to --proposer llm, not {proposer}")
    if (proposer == "file") != (candidates is not None):
        raise typer.BadParameter("--candidates belongs to --proposer file, which needs it")
    chosen_rule = make_rule(
        rule,
        accept=accept,
        reject=reject,
        flagged_more=flagged_more,
        question_samples=question_samples,
        looks=looks,
    )
    execution = _execution(
        api_base,
        solver_api_base,
        premises_api_base,
        max_usd,
        max_requests,
        price,
        prices,
        max_concurrency,
        timeout,
        (batch, batch_poll),
        (candidates, question_column, candidate_column),
        solver_batch_size,
    )
    with Database.open(locate_database(db), create=False) as database:
        if proposer == "llm":
            strategies = tuple(load_strategy(reference) for reference in strategy or ["perspectives"])
        else:
            strategies = local_strategies(proposer)
        found = read_candidate_file(database, execution.candidates, questions, limit=limit)
        solvers, samplers = make_solvers(
            solver or (),
            solver_sampler,
            sampling=Sampling(solver_temperature, solver_top_p, solver_max_tokens),
            samples_per_request=samples_per_request,
            prompt=(solver_preset, solver_prompt_file),
            device=solver_device,
            dtype=solver_dtype,
            batch_size=solver_batch_size,
        )
        with database.read() as session:
            topped_up = runs_to_top_up(session, tops_up or (), questions)
        spec = RunSpec(
            questions=questions,
            proposer=proposer,
            model=model or proposer,
            strategies=strategies,
            n=n,
            rounds=rounds,
            content_attempts=content_attempts,
            seed=seed,
            sampling=Sampling(temperature, top_p, max_tokens) if proposer == "llm" else None,
            output=choose_output(output_format, model, api_base),
            solvers=solvers,
            rule=chosen_rule,
            premises=None if premises is None else PremiseSpec(premises),
            token_limit=token_limit,
            tokenizer=tokenizer,
            source=None if found is None else found.content,
            min_distance=_least_distance(proposer) if min_distance is None else min_distance,
            tops_up=topped_up,
        )
        try:
            check_start(database, name, spec, limit=limit)
        except NothingLacksError as nothing:
            output.note(str(nothing))
            if as_json:
                output.print_json({"run": None, "message": str(nothing)})
            return
        prepared = prepare(
            spec, execution, found, samplers
        )  # before the name is taken by a run that cannot begin
        run, new = start_run(database, name, spec, limit=limit)
        if not new:
            output.note(f"continuing run {name}")
        _note_unmatched(found)
        _carry_out(database, run, prepared, execution, as_json=as_json)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="Name or id of the run.")],
    candidates: Candidates = None,
    question_column: QuestionColumn = None,
    candidate_column: CandidateColumn = None,
    api_base: ApiBase = None,
    solver_api_base: SolverApiBase = None,
    premises_api_base: PremisesApiBase = None,
    solver_batch_size: SolverBatchSize = None,
    max_usd: MaxUsd = None,
    max_requests: MaxRequests = None,
    price: Price = None,
    prices: Prices = None,
    max_concurrency: Concurrency = 64,
    timeout: Timeout = 120.0,
    batch: Batch = False,
    batch_poll: BatchPoll = 60.0,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue a run where it stopped: its settings are stored, only empty cells are asked for.

    Example: tagrpo neighbors resume math-gpt4 --max-usd 100
    """
    from rephraser.run.execution import prepare
    from rephraser.run.spec import RunSpec
    from rephraser.run.start import find_neighbor_run, read_candidate_file
    from service.database import Database, locate_database
    from service.runs.store import run_question_ids

    execution = _execution(
        api_base,
        solver_api_base,
        premises_api_base,
        max_usd,
        max_requests,
        price,
        prices,
        max_concurrency,
        timeout,
        (batch, batch_poll),
        (candidates, question_column, candidate_column),
        solver_batch_size,
    )
    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            stored = find_neighbor_run(session, run)
            count = len(run_question_ids(session, stored.id))
        spec = RunSpec.from_json(stored.spec)
        found = read_candidate_file(database, execution.candidates, spec.questions, limit=count)
        prepared = prepare(spec, execution, found)
        _note_unmatched(found)
        _carry_out(database, stored, prepared, execution, as_json=as_json)


def _least_distance(proposer: str) -> float:
    """Return 0.15 for a model, which can be asked again; what a file brings is left out when published."""
    from rephraser.checks.wording import MIN_DISTANCE

    return MIN_DISTANCE if proposer == "llm" else 0.0


def _execution(
    api_base: str | None,
    solver_api_base: list[str] | None,
    premises_api_base: str | None,
    max_usd: float | None,
    max_requests: int | None,
    price: list[str] | None,
    prices: Path | None,
    max_concurrency: int,
    timeout: float,
    batch: tuple[bool, float],
    candidates: tuple[str | None, str | None, str | None],
    solver_batch_size: int | None,
) -> "Execution":
    from rephraser.run.execution import CandidateFile, Execution

    source, question_column, candidate_column = candidates
    return Execution(
        api_base=api_base,
        solver_api_bases=tuple(solver_api_base or ()),
        premises_api_base=premises_api_base,
        max_usd=max_usd,
        max_requests=max_requests,
        prices=tuple(price or ()),
        prices_file=prices,
        max_concurrency=max_concurrency,
        timeout_s=timeout,
        batch=batch[0],
        batch_poll_s=batch[1],
        candidates=CandidateFile(source, question_column, candidate_column) if source else None,
        solver_batch_size=solver_batch_size,
    )


def _note_unmatched(found: "FileCandidates | None") -> None:
    if found is not None and found.unmatched:
        output.note(
            f"{found.source}: {found.unmatched:,} of {plural(found.rows, 'row')} belong to no question of "
            "this run and are left out"
        )


def _carry_out(
    database: "Database", run: "Run", prepared: "Prepared", execution: "Execution", *, as_json: bool
) -> None:
    from rephraser.run.execution import carry_out
    from rephraser.views.runs import summarize
    from service.models.remote.chat import INTERRUPTED
    from ui.cli.neighbors.propose_reports import print_summary, run_problems

    with output.progress(run.name, quiet=as_json) as bar:

        def report(stage: str, done: int, total: int | None, detail: str = "") -> None:
            bar.update(done, total, " ".join(filter(None, (stage, detail))))

        outcome = carry_out(database, run, prepared, execution, report)
    with database.read() as session:
        summary = summarize(session, run)
    for notice in outcome.notices:
        output.note(notice)
    if outcome.stopped == INTERRUPTED:  # what was in flight is stored
        raise KeyboardInterrupt
    if as_json:
        output.print_json({**summary.to_json(), "stopped": outcome.stopped, "message": outcome.message})
    else:
        print_summary(summary)
    problems = run_problems(outcome, summary)
    if problems:
        raise output.needs_attention("; ".join(problems) + ".")
