"""Responses of a large database for measuring pages: evaluation samples with grades, rollouts by step."""

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import zstandard
from sqlalchemy import update

from benchmarks.pages.made_candidates import STRATEGIES
from benchmarks.pages.made_texts import Texts
from evaluator.evals.counts import Block, block_item
from evaluator.evals.problems import (
    PlacedProblem,
    make_problem,
    placed_hash,
    run_problems,
    store_run_problems,
)
from evaluator.evals.runs import EVAL, EvalSpec
from evaluator.grading import GRADER_VERSION
from evaluator.grading.versions import grader_id
from service.asks.store import add_tasks
from service.asks.tables import DONE, TaskRow
from service.database import Database
from service.models.settings import PromptSpec, SamplingSettings
from service.questions import Question
from service.runs.store import finish_run, open_run
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.record.reading import Record
from trainer_adapter.record.runs import register

TRAININGS = ("grpo", "ta_grpo", "ta_grpo_star", "w_reinforce")
BENCHMARKS = (("aime", 60), ("math500", 332))
SAMPLES_A_PROBLEM = 128
QUESTIONS_A_STEP, SESSIONS, VARIANTS = 128, 8, 4


def make_evaluation(db: Database, texts: Texts, scale: float) -> None:
    """Store eight eval runs: four models on two benchmarks, 128 samples a problem, graded."""
    chance = texts.chance
    pool = texts.responses(5000, 500, 6000)
    problems = {
        name: [
            make_problem(f"{texts.prose(60, 300)} ({name} {place})", str(place))
            for place in range(max(4, round(size * scale)))
        ]
        for name, size in BENCHMARKS
    }
    next_id = 1
    for strength, model in enumerate(TRAININGS):
        for name, _ in BENCHMARKS:
            placed = [PlacedProblem(problem) for problem in problems[name]]
            path = f"/models/runs/{model}/checkpoints/global_step_60/actor/huggingface"
            spec = EvalSpec(
                problems=name,
                problems_hash=placed_hash(placed),
                size=len(placed),
                source={"file": "generated"},
                model=path,
                engine={"sampler": "vllm"},
                prompt=PromptSpec(template="{question}"),
                sampling=SamplingSettings(),
            )
            samples, sample_texts, grades = [], [], []
            with db.write() as session:
                run, _ = open_run(
                    session,
                    name=f"{model}.{name}",
                    kind=EVAL,
                    spec=spec.to_json(),
                    question_ids=[],
                    versions={},
                )
                store_run_problems(session, run.id, placed)
                grader = grader_id(session, GRADER_VERSION)
                for problem in run_problems(session, run.id):
                    rate = min(0.97, max(0.0, chance.gauss(0.3 + 0.05 * strength, 0.35)))
                    for ordinal in range(SAMPLES_A_PROBLEM):
                        value = "correct" if chance.random() < rate else "wrong"
                        value = "unknown" if chance.random() < 0.004 else value
                        stop = "length" if chance.random() < 0.05 else "stop"
                        samples.append(
                            (next_id, problem.id, ordinal, None, ordinal, stop, 90, chance.randint(200, 2500))
                        )
                        sample_texts.append((next_id, pool[chance.randrange(len(pool))]))
                        reason = {"correct": "exact", "wrong": "different", "unknown": "timeout"}[value]
                        grades.append((next_id, grader, problem.id, value, reason, str(ordinal % 9), "boxed"))
                        next_id += 1
                blocks = [
                    block_item(Block(problem.id, first, 8))
                    for problem in run_problems(session, run.id)
                    for first in range(0, SAMPLES_A_PROBLEM, 8)
                ]
                add_tasks(session, run.id, blocks)
                session.execute(update(TaskRow).where(TaskRow.run_id == run.id).values(state=DONE))
                connection = session.connection()
                connection.exec_driver_sql("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", samples)
                connection.exec_driver_sql("INSERT INTO sample_texts VALUES (?, ?)", sample_texts)
                connection.exec_driver_sql("INSERT INTO grades VALUES (?, ?, ?, ?, ?, ?, ?)", grades)
                finish_run(session, run.id, finished=True)


def make_rollouts(
    db: Database, texts: Texts, questions: Sequence[Question], scale: float, folder: Path
) -> None:
    """Record four trainings: 61 steps of 128 questions, 8 responses to each of their four prompts."""
    chance = texts.chance
    decompress = zstandard.ZstdDecompressor().decompress
    pool = [decompress(text).decode() for text in texts.responses(5000, 350, 4000)]
    steps = max(2, round(61 * scale))
    trained = list(questions[: max(QUESTIONS_A_STEP, round(2000 * scale))])
    rates = {question.id: min(0.99, max(0.0, chance.gauss(0.45, 0.35))) for question in trained}
    for name in TRAININGS:
        order = list(trained)
        with RolloutWriter(folder / name, name, spec={"recipe": name, "model": "base"}) as writer:
            for step in range(1, steps + 1):
                first = (step - 1) * QUESTIONS_A_STEP % len(order)
                if first < QUESTIONS_A_STEP:
                    chance.shuffle(order)
                batch = order[first : first + QUESTIONS_A_STEP]
                writer.write(step, list(_make_step(step, batch, rates, pool, chance)))
                writer.write_metrics(step, _metrics(step, chance))
        with db.write() as session:
            finish_run(session, register(session, Record(folder / name)).id, finished=True)


def _make_step(
    step: int,
    batch: Sequence[Question],
    rates: dict[str, float],
    pool: Sequence[str],
    chance: random.Random,
) -> Iterator[RolloutRecord]:
    draw = chance.random
    for group, question in enumerate(batch):
        rate = min(0.99, rates[question.id] * (1 + step / 200))
        for session_number in range(VARIANTS * SESSIONS):
            variant = session_number // SESSIONS
            correct = None if draw() < 0.002 else draw() < rate
            reward = float(correct is True)
            yield RolloutRecord(
                step=step,
                question_id=question.id,
                neighbor_id=None if variant == 0 else f"c_{question.id[2:22]}{variant:04d}",
                strategy=None if variant == 0 else STRATEGIES[variant - 1].name,
                variant=variant,
                group=group,
                session=session_number,
                prompt=f"{question.text} ({variant})",
                response=pool[int(draw() * len(pool))],
                tokens=int(200 + 1500 * draw()),
                truncated=draw() < 0.04,
                reward=reward,
                correct=correct,
                reason="timeout" if correct is None else "exact" if correct else "different",
                extracted="7",
                advantage=reward - rate,
                old_log_prob=-80 - 10 * draw(),
                sampling_log_prob=-79 - 10 * draw(),
                ref_log_prob=None,
                entropy=0.4 + draw() / 5,
                weights_version=step - 1,
            )


def _metrics(step: int, chance: random.Random) -> dict[str, float]:
    """Return a step's metrics: those of docs/reference/metrics.md with four prompts, and the engine's own."""
    parts = ("mean", "original", "neighbors", "variant_1", "variant_2", "variant_3")
    names = [f"tagrpo/{name}/{part}" for name in METRICS_BY_PART for part in parts]
    names += [
        f"tagrpo/zero/{kind}/{share}"
        for kind in ("original", "neighbor", "neighbors", "joint", "group")
        for share in ("all_right", "all_wrong", "share")
    ]
    names += [f"tagrpo/covariance/{sign}/top_{top}" for sign in ("positive", "negative") for top in TOPS]
    names += [f"engine/{number}" for number in range(60)] + ["actor/grad_norm"]
    return {name: round(chance.random() * math.exp(-step / 100), 6) for name in names}


METRICS_BY_PART = (
    "reward", "correct", "entropy", "anchor/log_ratio", "anchor/ess", "anchor/ess_token", "kl/k1", "kl/k3",
)  # fmt: skip
TOPS = ("0.01", "1", "20", "40", "100")
