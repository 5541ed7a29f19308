"""Options of `tagrpo eval run`: what shapes the responses (in the run's key), and how they are drawn."""

from pathlib import Path
from typing import Annotated, Literal

import typer

AnswersName = Literal["all", "boxed"]
SamplerName = Literal["auto", "remote", "vllm", "local"]

Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="litellm's spelling (gpt-4-turbo, hosted_vllm/Qwen/Qwen3-4B); for vllm and local a Hub name or "
        "folder.",
    ),
]
SamplerOption = Annotated[
    SamplerName,
    typer.Option(
        "--sampler",
        help="remote: an API or a server; vllm: offline engine; local: transformers. auto: local where "
        "--model is a folder, else remote.",
    ),
]
Preset = Annotated[
    str,
    typer.Option("--preset", help="default, paper, paper-eval or plain: prompt, settings and n together."),
]
System = Annotated[str | None, typer.Option("--system", help="System prompt.")]
PromptFile = Annotated[
    Path | None, typer.Option("--prompt-file", help="Text with {question}, in place of the preset's.")
]
TemplateKwargs = Annotated[
    str | None,
    typer.Option(
        "--chat-template-kwargs", help="JSON for the model's chat template: '{\"enable_thinking\": false}'."
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="Continue raw text, without the model's chat template.")]
Temperature = Annotated[float | None, typer.Option("--temperature", help="Default: the preset's, 0.6.")]
TopP = Annotated[float | None, typer.Option("--top-p", help="Default: the preset's, 0.95.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Most tokens of a response; the preset's: 3,072.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the run; default 0.")]
SamplesPerRequest = Annotated[
    int | None,
    typer.Option(
        "--samples-per-request",
        help="Responses drawn at once; default 8, or 1 where the model does not know n or is greedy.",
    ),
]
AnswersOption = Annotated[
    AnswersName,
    typer.Option("--answers", help="Which answers count: all that are found, or those in a box alone."),
]
AnswersChoice = Annotated[
    AnswersName | None,
    typer.Option(
        "--answers",
        help="Which answers count: all that are found, or those in a box alone. By default as the run was "
        "made.",
        show_default=False,
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--from", help="File with the rows, in place of the Hub; NAME=FILE for several benchmarks."),
]
Device = Annotated[str | None, typer.Option("--device", help="local: cpu, cuda, cuda:1, ...")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="local, vllm: float32, bfloat16, ...")]
TensorParallel = Annotated[
    int | None, typer.Option("--tensor-parallel", min=1, help="vllm: GPUs that share the model.")
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", min=1, help="local: most responses drawn side by side.")
]
BatchTokens = Annotated[
    int | None,
    typer.Option("--batch-tokens", min=1, help="local: most tokens side by side; else what fits in memory."),
]
MaxModelLen = Annotated[
    int | None, typer.Option("--max-model-len", min=2, help="vllm: tokens of prompt and response together.")
]
GpuMemory = Annotated[
    float | None,
    typer.Option("--gpu-memory-utilization", help="vllm: share of a GPU's memory to take; default 0.9."),
]
Revision = Annotated[str | None, typer.Option("--revision", help="local, vllm: revision of the weights.")]
EvalApiBase = Annotated[
    str | None, typer.Option("--api-base", help="Address of the server (vLLM: http://HOST:8000/v1).")
]
EvalMaxUsd = Annotated[
    float | None,
    typer.Option(
        "--max-usd",
        min=0,
        help="Hard cap on what the runs of this command may cost together; counts requests in flight.",
    ),
]
EvalTimeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds one attempt of a request may take.")
]
