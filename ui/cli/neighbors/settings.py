"""Settings of proposing: the proposer, the solvers, the requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer import Option

from service.errors import InputError
from ui.cli.eval.settings import (
    Engine,
    EngineUse,
    SamplerName,
    choose_sampler,
    model_settings,
    sampler_help,
)
from ui.cli.requests import SAMPLING_HELP, KeyVariable, Requests

if TYPE_CHECKING:
    from rephraser.proposing.strategies import Strategy
    from rephraser.run.execution import CandidateFile
    from rephraser.run.spec import RunSpec, SolverSpec
    from service.asks.backend import Endpoint
    from service.engines.opening import ModelSettings, OpenModels
    from service.models.settings import PromptSpec, Sampling


@dataclass(frozen=True)
class Proposer:
    """Who proposes candidates, and how it answers."""

    panel: ClassVar[str] = "Proposer"

    proposer: Annotated[
        Literal["llm", "rules", "file"],
        Option(
            help="Source of candidates. llm: any litellm model; rules: no model; file: your own candidates."
        ),
    ] = "llm"
    model: Annotated[
        str | None,
        Option(
            help="Proposer model, named as in litellm: gpt-4-turbo, hosted_vllm/Qwen/Qwen3-4B. For a "
            "--sampler on this machine: a checkpoint's folder or name."
        ),
    ] = None
    sampler: Annotated[SamplerName, Option(help=sampler_help("--model"))] = "auto"
    strategy: Annotated[
        tuple[str, ...],
        Option(
            help="perspectives, paraphrase, rename, format, or a text file. Repeat the option for several."
        ),
    ] = ()
    sampling: Annotated[str | None, Option(help=SAMPLING_HELP)] = None
    temperature: Annotated[float | None, Option(help="Temperature of the proposer. Default: 1.")] = None
    top_p: Annotated[float | None, Option(help="Top-p of the proposer. Default: 1.")] = None
    max_tokens: Annotated[
        int | None, Option(help="Maximum tokens in the proposer's answer. Default: 4,096.")
    ] = None
    content_attempts: Annotated[
        int, Option(help="Attempts per request if answers are unusable (refusals, echoes, ...).")
    ] = 3
    reply: Annotated[
        Literal["auto", "json", "tags"],
        Option(help="Reply format of the proposer; auto: JSON if OpenAI enforces a schema, otherwise tags."),
    ] = "auto"
    min_distance: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Minimum distance in wording from the question and earlier candidates. Default: 0.15 for "
            "models, 0 for rules and files.",
        ),
    ] = None

    def check(self, candidates: str | None) -> None:
        """Raise BadParameter where options of one proposer are given to another."""
        if self.proposer == "llm" and self.model is None:
            raise typer.BadParameter("an llm proposer needs --model, for example --model gpt-4-turbo")
        if self.proposer != "llm" and (self.model or self.strategy):
            raise typer.BadParameter(f"--model and --strategy require --proposer llm, not {self.proposer}")
        if self.proposer != "llm" and self.sampler != "auto":
            raise typer.BadParameter(f"--sampler requires --proposer llm, not {self.proposer}")
        if (self.proposer == "file") != (candidates is not None):
            raise typer.BadParameter("--candidates and --proposer file need each other")

    def strategies(self, *, programs: bool = False) -> "tuple[Strategy, ...]":
        """Return the strategies of a model, or the only one of rules or a file.

        Args:
            programs: the questions ask for programs.
        """
        from rephraser.proposing.strategies import load_strategy
        from rephraser.run.start import local_strategies

        if self.proposer != "llm":
            return local_strategies(self.proposer)
        usual = ("programs",) if programs else ("perspectives",)
        return tuple(load_strategy(reference) for reference in self.strategy or usual)

    def drawing(self) -> "Sampling | None":
        """Return how a model's answers are drawn."""
        from rephraser.run.spec import PROPOSING
        from service.models.published import override_sampling

        settings = self.sampling, self.temperature, self.top_p, self.max_tokens
        return override_sampling(PROPOSING, *settings) if self.proposer == "llm" else None

    def model_settings(self, engine: Engine, requests: "RunRequests") -> "ModelSettings | None":
        """Return how the proposer is asked; None for rules and files.

        Raises:
            InputError: an option of another engine.
        """
        if self.proposer != "llm":
            model_settings("remote", "", requests, vars(engine))
            return None
        kind = choose_sampler(self.sampler, self.model or "")
        return model_settings(kind, str(self.model), requests, vars(engine), base_url=requests.api_base)

    def least_distance(self) -> float:
        """Return 0.15 for a model, which can be asked again; of a file it is left out when published."""
        from rephraser.checks.wording import MIN_DISTANCE

        if self.min_distance is not None:
            return self.min_distance
        return MIN_DISTANCE if self.proposer == "llm" else 0.0


@dataclass(frozen=True)
class Solvers:
    """The models whose answers are compared; all of it stands in the run."""

    panel: ClassVar[str] = "Solvers"

    solver: Annotated[
        tuple[str, ...],
        Option(
            help="Model whose answers are compared, or a checkpoint's folder. Repeat the option for several. "
            "Default: none; neighbors stay unverified."
        ),
    ] = ()
    solver_sampler: Annotated[SamplerName, Option(help=sampler_help("--solver"))] = "auto"
    solver_sampling: Annotated[str | None, Option(help="Sampling of the solvers, as in --sampling.")] = None
    solver_temperature: Annotated[float | None, Option(help="Temperature of the solvers. Default: 0.7.")] = (
        None
    )
    solver_top_p: Annotated[float | None, Option(help="Top-p of the solvers. Default: 0.95.")] = None
    solver_max_tokens: Annotated[
        int | None, Option(help="Maximum tokens in a solver's answer. Default: 3,072.")
    ] = None
    solver_preset: Annotated[
        str | None,
        Option(
            help="Prompt of the solvers as in `eval run`: default, paper, paper-eval, plain (the bare "
            "question). Default: the question, then an instruction to reason step by step and box the "
            "answer."
        ),
    ] = None
    solver_prompt_file: Annotated[
        Path | None, Option(help="File with the solvers' prompt; must contain {question}.")
    ] = None
    solver_device: Annotated[str | None, Option(help="Local solvers: cpu, cuda, cuda:1, ...")] = None
    solver_dtype: Annotated[str | None, Option(help="Solvers on this machine: float32, bfloat16, ...")] = None
    solver_tensor_parallel: Annotated[
        int | None, Option(min=1, help="Solvers with vllm: GPUs that share the model, per engine.")
    ] = None
    solver_max_model_len: Annotated[
        int | None, Option(min=2, help="Solvers with vllm: maximum tokens of prompt and answer together.")
    ] = None
    samples_per_request: Annotated[int, Option(help="Answers per request to a solver.")] = 4

    def model_settings(self, requests: "RunRequests") -> "list[ModelSettings]":
        """Return how each solver is asked.

        Raises:
            InputError: an option of another engine, or not as many addresses as solvers.
        """
        kinds = [choose_sampler(self.solver_sampler, model) for model in self.solver]
        options = {**_engine_options(self), **_engine_options(requests)}
        if {*kinds} <= {"remote"}:
            model_settings("remote", "", requests, options, "solver-")
            options = {}
        return solver_settings(list(zip(kinds, self.solver, strict=True)), options, requests)

    def specs(
        self, models: "Sequence[OpenedModel | None]", *, seed: int | None = 0, programs: bool = False
    ) -> "tuple[SolverSpec, ...]":
        """Return the solvers; `models` are those that are open, None in a dry run.

        Raises:
            InputError: there is no such preset, or a prompt file lacks `{question}`.
            PrerequisiteError: a solver does not take such requests.
        """
        from rephraser.run.spec import BOXED_INSTRUCTION, PROGRAM_INSTRUCTION, SOLVING, SolverSpec
        from service.asks.prompts import prompt_request
        from service.engines.opening import check_request
        from service.models.published import override_sampling

        sampling = override_sampling(
            SOLVING,
            self.solver_sampling,
            self.solver_temperature,
            self.solver_top_p,
            self.solver_max_tokens,
        )
        instruction = PROGRAM_INSTRUCTION if programs else BOXED_INSTRUCTION
        shared = SolverSpec(
            "", sampling, self.samples_per_request, instruction, seed, self._prompt(programs=programs)
        )
        specs = []
        for name, opened in zip(self.solver, models, strict=True):
            spec = replace(shared, model=name, engine=None if opened is None else opened.engine)
            if opened is not None:
                request = prompt_request(spec.model_identity, spec.drawing.prompt, sampling, "1 + 1 = ?")
                check_request(opened.endpoint, request)
            specs.append(spec)
        return tuple(specs)

    def _prompt(self, *, programs: bool) -> "PromptSpec | None":
        from service.models.prompts import Overrides, find_preset, make_prompt

        if self.solver_preset is None and self.solver_prompt_file is None:
            return None
        overrides = Overrides(prompt_file=self.solver_prompt_file)
        return make_prompt(find_preset(self.solver_preset or "default"), overrides, programs=programs)


def _engine_options(settings: "Solvers | RunRequests") -> dict[str, Any]:
    """Return the settings of solvers on this machine, by the names that engines have for them."""
    names = [each.name for each in fields(Engine) if hasattr(settings, f"solver_{each.name}")]
    return {name: getattr(settings, f"solver_{name}") for name in names}


@dataclass(frozen=True)
class RunRequests(Requests):
    """How a run is carried out; another invocation of the same run may use other values."""

    api_base: Annotated[
        tuple[str, ...],
        Option(
            help="Address of the proposer's server (vLLM: http://HOST:8000/v1). Repeat the option to spread "
            "requests over several servers."
        ),
    ] = ()
    api_key_env: KeyVariable = None
    solver_api_base: Annotated[
        tuple[str, ...],
        Option(
            help="Address of a solver's server: once for all, or once per remote --solver. Separate several "
            "servers of one solver by commas."
        ),
    ] = ()
    premises_api_base: Annotated[
        tuple[str, ...], Option(help="Address of the --premises server, or of several.")
    ] = ()
    solver_batch_size: Annotated[
        int | None, Option(min=1, help="Local solvers: maximum answers generated at once.")
    ] = None
    solver_gpus: Annotated[
        int | None,
        Option(
            min=1, help="Solvers with vllm: total GPUs; each GPU or tensor-parallel group runs one engine."
        ),
    ] = None
    solver_ray_address: Annotated[
        str | None, Option(help="Solvers with vllm: run the engines on the GPUs of this Ray cluster.")
    ] = None
    solver_gpu_memory_utilization: Annotated[
        float | None, Option(help="Solvers with vllm: share of GPU memory to use. Default: 0.9.")
    ] = None
    candidates: Annotated[
        str | None, Option(help="File or Hub dataset of candidates, for --proposer file.")
    ] = None
    question_column: Annotated[
        str | None, Option(help="Column of --candidates with the question's id or exact text.")
    ] = None
    candidate_column: Annotated[
        str | None, Option(help="Column of --candidates with the candidate, or a list of them.")
    ] = None
    stop_below: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Stop the run if its acceptance rate falls below this.",
        ),
    ] = None

    def candidate_file(self) -> "CandidateFile | None":
        """Return the file of candidates, None without one."""
        from rephraser.run.execution import CandidateFile

        if self.candidates is None:
            return None
        return CandidateFile(self.candidates, self.question_column, self.candidate_column)


@dataclass(frozen=True)
class OpenedModel:
    """An open model; `engine` describes it if it runs on this machine."""

    endpoint: "Endpoint"
    engine: dict[str, Any] | None


@dataclass(frozen=True)
class OpenedModels:
    """The open models of a run by their roles."""

    proposer: OpenedModel | None
    solvers: tuple[OpenedModel, ...]


@dataclass(frozen=True)
class SpecParts:
    """What a command line says of the models of a new run."""

    questions: str
    proposer: Proposer
    solvers: Solvers
    premises: str | None
    engine: Engine
    requests: RunRequests
    seed: int | None
    programs: bool

    async def open(self, models: "OpenModels") -> OpenedModels:
        """Open the proposer, the solvers, and the model that is asked about premises.

        Raises:
            InputError, PrerequisiteError, BudgetError: see `OpenModels.open`.
        """
        proposer = self.proposer.model_settings(self.engine, self.requests)
        solvers = self.solvers.model_settings(self.requests)
        premises = premise_settings(self.premises, self.proposer.model, self.requests)
        opened = None if proposer is None else await open_model(models, proposer)
        opened_solvers = [await open_model(models, solver) for solver in solvers]
        if premises is not None:
            await models.open(premises)
        return OpenedModels(opened, tuple(opened_solvers))

    def make(self, models: OpenedModels | None, *, source: str | None, **settings: Any) -> "RunSpec":
        """Return the settings of the run; without `models` nothing is known of engines, as in a dry run.

        Args:
            models: The open models.
            source: The hash of a file of candidates.
            settings: Further fields of the spec.

        Raises:
            InputError: settings that cannot be used.
            PrerequisiteError: a model does not take such requests.
        """
        from rephraser.run.spec import PremiseSpec, RunSpec
        from service.asks.remote import RemoteEndpoint

        shared_seed = None if self.seed is None else 0  # runs of any seed share the answers of solvers
        opened = None if models is None else models.proposer
        output = self.proposer.reply
        if output == "auto":
            structured = (
                opened is not None
                and isinstance(opened.endpoint, RemoteEndpoint)
                and opened.endpoint.provider.enforces_schema
            )
            output = "json" if structured else "tags"
        solvers: Sequence[OpenedModel | None] = (
            [None] * len(self.solvers.solver) if models is None else models.solvers
        )
        return RunSpec(
            questions=self.questions,
            proposer=self.proposer.proposer,
            model=self.proposer.model or self.proposer.proposer,
            strategies=self.proposer.strategies(programs=self.programs),
            content_attempts=self.proposer.content_attempts,
            seed=self.seed,
            sampling=self.proposer.drawing(),
            output=output,
            solvers=self.solvers.specs(solvers, seed=shared_seed, programs=self.programs),
            premises=None if self.premises is None else PremiseSpec(self.premises, seed=shared_seed),
            min_distance=self.proposer.least_distance(),
            engine=None if opened is None else opened.engine,
            source=source,
            **settings,
        )


async def open_model(models: "OpenModels", settings: "ModelSettings") -> OpenedModel:
    """Open one model."""
    from service.engines.opening import RemoteSettings, describe_engine

    endpoint = await models.open(settings)
    engine = None if isinstance(settings, RemoteSettings) else describe_engine(endpoint)
    return OpenedModel(endpoint, engine)


def premise_settings(
    model: str | None, proposer: str | None, requests: RunRequests
) -> "ModelSettings | None":
    """Return how the model for premises is asked: the proposer at the proposer's server.

    Raises:
        InputError: an address, but no model.
    """
    if model is None:
        if requests.premises_api_base:
            raise InputError("--premises-api-base is the server of --premises, and this run asks none.")
        return None
    base_url = requests.premises_api_base or (requests.api_base if model == proposer else ())
    return model_settings("remote", model, requests, {}, base_url=base_url)


def solver_settings(
    solvers: Sequence[tuple[SamplerName, str]], options: Mapping[str, Any], requests: RunRequests
) -> "list[ModelSettings]":
    """Return how solvers are asked, given their kinds and names.

    Raises:
        InputError: addresses for no remote solver, or not as many as remote solvers.
    """
    given, remote = requests.solver_api_base, [model for kind, model in solvers if kind == "remote"]
    if given and solvers and not remote:
        raise InputError("--solver-api-base is for remote solvers; those of this run are on this machine.")
    if len(remote) > 1 and len(given) not in (0, 1, len(remote)):
        raise InputError(
            f"{len(given)} addresses for {len(remote)} solvers. Give --solver-api-base once for all, or once "
            "for each of them in the order of --solver; separate the servers of one solver by commas."
        )
    shared, settings, place = len(remote) == 1 or len(given) < 2, [], 0
    for kind, model in solvers:
        bases: Sequence[str] = ()
        if kind == "remote":
            bases = given if shared else given[place : place + 1]
            place += 1
        own = options if kind != "remote" else {}
        settings.append(model_settings(kind, model, requests, own, "solver-", base_url=bases))
    return settings


async def open_stored(
    spec: "RunSpec", models: "OpenModels", requests: RunRequests, engine: "EngineUse"
) -> None:
    """Open the models of a stored run.

    Raises:
        InputError: a checkpoint is not the one that the run was made with, or an option of another engine.
        PrerequisiteError, BudgetError: see `OpenModels.open`.
    """
    if spec.proposer == "llm":
        own = vars(engine) | _stored_options(spec.engine)
        settings = model_settings(
            _stored_kind(spec.engine), spec.model, requests, own, base_url=requests.api_base
        )
        _check_same(spec.model, spec.engine, await open_model(models, settings))
    solvers = [(_stored_kind(solver.engine), solver.model) for solver in spec.solvers]
    engines = [solver.engine for solver in spec.solvers if solver.engine is not None]
    options = _engine_options(requests) | (_stored_options(engines[0]) if engines else {})
    for solver, settings in zip(spec.solvers, solver_settings(solvers, options, requests), strict=True):
        _check_same(solver.model, solver.engine, await open_model(models, settings))
    if (
        premises := premise_settings(spec.premises.model if spec.premises else None, spec.model, requests)
    ) is not None:
        await models.open(premises)


def _stored_kind(engine: Mapping[str, Any] | None) -> SamplerName:
    return "remote" if engine is None else "vllm" if engine["sampler"] == "vllm" else "local"


def _stored_options(engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of a stored engine that shape its responses."""
    if engine is None:
        return {}
    names = {"dtype": "dtype", "device": "device"}
    if engine["sampler"] == "vllm":
        names = {
            "dtype": "dtype",
            "tensor_parallel": "tensor_parallel_size",
            "max_model_len": "max_model_len",
        }
    return {option: engine[name] for option, name in names.items() if engine.get(name) is not None}


def _check_same(model: str, engine: Mapping[str, Any] | None, opened: OpenedModel) -> None:
    if engine is not None and opened.endpoint.model != engine["identity"]:
        raise InputError(
            f"{model}: the checkpoint or its engine is not the one that the run was made with. Restore it, "
            "or start a run of another name."
        )
