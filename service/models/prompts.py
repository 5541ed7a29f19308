r"""Prompts and presets: how a problem is put to a model, and how its responses are drawn.

A preset can be changed in every part; what comes out is in the run's key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from service.errors import InputError
from service.models.published import override_sampling, read_seed
from service.models.settings import PromptSpec, Sampling, SamplingSettings

BOXED = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}."
"""The instruction of Qwen's model cards for mathematics, after the problem."""

BOXED_CHOICE = (
    "{question}\n\nPlease reason step by step, and put the letter of the right option within \\boxed{}."
)

PROGRAM = (
    "{question}\n\nPlease reason step by step, and put the whole program, with the imports it needs, within "
    "one block of code: ```python ... ```."
)

PAPER_INSTRUCTION = (
    "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}."
)
"""arXiv 2601.22478 v5, Box 2."""

PAPER_EVAL_INSTRUCTION = (
    "You FIRST think about the reasoning process step by step and then provide the user with the answer. "
    "Please enclose your final answer in the box: \\boxed{}. Please stop generating immediately after "
    "outputting the box."
)
"""github.com/lhkhiem28/TA-GRPO, utils.py; its test.py continues this and the problem as raw text."""


@dataclass(frozen=True)
class Preset:
    """Prompt, sampling settings and number of samples under one name.

    `choice_template` is for benchmarks that ask for the letter of an option; None: the same prompt for all.
    """

    about: str
    template: str
    choice_template: str | None = None
    form: Literal["chat", "raw"] = "chat"
    system: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 3072
    samples_per_request: int = 8
    n: int = 32


PRESETS: dict[str, Preset] = {
    "default": Preset(
        about="chat, the answer in a box, thinking as the model's chat template has it",
        template=BOXED,
        choice_template=BOXED_CHOICE,
    ),
    "paper": Preset(
        about="arXiv 2601.22478: its instruction (Box 2), no thinking, 128 samples",
        template=f"{PAPER_INSTRUCTION}\n{{question}}",
        choice_template=f"{PAPER_INSTRUCTION} The answer is the letter of an option.\n{{question}}",
        chat_template_kwargs={"enable_thinking": False},
        n=128,
    ),
    "paper-eval": Preset(
        about="the public evaluation of arXiv 2601.22478: raw text, its instruction, 128 samples",
        template=f"{PAPER_EVAL_INSTRUCTION}\n{{question}}",
        form="raw",
        n=128,
    ),
    "plain": Preset(
        about="chat, the question alone: for a model trained on bare questions",
        template="{question}",
    ),
}


@dataclass(frozen=True)
class Overrides:
    """What the user says instead of the preset; None leaves the preset's."""

    raw: bool = False
    system: str | None = None
    prompt_file: Path | None = None
    chat_template_kwargs: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    sampling: str | None = None
    stop: tuple[str, ...] = ()
    seed: str | None = None
    samples_per_request: int | None = None


def find_preset(name: str) -> Preset:
    """Return the preset of this name.

    Raises:
        InputError: there is none.
    """
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}, only: {', '.join(PRESETS)}.")
    return PRESETS[name]


def make_prompt(
    preset: Preset, overrides: Overrides, *, choice: bool = False, programs: bool = False
) -> PromptSpec:
    """Return the prompt; with `choice` (all problems ask for an option's letter) the preset's for such.

    With `programs` (all ask for programs) it is `PROGRAM`, but for presets that put the question alone.

    `--raw` leaves out the preset's own system prompt and chat-template arguments.

    Raises:
        InputError: a prompt file that cannot be read or lacks `{question}`, arguments that are no JSON
            object, or a system prompt for raw text.
    """
    template = preset.template
    if choice and preset.choice_template is not None:
        template = preset.choice_template
    if programs and template != "{question}":
        template = PROGRAM
    if overrides.prompt_file is not None:
        template = _read_template(overrides.prompt_file)
    raw = overrides.raw or preset.form == "raw"
    system, kwargs = (None, {}) if raw else (preset.system, dict(preset.chat_template_kwargs))
    if overrides.system is not None:
        system = overrides.system
    if overrides.chat_template_kwargs is not None:
        kwargs = read_template_kwargs(overrides.chat_template_kwargs)
    return PromptSpec(template, "raw" if raw else "chat", system, kwargs)


def make_sampling(preset: Preset, overrides: Overrides) -> SamplingSettings:
    """Return how responses are drawn: by the preset's settings, `sampling` over them, single ones over both.

    At temperature 0 each response is asked for alone: servers refuse more.

    Raises:
        InputError: a value out of its range, or what `read_sampling` and `read_seed` refuse.
    """
    base = Sampling(preset.temperature, preset.top_p, preset.max_tokens)
    sampling = override_sampling(
        base, overrides.sampling, overrides.temperature, overrides.top_p, overrides.max_tokens
    )
    together = 1 if sampling.temperature == 0 else preset.samples_per_request
    return SamplingSettings(
        **{**sampling.decoding, "stop": overrides.stop},
        seed=read_seed(_first(overrides.seed, "0")),
        samples_per_request=_first(overrides.samples_per_request, together),
    )


def read_template_kwargs(text: str) -> dict[str, Any]:
    """Return the arguments of a chat template, given as a JSON object.

    Raises:
        InputError: the text is none.
    """
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise InputError(f"--chat-template-kwargs {text!r} is no JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise InputError(
            f'--chat-template-kwargs {text!r}: give a JSON object, such as {{"enable_thinking": false}}.'
        )
    return arguments


def _read_template(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the prompt cannot be read: {error}.") from error
    if "{question}" not in text:
        raise InputError(
            f"{path}: a prompt needs the placeholder {{question}}, where the problem's text goes."
        )
    return text.removesuffix("\n")


def _first(value: Any, other: Any) -> Any:
    return other if value is None else value
