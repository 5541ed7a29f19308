"""Options of `propose` and `resume` alike: how a run is carried out, which never shapes its result.

And those of solvers, which do, and so stand in the run.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

ApiBase = Annotated[
    str | None,
    typer.Option("--api-base", help="Address of the proposer's server (vLLM: http://HOST:8000/v1)."),
]
SolverApiBase = Annotated[
    list[str] | None,
    typer.Option(
        "--solver-api-base",
        help="Address of a solver's server, once for all or once for each remote --solver.",
    ),
]
MaxUsd = Annotated[
    float | None,
    typer.Option(
        "--max-usd", min=0, help="Hard cap on what the whole run may cost; counts requests in flight."
    ),
]
MaxRequests = Annotated[
    int | None, typer.Option("--max-requests", min=1, help="Most HTTP requests of this invocation.")
]
Price = Annotated[
    list[str] | None,
    typer.Option("--price", help="MODEL=IN,OUT in USD per million tokens, for models litellm cannot price."),
]
Prices = Annotated[Path | None, typer.Option("--prices", help="TOML or JSON file of prices, same units.")]
Concurrency = Annotated[
    int, typer.Option("--max-concurrency", min=1, max=4096, help="Most requests in flight at one model.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds one attempt may take.")]
Candidates = Annotated[
    str | None,
    typer.Option("--candidates", help="File or Hub data set of candidates, for --proposer file."),
]
QuestionColumn = Annotated[
    str | None, typer.Option("--question-column", help="Its column with the question's id or exact text.")
]
CandidateColumn = Annotated[
    str | None, typer.Option("--candidate-column", help="Its column with the candidate, or a list of them.")
]
Batch = Annotated[
    bool,
    typer.Option(
        "--batch", help="Batch jobs at half the price, hours instead of minutes; not for hosted_vllm/."
    ),
]
BatchPoll = Annotated[
    float, typer.Option("--batch-poll", min=0.01, help="Seconds between two looks at a batch job.")
]
SolverSamplerName = Literal["auto", "remote", "local"]
Solver = Annotated[
    list[str] | None,
    typer.Option(
        "--solver",
        help="Model whose answers are compared, or the folder of a checkpoint; may be repeated. None: "
        "unverified.",
    ),
]
SolverSampler = Annotated[
    SolverSamplerName,
    typer.Option(
        "--solver-sampler",
        help="remote: an API or a server; local: transformers. auto: local where --solver is a folder, else "
        "remote.",
    ),
]
SolverPreset = Annotated[
    str | None,
    typer.Option(
        "--solver-preset",
        help="Prompt of the solvers as in `eval run`: default, paper, paper-eval, plain (the bare question). "
        "Else the question, and below it: reason step by step, answer in a box.",
    ),
]
SolverPromptFile = Annotated[
    Path | None,
    typer.Option("--solver-prompt-file", help="Text with {question}, in place of the solvers' prompt."),
]
SolverDevice = Annotated[
    str | None, typer.Option("--solver-device", help="Local solvers: cpu, cuda, cuda:1, ...")
]
SolverDtype = Annotated[
    str | None, typer.Option("--solver-dtype", help="Local solvers: float32, bfloat16, ...")
]
PremisesApiBase = Annotated[
    str | None,
    typer.Option("--premises-api-base", help="Address of the server of --premises."),
]
SolverBatchSize = Annotated[
    int | None,
    typer.Option("--solver-batch-size", min=1, help="Local solvers: most answers drawn side by side."),
]
