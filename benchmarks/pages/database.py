"""Makes a large database for measuring pages: questions, neighbors, sets, rollouts, evaluation samples.

Sizes at scale 1: 10,000 questions, 30,000 neighbors with verdicts and evidence, 3 versions of a set, 2
reviewers, 4 trainings with 1,000,000 rollouts, 8 eval runs with 200,000 samples. All follows from a seed.
Texts are prose about arithmetic with formulas; rollouts go into folders next to the database.
"""

import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_runs import add_eval_run
from rollout_shards import add_training, make_record
from runs import Proposed, add_ask, add_run, completion, make_spec

from evaluator.evals.problems import make_problem
from rephraser.questions.store import Member, members_hash, store_set
from rephraser.reviews.audit import open_audit
from rephraser.reviews.store import Decision, record_reviews
from rephraser.run.spec import PROPOSE
from rephraser.sets.publish import publish
from service.database import Database
from service.questions.question import Question, make_question
from service.runs.store import Run, open_run
from trainer_adapter.record import RolloutRecord, RolloutWriter

WORDS = re.findall(
    "[a-z]+",
    """the sum product remainder area triangle number ways second term side value total cost ratio slope line
    digit coefficient result equation largest factor angle circle square root integer divisor prime multiple
    sequence polynomial therefore we obtain simplify substitute multiply divide subtract add both consider let
    denote that this equals so hence now recall from which follows note case first each between distance speed
    hours minutes workers students meters tank fraction percent average median set subset order edge diagonal
    chord tangent height base volume cylinder plane axis origin focus function domain limit bound since""",
)
SUBJECTS = ("Algebra", "Counting & Probability", "Geometry", "Number Theory", "Prealgebra")
STRATEGIES = ("perspectives", "format", "rename")
MODELS = ("openai/gpt-4-turbo", "hosted_vllm/Qwen/Qwen2.5-32B-Instruct")
FINDINGS = ("number_missing", "number_added")
TRAININGS = ("grpo", "ta_grpo", "ta_grpo_star", "w_reinforce")
BENCHMARKS = (("aime", 60), ("math500", 332))
SAMPLES = 128
STEPS, QUESTIONS_A_STEP, SESSIONS, VARIANTS = 61, 128, 8, 4
STEP = QUESTIONS_A_STEP * SESSIONS * VARIANTS
"""Responses of a step."""
METRICS_BY_PART = (
    "reward", "correct", "entropy", "anchor/log_ratio", "anchor/ess", "anchor/ess_token", "kl/k1", "kl/k3",
)  # fmt: skip


@dataclass
class Texts:
    """Generated prose about arithmetic with formulas."""

    chance: random.Random

    def prose(self, shortest: int, longest: int) -> str:
        """Return sentences of about so many characters."""
        wanted = self.chance.randint(shortest, longest)
        parts: list[str] = []
        length = 0
        while length < wanted:
            words = self.chance.choices(WORDS, k=self.chance.randint(6, 14))
            a, b = self.chance.randint(2, 999), self.chance.randint(2, 99)
            words.insert(
                len(words) // 2, self.chance.choice((f"${a}x + {b} = 0$", f"$\\frac{{{a}}}{{{b}}}$", str(a)))
            )
            parts.append(" ".join(words).capitalize() + ".")
            length += len(parts[-1]) + 1
        return " ".join(parts)

    def responses(self, shortest: int, longest: int) -> list[str]:
        """Return responses to draw from; their lengths are spread as those of models, few are long."""
        lengths = [
            min(longest, int(shortest * math.exp(abs(self.chance.gauss(0, 0.8))))) for _ in range(5000)
        ]
        return [f"{self.prose(each, each + 100)} So it is \\boxed{{{each % 100}}}." for each in lengths]


def make_database(path: Path, *, scale: float = 1.0, seed: int = 0) -> None:
    """Write the database into a new file."""
    texts = Texts(random.Random(seed))
    with Database.open(path) as db:
        questions = make_questions(db, texts, round(10_000 * scale))
        run = make_candidates(db, texts, questions)
        make_sets_and_reviews(db, run, questions)
        make_evaluation(db, texts, scale)
        make_rollouts(db, texts, questions, scale, path.parent / f"{path.stem}-rollouts")


def make_questions(db: Database, texts: Texts, count: int) -> list[Question]:
    """Store two sets of questions, of three quarters and of one quarter."""
    chance = texts.chance
    questions = [
        make_question(
            f"{texts.prose(80, 420)} What is {number} + 1?",
            str(number + 1),
            f"Level {1 + chance.randrange(5)}",
            chance.choice(SUBJECTS),
        )
        for number in range(count)
    ]
    split = count * 3 // 4
    with db.write() as session:
        for name, part in (("math", questions[:split]), ("extra", questions[split:])):
            members = [Member(place, question) for place, question in enumerate(part)]
            content = members_hash((member.position, member.question.id) for member in members)
            store_set(session, name, members, {"kind": "import", "content_hash": content})
    return questions


def make_candidates(db: Database, texts: Texts, questions: Sequence[Question]) -> Run:
    """Store a run with three candidates a question, their requests, and verdicts with evidence."""
    spec, ids = make_spec(questions="math", model=MODELS[0]), [question.id for question in questions]
    with db.write() as session:
        run, _ = open_run(
            session, name="math-neighbors", kind="propose", spec=spec.to_json(), question_ids=ids, versions={}
        )
    asked = []
    with db.write() as session:
        for question in questions:
            proposed = [f"{texts.prose(80, 420)} Find {question.answer} - 1 + 1." for _ in STRATEGIES]
            reply = completion(json.dumps({"rephrasings": proposed}))
            of: dict[str, Any] = {"kind": PROPOSE, "about": question.id, "model": MODELS[0]}
            ask = add_ask(session, run.id, reply, tokens=(700, 400), usd=0.019, **of)
            pairs = zip(proposed, STRATEGIES, strict=True)
            candidates = [_propose(text, strategy, ask, texts.chance) for text, strategy in pairs]
            asked.append((question.text, question.answer, candidates))
    return add_run(db, run.name, asked, spec=spec)


def _propose(text: str, strategy: str, ask: int, chance: random.Random) -> Proposed:
    status = chance.choices(("accepted", "undecided", "rejected"), (0.75, 0.15, 0.1))[0]
    return Proposed(
        text,
        ("unverified", status),
        strategy,
        MODELS[chance.random() < 0.3],
        right=(
            20,
            {"accepted": chance.randint(6, 12), "undecided": chance.randint(1, 3), "rejected": 0}[status],
        ),
        findings=tuple(name for name in FINDINGS if chance.random() < 0.1),
        ask_id=ask,
    )


def make_sets_and_reviews(db: Database, run: Run, questions: Sequence[Question]) -> None:
    """Publish three versions, draw an audit, and let two reviewers decide on it."""
    chance = random.Random(1)
    publish(db, "math-ta", run=run.name, n=2)
    publish(db, "math-ta", run=run.name, n=3)
    audit, _ = open_audit(db, run, size=min(400, len(questions)), seed=1)
    with db.write() as session:
        for reviewer in ("ada", "ben"):
            decisions = []
            for member in audit.members:
                accepts = (member.status == "accepted") == (chance.random() < 0.9)
                made: tuple[Any, str] = ("accepted", "") if accepts else ("rejected", "another problem")
                decisions.append(Decision(member.candidate_id, *made, reviewer, audit.id))
            record_reviews(session, decisions)
    publish(db, "math-ta", run=run.name, n=3)


def make_evaluation(db: Database, texts: Texts, scale: float) -> None:
    """Store eight eval runs: four models on two benchmarks, 128 samples a problem, graded."""
    chance, pool = texts.chance, texts.responses(500, 6000)
    for name, size in BENCHMARKS:
        problems = [
            make_problem(f"{texts.prose(60, 300)} ({name} {place})", str(place))
            for place in range(max(4, round(size * scale)))
        ]
        for strength, model in enumerate(TRAININGS):
            rates = [min(0.97, max(0.0, chance.gauss(0.3 + 0.05 * strength, 0.35))) for _ in problems]
            add_eval_run(
                db,
                f"{model}.{name}",
                [(SAMPLES, round(rate * SAMPLES), chance.random() < 0.5) for rate in rates],
                benchmark=name,
                problems=problems,
                texts=lambda *_: chance.choice(pool),
                truncated=6,
                tokens=lambda *_: chance.randint(200, 2500),
                model=f"/models/runs/{model}/checkpoints/global_step_60/actor/huggingface",
            )


def make_rollouts(
    db: Database, texts: Texts, questions: Sequence[Question], scale: float, folder: Path
) -> None:
    """Record four trainings: 61 steps of 128 questions, 8 responses to each of their four prompts."""
    chance, pool = texts.chance, texts.responses(350, 4000)
    trained = list(questions[: max(QUESTIONS_A_STEP, round(2000 * scale))])
    rates = {question.id: min(0.99, max(0.0, chance.gauss(0.45, 0.35))) for question in trained}
    for name in TRAININGS:
        write_training(folder / name, trained, rates, pool, max(2, round(STEPS * scale)), chance)
        add_training(db, folder / name)


def write_training(
    folder: Path,
    questions: Sequence[Question],
    rates: Mapping[str, float],
    pool: Sequence[str],
    steps: int,
    chance: random.Random,
) -> None:
    """Record a training, named like its folder; responses are drawn from a pool of texts."""
    order = list(questions)
    with RolloutWriter(folder, folder.name, spec={"recipe": folder.name, "model": "base"}) as writer:
        for step in range(1, steps + 1):
            first = (step - 1) * QUESTIONS_A_STEP % len(order)
            if first < QUESTIONS_A_STEP:
                chance.shuffle(order)
            batch = order[first : first + QUESTIONS_A_STEP]
            writer.write(step, list(_make_step(step, batch, rates, pool, chance)))
            writer.write_metrics(step, _metrics(step, chance))


def _make_step(
    step: int,
    batch: Sequence[Question],
    rates: Mapping[str, float],
    pool: Sequence[str],
    chance: random.Random,
) -> Iterator[RolloutRecord]:
    draw = chance.random
    for group, question in enumerate(batch):
        rate = min(0.99, rates[question.id] * (1 + step / 200))
        for session in range(VARIANTS * SESSIONS):
            variant = session // SESSIONS
            correct = None if draw() < 0.002 else draw() < rate
            reward = float(correct is True)
            yield make_record(
                step,
                group,
                session,
                question_id=question.id,
                neighbor_id=None if variant == 0 else f"c_{question.id[2:22]}{variant:04d}",
                strategy=None if variant == 0 else STRATEGIES[variant - 1],
                variant=variant,
                prompt=f"{question.text} ({variant})",
                response=pool[int(draw() * len(pool))],
                tokens=int(200 + 1500 * draw()),
                truncated=draw() < 0.04,
                reward=reward,
                correct=correct,
                reason="timeout" if correct is None else "exact" if correct else "different",
                advantage=reward - rate,
                old_log_prob=-80 - 10 * draw(),
                sampling_log_prob=-79 - 10 * draw(),
            )


def _metrics(step: int, chance: random.Random) -> dict[str, float]:
    """Return a step's metrics: those of docs/reference/metrics.md with four prompts, and the engine's own."""
    parts = ("mean", "original", "neighbors", "variant_1", "variant_2", "variant_3")
    groups, shares = ("original", "neighbors", "joint"), ("all_right", "all_wrong", "share")
    names = [f"tagrpo/{name}/{part}" for name in METRICS_BY_PART for part in parts]
    names += [f"tagrpo/zero/{group}/{share}" for group in groups for share in shares]
    for sign in ("positive", "negative"):
        names += [f"tagrpo/covariance/{sign}/top_{top}" for top in ("0.01", "1", "20", "40", "100")]
    names += [f"engine/{number}" for number in range(60)] + ["actor/grad_norm"]
    return {name: round(chance.random() * math.exp(-step / 100), 6) for name in names}
