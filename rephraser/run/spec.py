"""The specification of a run. Every field shapes the result and is part of the run's key."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter

from rephraser.checks.premises import PREMISES_VERSION
from rephraser.checks.structure import CHECKS_VERSION
from rephraser.proposing.strategies import Strategy
from rephraser.verdict import OverlapRule, rule_spec
from service.errors import InputError
from service.hashing import content_id
from service.models.settings import PromptSpec, Sampling

KIND = "propose"
"""The kind of these runs in the table of runs."""

REQUEST_VERSION = "2"
"""Stored with a run. Raise it if the requests change: a run that began with others is not resumed."""

PROPOSE, ANSWER, PREMISES = "propose", "answer", "premises"
"""The kinds of asks."""

ROUND_STRIDE, ATTEMPT_STRIDE, STRATEGY_STRIDE = 1_000_000, 10_000, 100

SOLVING = Sampling(temperature=0.7, top_p=0.95, max_tokens=3072)
ASKING_PREMISES = Sampling(temperature=0.3, top_p=1.0, max_tokens=4096)
"""How models are drawn from where the user says nothing else."""

PROGRAM_INSTRUCTION = (
    "Reason step by step, and put the whole program, with the imports it needs, within one block of code: "
    "```python ... ```."
)
BOXED_INSTRUCTION = "Reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True)
class SolverSpec:
    """A model that answers questions and candidates; all runs with the same spec share its answers.

    `prompt` says how a text is put to the model; None: the text, then `instruction`. `engine` is what a model
    on this machine says of itself (weights, versions, device); None for one over the network.
    """

    model: str
    sampling: Sampling = SOLVING
    samples_per_request: int = 4
    instruction: str = BOXED_INSTRUCTION
    seed: int | None = 0
    prompt: PromptSpec | None = None
    engine: Mapping[str, Any] | None = None

    @cached_property
    def id(self) -> str:
        """Content id; the address of the server is not in it, so that a server may move."""
        return content_id("solver", self.to_json())

    @property
    def model_identity(self) -> str:
        """The solver as `Request.model` has it."""
        return self.model if self.engine is None else str(self.engine["identity"])

    @property
    def prompt_spec(self) -> PromptSpec:
        """How a text is put to the solver."""
        return self.prompt or PromptSpec(template=f"{{question}}\n\n{self.instruction}")

    def to_json(self) -> dict[str, Any]:
        """Return the form that is hashed and stored. What is not set is left out: earlier ids stay valid."""
        described = {name: getattr(self, name) for name in ("model", "samples_per_request", "seed")}
        described["sampling"] = self.sampling.without_neutral()
        if self.prompt is None:
            described["instruction"] = self.instruction
        else:
            described["prompt"] = self.prompt.model_dump(mode="json")
        return described if self.engine is None else {**described, "engine": dict(self.engine)}


@dataclass(frozen=True)
class PremiseSpec:
    """A model that is asked whether each premise of a question is kept; runs with the same spec share it."""

    model: str
    sampling: Sampling = ASKING_PREMISES
    seed: int | None = 0

    @cached_property
    def id(self) -> str:
        """Content id; the address of the server is not in it."""
        return content_id("premises", self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the form that is hashed and stored."""
        return {
            "model": self.model,
            "sampling": self.sampling.without_neutral(),
            "seed": self.seed,
            "request_version": PREMISES_VERSION,
        }


@dataclass(frozen=True)
class RunSpec:
    """A run of proposing and judging candidates. `engine` is the proposer's, as a solver's."""

    questions: str
    proposer: Literal["llm", "rules", "file"]
    model: str
    strategies: tuple[Strategy, ...]
    n: int = 3
    rounds: int = 3
    content_attempts: int = 3  # how often an unusable answer is asked again with another seed
    seed: int | None = 0  # None: no request is sent one
    sampling: Sampling | None = None
    output: Literal["json", "tags"] = "tags"
    solvers: tuple[SolverSpec, ...] = ()
    rule: OverlapRule = field(default_factory=OverlapRule)
    premises: PremiseSpec | None = None
    token_limit: int = 512
    source: str | None = None  # content hash of the candidates' file
    min_distance: float = 0.0  # of wordings, to the question and to its earlier candidates
    request_version: str = REQUEST_VERSION
    engine: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.seed is None and self.proposer == "rules":
            raise InputError("rules need a random seed; seed=none is for models only.")
        if len({strategy.name for strategy in self.strategies}) != len(self.strategies):
            raise InputError("a strategy appears twice. Give each strategy once.")
        if len(self.strategies) > self.n:
            raise InputError(
                f"{len(self.strategies)} strategies for {self.n} candidates per question. Raise n or give "
                "fewer strategies."
            )
        if len({solver.id for solver in self.solvers}) != len(self.solvers):
            raise InputError("a solver appears twice. Give each solver once.")
        if self.premises is not None and not self.solvers:
            raise InputError("the premise check works only together with a solver. Add one.")

    @property
    def model_identity(self) -> str:
        """The proposer as `Request.model` has it."""
        return self.model if self.engine is None else str(self.engine["identity"])

    def slots(self) -> tuple[int, ...]:
        """Return the number of neighbors wanted from each strategy; n in all."""
        return _deal(self.n, len(self.strategies))

    @property
    def counting(self) -> frozenset[str]:
        """The statuses of candidates that are neighbors: without a solver, unverified ones too."""
        return frozenset({"accepted"} if self.solvers else {"accepted", "unverified"})

    def shares(self, samples: int) -> tuple[int, ...]:
        """Return how many of `samples` answers each solver draws."""
        return _deal(samples, len(self.solvers))

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored, hashed and shown."""
        same = ("questions", "proposer", "model", "n", "rounds", "content_attempts", "seed", "output")
        limits = {"token_limit": self.token_limit, "min_distance": self.min_distance}
        return {
            **{name: getattr(self, name) for name in (*same, "request_version", "source")},
            "strategies": [{**asdict(strategy), "hash": strategy.hash} for strategy in self.strategies],
            "sampling": self.sampling.without_neutral() if self.sampling else None,
            "solvers": [{"id": solver.id, **solver.to_json()} for solver in self.solvers],
            "rule": rule_spec(self.rule),
            **({} if self.premises is None else {"premises": self.premises.to_json()}),
            "checks": {"version": CHECKS_VERSION, **limits},
            **({} if self.engine is None else {"engine": dict(self.engine)}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RunSpec":
        """Return the spec of a stored run."""
        return TypeAdapter(cls).validate_python(data | data["checks"])


def _deal(number: int, among: int) -> tuple[int, ...]:
    """Return shares of a number that are as even as can be."""
    return tuple(len(range(place, number, among)) for place in range(among))


def proposal_ordinal(round_number: int, strategy: int, attempt: int, index: int) -> int:
    """Return a candidate's place among its question's: by round, attempt, strategy, then as written."""
    return round_number * ROUND_STRIDE + attempt * ATTEMPT_STRIDE + strategy * STRATEGY_STRIDE + index
