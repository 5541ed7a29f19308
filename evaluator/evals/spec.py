"""The specification of an eval run: everything that shapes its samples and its score, and so its key."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluator.grading.types import Answers
from service.errors import InputError
from service.models.settings import PromptSpec, SamplingSettings

EVAL = "eval"
"""The kind of these runs in the table of runs."""

MAX_SAMPLES = 100_000


@dataclass(frozen=True)
class EvalSpec:
    """An eval run: problems, model, engine, prompt and sampling. The number of samples is not part of it.

    `problems` names the benchmark or neighbor set, `problems_hash` is the hash of its content, `source` where
    it was loaded from (a Hub revision, a file's hash, the seed of shuffled options). `engine` names sampler,
    versions and the chat template's hash: what the sampler's `describe` returns. `answers` says which answers
    count; grades that take others may stand beside those.
    """

    problems: str
    problems_hash: str
    source: Mapping[str, Any]
    model: str
    engine: Mapping[str, Any]
    prompt: PromptSpec
    sampling: SamplingSettings
    answers: Answers = "all"

    def __post_init__(self) -> None:
        if self.answers not in ("all", "boxed"):
            raise InputError(f"answers is {self.answers!r}; give all or boxed.")

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored, hashed and shown."""
        return {
            "problems": self.problems,
            "problems_hash": self.problems_hash,
            "source": dict(self.source),
            "model": self.model,
            "engine": dict(self.engine),
            "prompt": {**asdict(self.prompt), "chat_template_kwargs": dict(self.prompt.chat_template_kwargs)},
            "sampling": asdict(self.sampling),
            # Left out where it is the default, as in runs that were made before there was a choice.
            **({} if self.answers == "all" else {"answers": self.answers}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EvalSpec":
        """Return the spec of a stored run."""
        return cls(
            problems=data["problems"],
            problems_hash=data["problems_hash"],
            source=data["source"],
            model=data["model"],
            engine=data["engine"],
            prompt=PromptSpec(**data["prompt"]),
            sampling=SamplingSettings(**data["sampling"]),
            answers=data.get("answers", "all"),
        )
