"""The configs of `tagrpo eval run` and `tagrpo eval score`."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from evaluator.presets import PRESET_SAMPLES, PromptConfig, PublishedSampling
from service.config import operational
from service.models.access import Access, Budget, Model
from service.models.settings import Sampling, Seeded


class SamplingSettings(Seeded, Sampling):
    """How an evaluation draws responses; by default as in the public evaluation of arXiv 2601.22478.

    The seed of a sample follows from `seed`, the problem and the sample's ordinal, whatever is drawn with it.
    """

    samples_per_request: int = Field(8, ge=1, le=1024)
    """Responses per request; the last request may ask for fewer."""


class EvalConfig(Seeded, PromptConfig, PublishedSampling, Sampling, Model, Budget):
    """Sample n responses to every problem of one or more benchmarks, grade them, and report pass@k."""

    verb: ClassVar[str] = "eval"
    benchmarks: tuple[str, ...] = ()
    """Benchmarks from `tagrpo eval benchmarks`, or your own .jsonl or .toml files."""
    name: str | None = None
    """Name of the runs, stored as NAME.BENCHMARK; by default the model's name."""
    neighbors: str | None = None
    """Published neighbor set to evaluate instead of benchmarks: NAME or NAME@VERSION."""
    n: int = operational(32, ge=1, le=100_000)
    """Samples per problem; by default 128 with preset=paper or paper-eval. A larger n extends the run."""
    limit: int | None = operational(None, ge=1)
    """Evaluate only the first N problems. A larger limit, or none, extends the same run."""
    samples_per_request: int | None = Field(None, ge=1, le=1024)
    """Responses per request; by default 8, or 1 for greedy sampling or if the server lacks n."""
    answers: Literal["all", "boxed"] = "all"
    """Answers that count: any final answer (all), or only boxed ones."""
    grader: str | None = None
    """Your own grader as module:function, instead of the built-in rules."""
    sources: tuple[str, ...] = operational(())
    """Local files with the benchmarks' rows: one per benchmark in order, or NAME=FILE."""
    options_seed: int = Field(0, description="Seed that shuffles the options of multiple-choice questions.")
    allow_changed: bool = operational(False)
    """Accept a benchmark whose content differs from the version known to tagrpo."""
    allow_bad_golds: bool = operational(False)
    """Run even if some gold answers are not graded correct when compared with themselves."""

    @model_validator(mode="after")
    def _check(self) -> "EvalConfig":
        if "n" not in self.model_fields_set:
            vars(self)["n"] = PRESET_SAMPLES.get(self.preset, self.n)
        if bool(self.benchmarks) == (self.neighbors is not None):
            raise ValueError("give either benchmarks, or a published neighbor set with neighbors=NAME.")
        if self.neighbors is not None and self.sources:
            raise ValueError("sources apply only to benchmarks, not to a neighbor set. Remove them.")
        if self.grader is not None and self.answers == "boxed":
            raise ValueError("a custom grader extracts answers itself. Remove answers=boxed.")
        return self

    def drawing(self, *, at_once: int) -> SamplingSettings:
        """Return how responses are drawn; `at_once` is the usual number per request.

        At temperature 0 each response is asked for alone: servers refuse more.
        """
        together = 1 if self.temperature == 0 else at_once
        return SamplingSettings(
            **self.decoding, seed=self.seed, samples_per_request=self.samples_per_request or together
        )


class ScoreConfig(Access, Budget):
    """Grade the stored samples of an evaluation: by rules, by your own grader, or by a judge model."""

    verb: ClassVar[str] = "score"
    run: str = Field(description="Name or id of an eval run.")
    model: str | None = None
    """Judge model, with its litellm name (gpt-4o, hosted_vllm/NAME). Default: no judge."""
    asked: Literal["unknown", "wrong", "all"] = "unknown"
    """Grades that the judge checks: only unknown; unknown and wrong; or all."""
    max_tokens: int = Field(2048, ge=1)
    """Maximum tokens per reply of the judge; truncated replies are ignored."""
    temperature: float = Field(0.0, ge=0, le=2)
    """Temperature of the judge; use 1 for models that accept only 1."""
    answers: Literal["all", "boxed"] | None = None
    """Answers that count: all, or only boxed ones; by default as in the run."""
    grader: str | None = None
    """Your own grader as module:function, instead of the built-in rules."""
    workers: int | None = operational(None, ge=1)
    """Grading processes; by default one per CPU, at most 8."""

    @model_validator(mode="after")
    def _check(self) -> "ScoreConfig":
        if self.grader is not None and self.answers == "boxed":
            raise ValueError("a custom grader extracts answers itself. Remove answers=boxed.")
        if self.model is None and self.asked != "unknown":
            raise ValueError(f"asked={self.asked} needs a judge. Add --judge MODEL.")
        if self.retry_final:
            raise ValueError("retry_final does not apply to a judge. Remove retry_final.")
        return self
