"""From the options of `tagrpo eval run` to the problems it asks and the sampler that draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ui.cli import output
from ui.cli.eval.options import SamplerName

if TYPE_CHECKING:
    from evaluator.benchmarks import LoadedBenchmark
    from evaluator.evals.problems import PlacedProblem
    from evaluator.evals.runs import EvalSpec
    from evaluator.grading import Grader
    from service.database import Database
    from service.models.protocol import Sampler
    from service.models.settings import SamplingSettings


ENGINE_OPTIONS: dict[str, set[str]] = {
    "local": {"device", "dtype", "batch_size", "batch_tokens", "revision"},
    "vllm": {"dtype", "tensor_parallel", "max_model_len", "gpu_memory_utilization", "revision"},
    "remote": set(),
}
"""Which sampler knows which option of an engine."""


@dataclass(frozen=True)
class ProblemSet:
    """What one run is over: a benchmark or a neighbor set, all of it or its first problems.

    `label` names it in the run's spec, `suffix` in the run's name.
    """

    label: str
    suffix: str
    source: Mapping[str, Any]
    placed: "Sequence[PlacedProblem]"


@dataclass(frozen=True)
class RemoteOptions:
    """How a remote model is asked; none of it shapes the responses."""

    api_base: str | None
    max_usd: float | None
    max_requests: int | None
    price: Sequence[str]
    prices: Path | None
    max_concurrency: int
    timeout_s: float
    batch: bool
    batch_poll_s: float


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engines on this machine; None leaves the engine's own default."""

    device: str | None
    dtype: str | None
    tensor_parallel: int | None
    max_model_len: int | None
    gpu_memory_utilization: float | None
    batch_size: int | None
    batch_tokens: int | None
    revision: str | None


def load_benchmarks(
    names: Sequence[str],
    sources: Sequence[str],
    *,
    options_seed: int,
    allow_changed: bool,
    allow_bad_golds: bool,
    limit: int | None,
    grader: "Grader",
) -> list[ProblemSet]:
    """Load benchmarks and grade their golds against themselves, before anything is asked."""
    from evaluator.benchmarks import load_benchmark, require_golds
    from evaluator.evals.problems import PlacedProblem

    files = source_files(names, sources)
    found = []
    for name in names:
        loaded = load_benchmark(
            name, source=files.get(name), options_seed=options_seed, allow_changed=allow_changed
        )
        failures = require_golds(loaded, grader, allow_bad_golds)
        _note_failures(loaded, len(failures))
        problems = loaded.problems[:limit]
        cut = len(problems) < len(loaded.problems)
        found.append(
            ProblemSet(
                label=f"{loaded.name}[:{limit}]" if cut else loaded.name,
                suffix=f"{loaded.name}-first{limit}" if cut else loaded.name,
                source=loaded.source,
                placed=[PlacedProblem(problem) for problem in problems],
            )
        )
    return found


def source_files(names: Sequence[str], sources: Sequence[str]) -> dict[str, str]:
    """Return the file of each benchmark that has one, from `FILE` or `NAME=FILE` spellings."""
    files: dict[str, str] = {}
    for spelling in sources:
        name, equals, file = spelling.partition("=")
        if equals and name in names:
            files[name] = file
        elif len(names) == 1:
            files[names[0]] = spelling
        else:
            raise typer.BadParameter(
                f"--from {spelling}: with several benchmarks say which it is for, as --from {names[0]}=FILE"
            )
    return files


def load_neighbors(
    database: "Database", reference: str, *, allow_bad_golds: bool, limit: int | None, grader: "Grader"
) -> ProblemSet:
    """Return the questions of a published neighbor set, each with its neighbors as one group.

    `limit` counts questions, not neighbors. The questions' golds are graded against themselves first.
    """
    from evaluator.benchmarks import LoadedBenchmark, require_golds
    from evaluator.evals.problems import PlacedProblem, make_problem
    from rephraser.sets import find_set, load_entries

    with database.read() as session:
        header = find_set(session, reference)
        entries = load_entries(session, header.id, limit=limit)
    originals = tuple(make_problem(entry.question.text, entry.question.answer) for entry in entries)
    loaded = LoadedBenchmark(header.ref, header.ref, originals, {}, None)
    _note_failures(loaded, len(require_golds(loaded, grader, allow_bad_golds)))
    placed = []
    for entry, original in zip(entries, originals, strict=True):
        question = entry.question
        placed.append(PlacedProblem(original, question.id, 0, question.id))
        for variant, neighbor in enumerate(entry.neighbors, start=1):
            placed.append(
                PlacedProblem(
                    make_problem(neighbor.text, question.answer),
                    question.id,
                    variant,
                    neighbor.candidate_id,
                    neighbor.strategy,
                )
            )
    cut = limit is not None and header.counts["questions"] > len(entries)
    return ProblemSet(
        label=f"{header.ref}[:{limit}]" if cut else header.ref,
        suffix=f"{header.name}-{header.version}" + (f"-first{limit}" if cut else ""),
        source={"neighbor_set": header.id, "ref": header.ref, "content_hash": header.content_hash},
        placed=placed,
    )


def choose_sampler(wanted: SamplerName, model: str) -> SamplerName:
    """Return remote, vllm or local: a folder is a checkpoint, anything else is asked elsewhere."""
    if wanted != "auto":
        return wanted
    return "local" if Path(model).is_dir() else "remote"


def open_sampler(name: SamplerName, model: str, remote: RemoteOptions, engine: EngineOptions) -> "Sampler":
    """Return the sampler; nothing is loaded or sent yet."""
    given = {option: value for option, value in vars(engine).items() if value is not None}
    for option in sorted(set(given) - ENGINE_OPTIONS[name]):
        raise typer.BadParameter(f"--{option.replace('_', '-')} does not belong to --sampler {name}")
    if name == "remote":
        from service.models.remote import Endpoint, PriceTable
        from service.models.remote.sampler import RemoteSampler

        return RemoteSampler(
            Endpoint(model, remote.api_base, remote.timeout_s),
            prices=PriceTable.read(remote.prices, remote.price),
            max_usd=remote.max_usd,
            max_requests=remote.max_requests,
            max_concurrency=remote.max_concurrency,
            batch=remote.batch,
            batch_poll_s=remote.batch_poll_s,
        )
    if name == "local":
        from service.models.local import LocalSampler

        return LocalSampler(model, **given)
    from service.models.vllm import VllmSampler

    return VllmSampler(model, **given)


def fit_sampling(sampler: "Sampler", sampling: "SamplingSettings", *, asked: bool) -> "SamplingSettings":
    """Return the settings with one sample a request where a remote model does not know n.

    `asked`: the user named the number, and it stays.
    """
    from service.models.remote.sampler import RemoteSampler

    if asked or not isinstance(sampler, RemoteSampler):
        return sampling
    return replace(sampling, samples_per_request=sampler.samples_per_request(sampling.samples_per_request))


def check_prompt(sampler: "Sampler", spec: "EvalSpec") -> None:
    """Raise where a remote endpoint cannot take such prompts, before a run is made."""
    from service.models.remote.sampler import RemoteSampler

    if isinstance(sampler, RemoteSampler):
        sampler.check(spec)


def _note_failures(loaded: "LoadedBenchmark", failures: int) -> None:
    if failures:
        output.note(
            f"{loaded.name}: {failures:,} of {len(loaded.problems):,} golds are not correct when graded "
            "against themselves; their problems count as wrong"
        )
    if loaded.content == "changed":
        output.note(f"{loaded.name}: not the content it is known by; scores cannot be compared with others")
