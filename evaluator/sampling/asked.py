"""What samplers need to know of the work they draw: of a problem, and of the specification."""

from typing import Protocol

from evaluator.evals.spec import PromptSpec, SamplingSettings


class AskedProblem(Protocol):
    """A text put to a model. `id` is what prompts are looked up by, `problem_id` its content id.

    Problems of eval runs are such (`RunProblem`), and so are the questions and candidates that a solver
    answers.
    """

    @property
    def id(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def problem_id(self) -> str: ...

    @property
    def text(self) -> str: ...


class DrawingSpec(Protocol):
    """Model, prompt and sampling: what an `EvalSpec` and a solver's specification have in common."""

    @property
    def model(self) -> str: ...

    @property
    def prompt(self) -> PromptSpec: ...

    @property
    def sampling(self) -> SamplingSettings: ...
