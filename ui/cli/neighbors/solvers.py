"""From the options of `tagrpo neighbors propose` to the solvers of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ui.cli.eval.sampling import choose_sampler
from ui.cli.runs.options import SolverSamplerName

if TYPE_CHECKING:
    from rephraser.run.spec import Sampling, SolverSpec
    from service.models.protocol import Sampler
    from service.models.settings import PromptSpec


def make_solvers(
    models: Sequence[str],
    wanted: SolverSamplerName,
    *,
    sampling: "Sampling",
    samples_per_request: int,
    prompt: tuple[str | None, Path | None],
    device: str | None,
    dtype: str | None,
    batch_size: int | None,
) -> tuple["tuple[SolverSpec, ...]", "dict[str, Sampler]"]:
    """Return the solvers, and the samplers of those on this machine by the solver's id.

    `prompt` is a preset of `eval run` and a file, both optional. Of a checkpoint configuration and tokenizer
    are loaded and the weights' fingerprint is taken; nothing is drawn yet.

    Raises:
        InputError: no such preset, or a prompt's file without `{question}`.
        PrerequisiteError: torch or transformers is not installed; checkpoint or device cannot be found.
    """
    from rephraser.run.spec import SolverSpec

    local = [choose_sampler(wanted, model) == "local" for model in models]
    given = {"device": device, "dtype": dtype, "batch_size": batch_size}
    options = {name: value for name, value in given.items() if value is not None}
    if options and not any(local):
        name = next(iter(options)).replace("_", "-")
        raise typer.BadParameter(f"--solver-{name} belongs to solvers on this machine; there is none here")
    asked = _prompt(*prompt)
    specs: list[SolverSpec] = []
    samplers: dict[str, Sampler] = {}
    for model, is_local in zip(models, local, strict=True):
        if not is_local:
            specs.append(SolverSpec(model, sampling, samples_per_request, prompt=asked))
            continue
        from service.models.local import LocalSampler

        sampler = LocalSampler(model, device=device or "auto", dtype=dtype or "auto", batch_size=batch_size)
        engine = dict(sampler.describe())
        specs.append(SolverSpec(model, sampling, samples_per_request, prompt=asked, engine=engine))
        samplers[specs[-1].id] = sampler
    return tuple(specs), samplers


def _prompt(preset: str | None, file: Path | None) -> "PromptSpec | None":
    from service.models.prompts import Overrides, find_preset, make_prompt

    if preset is None and file is None:
        return None
    return make_prompt(find_preset(preset or "default"), Overrides(prompt_file=file))
