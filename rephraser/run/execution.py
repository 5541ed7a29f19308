"""Carrying a run out: how requests are made and capped. None of this shapes the result."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rephraser.proposing.file import FileCandidates, read_candidates
from rephraser.proposing.tokens import load_token_counter
from rephraser.run.engine import PROPOSER, Client, Engine, Invocation
from rephraser.run.local.engines import check_engine, open_stored
from rephraser.run.local.proposals import Source, rules_source
from rephraser.run.spec import RunSpec
from rephraser.run.waves import Waves
from service.database import Database
from service.errors import InputError, PrerequisiteError
from service.models.asking import Asking
from service.models.drawing import Sampler
from service.models.offline import given_options
from service.models.remote import BatchClient, Budget, Endpoint, PriceTable, RemoteClient, redact
from service.models.remote.batch import check_jobs, has_jobs
from service.models.remote.chat import split_bases
from service.models.remote.endpoint import check_sampling
from service.models.remote.sampler import RemoteSampler
from service.questions import Question
from service.runs.ledger import RunLedger
from service.runs.spending import set_cap
from service.runs.store import Run
from service.telling import TellStage


@dataclass(frozen=True)
class CandidateFile:
    """Where a file proposer reads: a file or Hub data set, and its columns where they are unusual."""

    source: str
    question_column: str | None = None
    candidate_column: str | None = None

    def read(self, questions: list[Question], limit: int | None = None) -> FileCandidates:
        """Return its candidates for these questions; see `read_candidates`."""
        return read_candidates(
            self.source,
            questions,
            limit=limit,
            question_column=self.question_column,
            candidate_column=self.candidate_column,
        )


@dataclass(frozen=True)
class Execution(Asking):
    """How a run is carried out; another invocation of the same run may use other values.

    `api_bases` are the addresses of the proposer's servers, `premises_api_bases` those of the model asked
    about premises; `api_key_env` names the variable that holds the key of all that is asked at `api_bases`.
    `solver_api_bases` holds those of the only remote solver; of several solvers one text of addresses,
    separated by commas, for all or for each in their order.
    `engine_options` are those of a proposer on this machine that shape no answer, `batch_size`, `gpus`, ...,
    and `solver_options` those of solvers.
    `wave` and `stop_below` are those of `Waves`.
    """

    api_bases: tuple[str, ...] = ()
    api_key_env: str | None = None
    solver_api_bases: tuple[str, ...] = ()
    premises_api_bases: tuple[str, ...] = ()
    candidates: CandidateFile | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    solver_options: Mapping[str, Any] = field(default_factory=dict)
    wave: int | None = None
    stop_below: float | None = None


@dataclass(frozen=True)
class Prepared:
    """What a run needs from outside, found to be there: models, prices, its tokenizer, its candidates.

    `samplers` are those of models on this machine, by the solver's id, the proposer's under `PROPOSER`.
    """

    endpoints: Mapping[str, Endpoint]
    prices: PriceTable
    count_tokens: Callable[[str], int] | None
    source: Source | None
    samplers: Mapping[str, Sampler] = field(default_factory=dict)


def prepare(
    spec: RunSpec,
    execution: Execution,
    candidates: FileCandidates | None = None,
    samplers: Mapping[str, Sampler] | None = None,
) -> Prepared:
    """See whether all that a run needs is there, before it is stored or anything is asked and paid.

    `candidates` are those of the file, for a run that proposes from one. `samplers` are those of its models
    on this machine that are open already, as `Prepared` has them.

    Raises:
        BudgetError: a cap on money for a model whose price is not known.
        InputError: prices, addresses or a tokenizer's file that cannot be used; a file of candidates that is
            missing or is another one than the run was made with; a checkpoint that is another one.
        PrerequisiteError: a server that cannot be reached, lacks the model or takes no such prompts, a key
            that is not set, a checkpoint that is not there.
    """
    opened = _open_samplers(spec, execution, samplers or {})
    source = _source(spec, candidates)
    prices = execution.price_table()
    count_tokens = load_token_counter(spec.tokenizer) if spec.tokenizer else None
    addresses = _addresses(spec, execution)
    endpoints = {
        model: Endpoint.at(
            model,
            bases,
            timeout_s=execution.timeout_s,
            tokens_per_s=execution.tokens_per_s,
            key_env=execution.api_key_env if bases == split_bases(execution.api_bases) else None,
        )
        for model, bases in addresses.items()
    }
    for model, endpoint in endpoints.items():
        if execution.max_usd is not None:
            prices.require(model)
        if execution.batch:
            check_jobs(endpoint)
    if spec.asks_proposer and spec.sampling is not None:
        check_sampling(endpoints[spec.model], spec.sampling)
    if spec.premises is not None:
        check_sampling(endpoints[spec.premises.model], spec.premises.sampling)
    for solver in spec.solvers:
        if solver.engine is None:
            RemoteSampler(endpoints[solver.model], execution, prices=prices).check(solver.drawing)
    asyncio.run(_check([RemoteClient(endpoint, prices=prices) for endpoint in endpoints.values()]))
    return Prepared(endpoints, prices, count_tokens, source, opened)


def carry_out(
    db: Database, run: Run, prepared: Prepared, execution: Execution, report: TellStage
) -> Invocation:
    """Work on a run until it is done, stopped by a cap, or only failures are left."""
    spec = RunSpec.from_json(run.spec)
    if execution.max_usd is not None:
        with db.write() as session:
            set_cap(session, [run.id], execution.max_usd)
    budget = Budget(max_requests=execution.max_requests, ledger=RunLedger(db, run.id))

    def open_client(model: str) -> Client:
        endpoint, prices = prepared.endpoints[model], prepared.prices
        if execution.batch and has_jobs(model):
            return BatchClient(endpoint, budget=budget, prices=prices, run_name=run.name)
        return RemoteClient(
            endpoint,
            budget=budget,
            prices=prices,
            max_concurrency=execution.max_concurrency,
            run_name=run.name,
            halt_after=execution.halt_after,
            stall_s=execution.stall_s,
        )

    servers = max((len(endpoint.bases) for endpoint in prepared.endpoints.values()), default=1)
    slots = execution.max_concurrency * max(1, servers)
    engine = Engine(
        db=db,
        run=run,
        spec=spec,
        report=report,
        open_client=open_client,
        waves=Waves(db, run, execution.wave, execution.stop_below, slots),
        samplers=prepared.samplers,
        source=prepared.source,
        count_tokens=prepared.count_tokens,
        batch_poll_s=execution.batch_poll_s,
        grace_s=execution.grace_s,
        retry_final=execution.retry_final,
    )
    return asyncio.run(engine.drive())


async def _check(clients: Sequence[RemoteClient]) -> None:
    """Raise `PrerequisiteError` where a model cannot be asked, before anything is."""
    for client in clients:
        async with client:
            ability = await client.check()
        if ability.problem is not None:
            raise PrerequisiteError(f"{client.endpoint.model}: {ability.problem}")


def _open_samplers(spec: RunSpec, execution: Execution, opened: Mapping[str, Sampler]) -> dict[str, Sampler]:
    """Return the samplers of models on this machine, each found to be what the run was made with.

    Of a model that proposes and solves there is one, which need not be loaded twice.
    """
    samplers: dict[str, Sampler] = {}
    same: list[tuple[object, Sampler]] = []
    own, solvers = execution.engine_options, execution.solver_options
    if spec.engine is None:
        given_options("remote", own)
    if all(solver.engine is None for solver in spec.solvers):
        given_options("remote", solvers, prefix="solver-")
    there = [(PROPOSER, spec.model, spec.engine, own, "")]
    there += [(solver.id, solver.model, solver.engine, solvers, "solver-") for solver in spec.solvers]
    for key, model, engine, options, prefix in there:
        if engine is None:
            continue
        use = model, engine, {name: value for name, value in options.items() if value is not None}
        sampler = next((before for described, before in same if described == use), opened.get(key))
        if sampler is None:
            sampler = open_stored(model, engine, options, prefix=prefix, grace_s=execution.grace_s)
            check_engine(model, engine, sampler)
        samplers[key] = sampler
        same.append((use, sampler))
    return samplers


def _addresses(spec: RunSpec, execution: Execution) -> dict[str, tuple[str, ...]]:
    """Return the addresses of each model of the run, none for a provider's own."""
    given = execution.solver_api_bases
    solvers = [solver for solver in spec.solvers if solver.engine is None]
    if given and spec.solvers and not solvers:
        raise InputError("--solver-api-base is for remote solvers; this run's draw on this machine.")
    if len(solvers) > 1 and len(given) not in (0, 1, len(solvers)):
        raise InputError(
            f"{len(given)} addresses for {len(solvers)} solvers: give --solver-api-base once for all, "
            "or once for each of them, in the order of --solver; servers of one solver separated by commas."
        )
    shared = len(solvers) == 1 or len(given) < 2
    per_solver = [split_bases(given if shared else given[place : place + 1]) for place in range(len(solvers))]
    if spec.engine is not None and execution.api_bases:
        raise InputError("--api-base is for a remote proposer; this run's draws on this machine.")
    asked = [(spec.model, split_bases(execution.api_bases))] if spec.asks_proposer else []
    asked += zip([solver.model for solver in solvers], per_solver, strict=True)
    if spec.premises is not None:
        asked.append((spec.premises.model, split_bases(execution.premises_api_bases)))
    elif execution.premises_api_bases:
        raise InputError("--premises-api-base is for the model of --premises; this run asks none.")
    addresses: dict[str, tuple[str, ...]] = {}
    for model, bases in asked:
        before = addresses.setdefault(model, bases)
        if not before:
            addresses[model] = bases
        elif bases and before != bases:
            raise InputError(
                f"{model} is given two addresses, {redact(', '.join(before))} and "
                f"{redact(', '.join(bases))}; one model is asked at one place, or at the same servers."
            )
    return addresses


def _source(spec: RunSpec, candidates: FileCandidates | None) -> Source | None:
    if spec.proposer != "file":
        if candidates is not None:
            raise InputError(
                f"--candidates belongs to runs that propose from a file; here it is {spec.model}."
            )
        return rules_source(spec) if spec.proposer == "rules" else None
    if candidates is None:
        raise InputError("this run proposes candidates from a file: name it with --candidates FILE.")
    if candidates.content != spec.source:
        raise InputError(
            f"{candidates.source}: its candidates are not those that the run was made with; restore the "
            "file, or start a run of another name."
        )
    by_question = candidates.by_question

    def propose(question_id: str, _text: str, count: int) -> tuple[str, ...]:
        return by_question.get(question_id, ())[:count]

    return propose
