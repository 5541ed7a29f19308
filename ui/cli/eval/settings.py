"""Settings of `tagrpo eval`: benchmarks, graders, what shapes the responses, and how they are drawn."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from typer import Argument, BadParameter, Option

from service.errors import InputError
from ui.cli.requests import SAMPLING_HELP, KeyVariable, Requests

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from evaluator.benchmarks import LoadedBenchmark
    from evaluator.reports.methods import Method
    from service.engines.opening import ModelSettings
    from service.models.prompts import Overrides

AnswersName = Literal["all", "boxed"]
SamplerName = Literal["auto", "remote", "vllm", "local"]


def sampler_help(model: str) -> str:
    """Return the help of an option that chooses what draws from the model of another option."""
    return (
        "Engine. remote: an API or a server; local: transformers; vllm: vLLM on this machine's GPUs; auto: "
        f"local if {model} is a folder, otherwise remote."
    )


EvalRun = Annotated[str, Argument(help="Name or id of an eval run.")]
ProblemPlace = Annotated[str, Argument(help="Position of the problem in the run, from 0, or its id.")]

AnswersTaken = Annotated[
    AnswersName, Option("--answers", help="Answers that count: any that is found, or only boxed ones.")
]
AnswersChoice = Annotated[
    AnswersName | None,
    Option(
        "--answers",
        help="Answers that count: any that is found, or only boxed ones. Default: as in the run.",
    ),
]


def check_grader(own: str | None, answers: AnswersName | None) -> None:
    """Refuse what only the rules can do.

    Raises:
        InputError: boxed answers are asked for of a grader of one's own.
    """
    from service.errors import InputError

    if own is not None and answers == "boxed":
        raise InputError("--grader reads responses itself. Remove --answers boxed.")


OwnGrader = Annotated[
    str | None, Option("--grader", help="Your own grader as module:function, instead of the built-in rules.")
]
Workers = Annotated[
    int | None,
    Option("--workers", min=1, help="Grading processes per machine. Default: one per CPU, at most 8."),
]


@dataclass(frozen=True)
class BenchmarkRows:
    """Where the rows of benchmarks come from, and which are taken."""

    source: Annotated[
        tuple[str, ...],
        Option(
            "--from",
            help="File with the rows, instead of the Hub. For several benchmarks: one per benchmark in "
            "order, or NAME=FILE.",
        ),
    ] = ()
    options_seed: Annotated[
        int, Option(help="Seed that shuffles the options of multiple-choice questions.")
    ] = 0
    allow_changed: Annotated[
        bool, Option(help="Accept a benchmark whose content differs from the known one.")
    ] = False

    def loader(self, names: Sequence[str]) -> "Callable[[str], LoadedBenchmark]":
        """Return what loads each of these benchmarks; nothing is read yet.

        Raises:
            typer.BadParameter: it is not said which of them a file is for.
        """
        from evaluator.benchmarks import load_benchmark

        files = self._files(names)

        def load(name: str) -> "LoadedBenchmark":
            return load_benchmark(
                name,
                source=files.get(name),
                options_seed=self.options_seed,
                allow_changed=self.allow_changed,
            )

        return load

    def _files(self, names: Sequence[str]) -> dict[str, str]:
        spellings = [spelling.partition("=") for spelling in self.source]
        files = {name: file for name, equals, file in spellings if equals and name in names}
        if len(files) == len(self.source):
            return files
        if len(self.source) != len(names) or files:
            raise BadParameter(
                f"{len(self.source)} --from for {len(names)} benchmarks. Give one per benchmark, in order, "
                f"or name them, as in --from {names[0]}=FILE"
            )
        return dict(zip(names, self.source, strict=True))


@dataclass(frozen=True)
class Counted:
    """Which grades count in reports."""

    answers: AnswersChoice = None
    grades: Annotated[
        Literal["human", "grader"],
        Option(
            help="Grades that count. human: human grades override the grader's; grader: ignore human grades."
        ),
    ] = "human"
    own_grader: OwnGrader = None
    judge: Annotated[
        str | None, Option(help="Also count the grades of this judge model from `eval judge`.")
    ] = None

    def __post_init__(self) -> None:
        check_grader(self.own_grader, self.answers)

    def load(
        self, session: "Session", references: Sequence[str], *, pool_anyway: bool
    ) -> "tuple[list[Method], list[str]]":
        """Return the methods that references name, and what is known of their contamination."""
        from evaluator.reports.methods import load_methods
        from evaluator.reports.notes import contamination_notes

        methods = load_methods(
            session,
            references,
            pool_anyway=pool_anyway,
            answers=self.answers,
            grades=self.grades,
            own=self.own_grader,
            judge=self.judge,
        )
        return methods, contamination_notes(session, methods)


@dataclass(frozen=True)
class Drawing:
    """What is said instead of the preset; None leaves the preset's."""

    panel: ClassVar[str] = "Prompt and sampling"

    system: Annotated[str | None, Option(help="System prompt.")] = None
    prompt_file: Annotated[
        Path | None, Option(help="File with the prompt; must contain {question}. Default: the preset's.")
    ] = None
    chat_template_kwargs: Annotated[
        str | None,
        Option(help="Arguments of the model's chat template as JSON: '{\"enable_thinking\": false}'."),
    ] = None
    raw: Annotated[bool, Option(help="Send the prompt as raw text, without the chat template.")] = False
    temperature: Annotated[float | None, Option(help="Temperature. Default: the preset's, 0.6.")] = None
    top_p: Annotated[float | None, Option(help="Top-p. Default: the preset's, 0.95.")] = None
    max_tokens: Annotated[
        int | None, Option(help="Maximum tokens in a response. Default: the preset's, 3,072.")
    ] = None
    sampling: Annotated[str | None, Option(help=SAMPLING_HELP)] = None
    stop: Annotated[
        tuple[str, ...], Option(help="Text that ends a response. Repeat the option for several.")
    ] = ()
    seed: Annotated[
        str | None,
        Option(
            metavar="N|none",
            help="Random seed of the run; none sends no seed, so the run is not repeatable. Default: 0.",
        ),
    ] = None
    samples_per_request: Annotated[
        int | None,
        Option(help="Responses per request. Default: 8, or 1 if the model is greedy or does not support n."),
    ] = None

    def overrides(self) -> "Overrides":
        """Return the same as the presets take it."""
        from service.models.prompts import Overrides

        return Overrides(**asdict(self))


@dataclass(frozen=True)
class EngineUse:
    """How an engine on this machine is used, which shapes no response; None leaves its own default."""

    panel: ClassVar[str] = "Engines on this machine"

    gpus: Annotated[
        int | None,
        Option(min=1, help="vllm: total GPUs; every --tensor-parallel GPUs run one engine."),
    ] = None
    ray_address: Annotated[
        str | None, Option(help="vllm: run the engines on the GPUs of this Ray cluster: auto, or HOST:PORT.")
    ] = None
    gpu_memory_utilization: Annotated[
        float | None, Option(help="vllm: share of GPU memory to use. Default: 0.9.")
    ] = None
    batch_size: Annotated[int | None, Option(min=1, help="local: maximum responses generated at once.")] = (
        None
    )


@dataclass(frozen=True)
class Engine(EngineUse):
    """The engine of a model on this machine."""

    device: Annotated[str | None, Option(help="local: cpu, cuda, cuda:1, ...")] = None
    dtype: Annotated[str | None, Option(help="local, vllm: float32, bfloat16, ...")] = None
    tensor_parallel: Annotated[
        int | None, Option(min=1, help="vllm: GPUs that share the model, per engine.")
    ] = None
    max_model_len: Annotated[
        int | None, Option(min=2, help="vllm: maximum tokens of prompt and response together.")
    ] = None
    revision: Annotated[str | None, Option(help="local, vllm: revision of the weights.")] = None


@dataclass(frozen=True)
class EvalRequests(Requests):
    """How a remote model is asked."""

    max_usd: Annotated[
        float | None,
        Option(
            min=0,
            help="Hard cap on the cost of all runs of this command together. The runs keep it when resumed.",
        ),
    ] = None
    api_base: Annotated[
        tuple[str, ...],
        Option(
            help="Address of the server (vLLM: http://HOST:8000/v1). Repeat the option to spread requests "
            "over several servers."
        ),
    ] = ()
    api_key_env: KeyVariable = None


def choose_sampler(wanted: SamplerName, model: str) -> SamplerName:
    """Return remote, vllm or local: a folder is a checkpoint, anything else is asked elsewhere."""
    if wanted != "auto":
        return wanted
    return "local" if Path(model).is_dir() else "remote"


_OPTIONS = {
    "remote": frozenset[str](),
    "vllm": frozenset(
        {
            "dtype",
            "tensor_parallel",
            "max_model_len",
            "revision",
            "gpus",
            "ray_address",
            "gpu_memory_utilization",
        }
    ),
    "local": frozenset({"device", "dtype", "revision", "batch_size"}),
}
"""The options of each kind of engine."""


def model_settings(
    kind: SamplerName,
    model: str,
    requests: Requests,
    engine: Mapping[str, Any],
    prefix: str = "",
    *,
    base_url: Sequence[str] = (),
) -> "ModelSettings":
    """Return how a model is asked. `prefix` is in front of the engine's options on the command line.

    Raises:
        InputError: an option of another engine, or an address that cannot be used.
    """
    from service.asks.remote import checked_addresses
    from service.engines.opening import RemoteSettings, TransformersSettings, VllmSettings

    given = {name: value for name, value in engine.items() if value is not None}
    for option in sorted(given.keys() - _OPTIONS[kind]):
        raise InputError(f"--{prefix}{option.replace('_', '-')} does not belong to --{prefix}sampler {kind}.")
    if kind == "remote":
        return RemoteSettings(
            model=model,
            base_url=checked_addresses(model, split_bases(base_url)),
            api_key_env=getattr(requests, "api_key_env", None),
            max_concurrency=requests.max_concurrency,
            timeout_s=requests.timeout_s,
            tokens_per_s=requests.tokens_per_s,
            batch=requests.batch,
            batch_poll_s=requests.batch_poll_s,
        )
    if base_url:
        raise InputError(f"--{prefix}api-base is for remote models; {model} is a model on this machine.")
    if kind == "local":
        return TransformersSettings(checkpoint=model, **given)
    gpus, shared = given.pop("gpus", None), given.pop("tensor_parallel", 1)
    if gpus is not None and gpus % shared:
        raise InputError(f"--{prefix}gpus {gpus} is not a multiple of --{prefix}tensor-parallel {shared}.")
    if (address := given.pop("ray_address", None)) is not None:
        os.environ["RAY_ADDRESS"] = address
    return VllmSettings(
        checkpoint=model,
        tensor_parallel_size=shared,
        data_parallel_size=1 if gpus is None else gpus // shared,
        ray=address is not None,
        **given,
    )


def split_bases(bases: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses that were given, several in one text separated by commas."""
    return tuple(base.strip() for text in bases for base in text.split(",") if base.strip())
