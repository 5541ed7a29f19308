"""Settings of proposing: the proposer, the solvers, the requests."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer import Option

from ui.cli.eval.settings import Engine, EngineUse, SamplerName, choose_sampler, sampler_help
from ui.cli.requests import SAMPLING_HELP, KeyVariable, Requests

if TYPE_CHECKING:
    from rephraser.proposing.strategies import Strategy
    from rephraser.run.execution import Execution
    from rephraser.run.spec import SolverSpec
    from service.models.drawing import Sampler
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

    def open(self, engine: Engine, requests: "RunRequests") -> "Sampler | None":
        """Return the sampler of a proposer on this machine, None for any other; nothing is drawn yet.

        Raises:
            InputError: an option of another engine.
        """
        from service.models.offline import given_options, open_engine

        kind = choose_sampler(self.sampler, self.model or "")
        if self.proposer != "llm" or kind == "remote":
            given_options("remote", vars(engine))
            return None
        return open_engine(kind, str(self.model), vars(engine), grace_s=requests.grace_s)

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

    def open(
        self, requests: "RunRequests", *, seed: int | None = 0, programs: bool = False
    ) -> tuple["tuple[SolverSpec, ...]", "dict[str, Sampler]"]:
        """Return the solvers, and the samplers of those on this machine by the solver's id.

        Of a checkpoint configuration and tokenizer are loaded and the weights' fingerprint is taken; nothing
        is drawn yet.

        Raises:
            InputError: no such preset, a prompt's file without `{question}`, an option of another engine.
            PrerequisiteError: torch, transformers or vLLM is not installed; checkpoint or device cannot be
                found.
        """
        from rephraser.run.spec import BOXED_INSTRUCTION, PROGRAM_INSTRUCTION, SOLVING, SolverSpec
        from service.models.offline import given_options, open_engine
        from service.models.published import override_sampling

        kinds = [choose_sampler(self.solver_sampler, model) for model in self.solver]
        options = {**_engine_options(self), **_engine_options(requests)}
        if {*kinds} <= {"remote"}:
            given_options("remote", options, prefix="solver-")
        sampling = override_sampling(
            SOLVING,
            self.solver_sampling,
            self.solver_temperature,
            self.solver_top_p,
            self.solver_max_tokens,
        )
        instruction = PROGRAM_INSTRUCTION if programs else BOXED_INSTRUCTION
        prompt = self._prompt(programs=programs)
        shared = SolverSpec("", sampling, self.samples_per_request, instruction, seed, prompt)
        specs: list[SolverSpec] = []
        samplers: dict[str, Sampler] = {}
        for model, kind in zip(self.solver, kinds, strict=True):
            if kind == "remote":
                specs.append(replace(shared, model=model))
                continue
            sampler = open_engine(kind, model, options, prefix="solver-", grace_s=requests.grace_s)
            engine = dict(sampler.describe())
            specs.append(replace(shared, model=model, engine=engine))
            sampler.check(specs[-1].drawing)
            samplers[specs[-1].id] = sampler
        return tuple(specs), samplers

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
    wave: Annotated[
        int | None,
        Option(
            min=1,
            help="Questions per wave; a wave is proposed, checked and judged before the next one starts.",
        ),
    ] = None
    stop_below: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Stop after a --wave with a lower acceptance rate than this.",
        ),
    ] = None

    def execution(self, engine: EngineUse) -> "Execution":
        """Return the same as the rephraser takes it; `engine` is the proposer's."""
        from rephraser.run.execution import CandidateFile, Execution
        from service.models.asking import Asking

        if self.stop_below is not None and self.wave is None:
            raise typer.BadParameter(
                "--stop-below is checked after each wave. Also give the wave size, as in --wave 200"
            )
        file = CandidateFile(self.candidates or "", self.question_column, self.candidate_column)
        return Execution(
            **{each.name: getattr(self, each.name) for each in fields(Asking)},
            api_bases=self.api_base,
            api_key_env=self.api_key_env,
            solver_api_bases=self.solver_api_base,
            premises_api_bases=self.premises_api_base,
            candidates=file if self.candidates else None,
            engine_options={each.name: getattr(engine, each.name) for each in fields(EngineUse)},
            solver_options=_engine_options(self),
            wave=self.wave,
            stop_below=self.stop_below,
        )
