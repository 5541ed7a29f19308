"""What a run will ask and cost, before anything is sent: from its questions, or from a trial that is done."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.proposing.request import build_messages
from rephraser.run.ask import read_texts
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, RunSpec
from service.models.remote import Price
from service.runs.spending import read_ledger
from service.runs.store import list_runs, run_question_ids
from service.runs.tables import RunMinuteRow

CHARACTERS_PER_TOKEN = (4.0, 3.0)  # of English with formulas; more tokens where a text has more of these
REWRITE_LENGTH = (0.8, 1.6)  # of a rewrite, in lengths of its question
SHORT_ANSWER = 200  # tokens; nothing but max_tokens is known of the longest
INSTRUCTIONS = 800  # tokens of the instructions about premises

Range = tuple[float, float]


@dataclass(frozen=True)
class Stage:
    """One kind of request to one model: the least and the most of each that is expected."""

    kind: str
    model: str
    requests: Range
    prompt_tokens: Range
    completion_tokens: Range
    usd: Range | None  # None: the price is not known


@dataclass(frozen=True)
class Estimate:
    """What a run over `questions` is expected to take. `trial` names the run that it is scaled from, if any.

    `hours` are known from a trial only, at its pace.
    """

    questions: int
    stages: tuple[Stage, ...]
    trial: str | None = None
    trial_questions: int | None = None
    hours: Range | None = None

    @property
    def usd(self) -> Range | None:
        """The money of all stages; None where a price is not known."""
        known = [stage.usd for stage in self.stages if stage.usd is not None]
        if len(known) < len(self.stages):
            return None
        return sum(usd[0] for usd in known), sum(usd[1] for usd in known)

    def to_json(self) -> dict[str, Any]:
        """Return the same for `--json`."""
        return {**asdict(self), "usd": self.usd}


PriceOf = Callable[[str], Price | None]
"""Returns the price of a model in force (half in batch jobs), None where it is not known."""


def estimate_run(session: Session, spec: RunSpec, question_ids: Sequence[str], price_of: PriceOf) -> Estimate:
    """Estimate a run: from the largest finished run with the same settings, else from its questions alone.

    From a trial of k questions everything is scaled, give or take 2/sqrt(k): what questions cost varies about
    as much as it is. From the questions alone the least is one round, the most all rounds for all of them.
    """
    trials = [
        (len(run_question_ids(session, run.id)), run.name, run.id)
        for run in list_runs(session)
        if run.finished_at and run.spec == spec.to_json()
    ]
    if not trials:
        return Estimate(len(question_ids), _from_questions(session, spec, question_ids, price_of))
    count, name, run_id = max(trials)
    scale, error = len(question_ids) / count, min(0.9, 2 / math.sqrt(count))
    scales = (scale * (1 - error), scale * (1 + error))
    stages = tuple(
        Stage(
            line.kind,
            line.model,
            _times(line.requests, scales),
            _times(line.prompt_tokens, scales),
            _times(line.completion_tokens, scales),
            None if line.unpriced else _times(line.usd, scales),
        )
        for line in read_ledger(session, run_id)
    )
    minutes = session.scalar(select(func.count()).where(RunMinuteRow.run_id == run_id)) or 0
    return Estimate(len(question_ids), stages, name, count, _times(minutes / 60, scales))


def _from_questions(
    session: Session, spec: RunSpec, question_ids: Sequence[str], price_of: PriceOf
) -> tuple[Stage, ...]:
    texts = list(read_texts(session, question_ids).values())
    count = len(texts)
    asked = _tokens(sum(map(len, texts)))
    rounds = (1, spec.rounds)
    stages = []
    if spec.proposer == "llm":
        wanted = [
            (strategy, slots) for strategy, slots in zip(spec.strategies, spec.slots(), strict=True) if slots
        ]
        sent = sum(
            len(message["content"])
            for text in texts
            for strategy, slots in wanted
            for message in build_messages(strategy, text, slots, structured=spec.output == "json")
        )
        rewritten = _product(_product(asked, REWRITE_LENGTH), (spec.n, spec.n * spec.rounds))
        requests = _times(count * len(wanted), rounds)
        prompts = _product(_tokens(sent), rounds)
        stages.append(_stage(PROPOSE, spec.model, requests, prompts, rewritten, price_of))
    look = (spec.rule.looks[0] * spec.n, spec.rule.looks[-1] * spec.n * spec.rounds)
    for place, solver in enumerate(spec.solvers):
        shares = [spec.shares(spec.rule.original_samples + drawn)[place] for drawn in look]
        if solver.engine is not None:
            continue  # on this machine, for nothing
        each = solver.samples_per_request
        samples = (count * shares[0], count * shares[1])
        requests = (math.ceil(samples[0] / each), math.ceil(samples[1] / each))
        prompts = _product(asked, (requests[0] / count, requests[1] / count))
        drawn_tokens = _product(
            samples, (min(SHORT_ANSWER, solver.sampling.max_tokens), solver.sampling.max_tokens)
        )
        stages.append(_stage(ANSWER, solver.model, requests, prompts, drawn_tokens, price_of))
    if spec.premises is not None:
        requests = _times(count * spec.n, rounds)
        prompts = _product(_product(asked, (2, 2)), (spec.n, spec.n * spec.rounds))
        prompts = (prompts[0] + requests[0] * INSTRUCTIONS, prompts[1] + requests[1] * INSTRUCTIONS)
        kept = _product(requests, (SHORT_ANSWER, spec.premises.sampling.max_tokens))
        stages.append(_stage(PREMISES, spec.premises.model, requests, prompts, kept, price_of))
    return tuple(stages)


def _stage(
    kind: str, model: str, requests: Range, prompts: Range, completions: Range, price_of: PriceOf
) -> Stage:
    price = price_of(model)
    usd = None
    if price is not None:
        usd = tuple(price.cost(round(p), round(c)) for p, c in zip(prompts, completions, strict=True))
    return Stage(kind, model, requests, prompts, completions, None if usd is None else (usd[0], usd[1]))


def _tokens(characters: int) -> Range:
    return characters / CHARACTERS_PER_TOKEN[0], characters / CHARACTERS_PER_TOKEN[1]


def _times(value: float, scales: Range) -> Range:
    return value * scales[0], value * scales[1]


def _product(first: Range, second: Range) -> Range:
    return first[0] * second[0], first[1] * second[1]
