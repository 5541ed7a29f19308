"""The config of `tagrpo rephrase run`."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from evaluator.presets import PromptConfig, PublishedSampling
from service.config import Config, operational
from service.models.access import Access, Budget, Model
from service.models.settings import Sampling, Seeded

MIN_DISTANCE = 0.15
"""Candidates nearer than this are no neighbors by default; `docs/sets.md` has the pairs it was chosen on."""

_MIN_DISTANCE = "Minimum share of words that differ from the question and earlier candidates."


def usual_distance(proposers: Iterable[str]) -> float:
    """Return the least distance for candidates of these proposers: none where all are made by rules.

    Rules only exchange words; two of three of their candidates would be refused.
    """
    return 0.0 if set(proposers) == {"rules"} else MIN_DISTANCE


class LlmProposer(PublishedSampling, Sampling, Model):
    """A model rephrases the questions."""

    leading: ClassVar[str] = "kind"

    kind: Literal["llm"] = Field("llm", description="Source of candidates: a model, rules, or a file.")
    strategies: tuple[str, ...] = ()
    """Built-in strategies (perspectives, paraphrase, rename, format, programs) or text files; by default
    perspectives, or programs for programming questions."""
    reply: Literal["auto", "json", "tags"] = "auto"
    """Reply format. auto: JSON if the provider enforces a schema, otherwise tags."""
    content_attempts: int = Field(3, ge=1, le=20)
    """Maximum attempts per request if replies are unusable."""
    min_distance: float = Field(MIN_DISTANCE, ge=0, le=1, description=_MIN_DISTANCE)
    temperature: float = Field(1.0, ge=0, le=10, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling probability; 1 is off.")
    max_tokens: int = Field(4096, ge=1, le=10_000_000, description="Maximum tokens per reply.")


class RulesProposer(Config):
    """Rules of English wording rephrase the questions; no model is asked."""

    kind: Literal["rules"]
    min_distance: float = Field(0.0, ge=0, le=1, description=_MIN_DISTANCE)


class FileProposer(Config):
    """Candidates that you have."""

    kind: Literal["file"]
    candidates: str = operational(description="File or Hub dataset with candidates.")
    question_column: str | None = operational(None)
    """Column with the question's id or exact text."""
    candidate_column: str | None = operational(None)
    """Column with one candidate or a list of candidates."""
    strategy: str = Field("file", pattern=r"^[a-z][a-z0-9_-]{0,39}$")
    """Name for these candidates, such as harder, easier, choice or cloze. Publishing, exports and training
    can select neighbors by this name."""
    min_distance: float = Field(0.0, ge=0, le=1, description=_MIN_DISTANCE)


class SolverPrompt(PromptConfig):
    """How a text is put to a solver."""

    preset: Literal["default", "paper", "paper-eval", "plain"] | None = Field(  # type: ignore[assignment]
        None,
        description="Prompt preset as in `eval run`. By default the question, then an instruction to reason "
        "step by step and box the answer.",
    )


class Solver(PublishedSampling, Sampling, SolverPrompt, Model):
    """A model whose answers to the question and to a candidate are compared."""

    temperature: float = Field(0.7, ge=0, le=10, description="Sampling temperature.")
    samples_per_request: int = Field(4, ge=1, le=128, description="Answers per request.")


class PremiseCheck(Access):
    """A model that is asked whether each premise of the question is kept."""

    leading: ClassVar[str] = "model"

    model: str = Field(description="Name of the model as in litellm.")


class VerdictRule(Config):
    """When shared answers accept a candidate and new answers reject it."""

    accept: int | None = Field(None, ge=1)
    """Minimum shared answers to accept a candidate; by default 9 of 16."""
    reject: int | None = Field(None, ge=1)
    """Minimum count of one new answer to reject a candidate; by default 11 of 16."""
    question_samples: int = Field(32, ge=1, description="Answers per question, sampled once and reused.")
    looks: tuple[int, ...] = (12, 16)
    """Numbers of answers per candidate at which tagrpo may decide. If accept or reject is not set, it scales
    with the last number."""

    @field_validator("looks")
    @classmethod
    def _check_looks(cls, looks: tuple[int, ...]) -> tuple[int, ...]:
        if not looks or looks[0] < 1 or looks != tuple(sorted(set(looks))):
            raise ValueError("give one or more increasing positive numbers, such as [12, 16].")
        return looks


class RephraseConfig(Seeded, Budget):
    """Propose rephrasings of questions, check them, and compare answers if a solver is named."""

    verb: ClassVar[str] = "rephrase"
    questions: str = Field(description="Name of an imported question set.")
    name: str = Field(description="Name of the run; an existing run is resumed.")
    n: int = Field(3, ge=1, le=64, description="Number of neighbors per question.")
    rounds: int = Field(3, ge=1, le=20)
    """Maximum rounds; later rounds cover only questions that still lack neighbors."""
    limit: int | None = operational(None, ge=1)
    """Rephrase only the first N questions. A larger limit, or none, extends the same run."""
    token_limit: int = Field(512, ge=1, description="Maximum tokens per candidate, by an estimate.")
    stop_below: float | None = operational(None, ge=0, le=1)
    """Stop the run if its acceptance rate falls below this share."""
    proposer: LlmProposer | RulesProposer | FileProposer = Field(discriminator="kind")
    solver: tuple[Solver, ...] = ()
    """Models whose answers to question and candidates are compared."""
    premises: PremiseCheck | None = None
    verdict: VerdictRule = Field(default_factory=VerdictRule)
