"""Responses of a large database for measuring pages: evaluation samples with grades, rollouts by step."""

import json
import math
import random
from collections.abc import Sequence

import zstandard

from benchmarks.pages.made_candidates import STRATEGIES
from benchmarks.pages.made_texts import Texts
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
from service.database import Database, utc_now
from service.database.base import ZSTD_LEVEL
from service.models.settings import PromptSpec, SamplingSettings
from service.questions import Question
from service.runs.cells import CellPlan, Receipt, add_cells, claim_cells, fill_cell
from service.runs.store import Run, finish_run, open_run
from trainer_adapter.record.joint_groups import store_groups
from trainer_adapter.record.tables import TRAIN

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
                name, placed_hash(placed), len(placed), {"file": "generated"}, path, {"sampler": "vllm"},
                PromptSpec("{question}"), SamplingSettings(),
            )  # fmt: skip
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
                plans = []
                for problem in run_problems(session, run.id):
                    plans.append(CellPlan(run.id, "sample", problem.problem_id, problem.position, 0, 0))
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
                add_cells(session, run.id, plans)
                for cell in claim_cells(session, run.id, run.id, owner="benchmark", limit=len(plans)):
                    fill_cell(session, cell.id, "{}", Receipt(path, 90, 128_000, 0.0, 1, 40.0))
                connection = session.connection()
                connection.exec_driver_sql("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", samples)
                connection.exec_driver_sql("INSERT INTO sample_texts VALUES (?, ?)", sample_texts)
                connection.exec_driver_sql("INSERT INTO grades VALUES (?, ?, ?, ?, ?, ?, ?)", grades)
                finish_run(session, run.id, finished=True)


def make_rollouts(db: Database, texts: Texts, questions: Sequence[Question], scale: float) -> None:
    """Store four trainings: 61 steps of 128 questions, 8 responses to each of their four prompts."""
    chance = texts.chance
    pool = texts.responses(5000, 350, 4000)
    compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
    steps = max(2, round(61 * scale))
    trained = list(questions[: max(QUESTIONS_A_STEP, round(2000 * scale))])
    rates = {question.id: min(0.99, max(0.0, chance.gauss(0.45, 0.35))) for question in trained}
    next_id = next_prompt = 1
    for name in TRAININGS:
        with db.write() as session:
            run, _ = open_run(
                session,
                name=name,
                kind=TRAIN,
                spec={"recipe": name, "model": "base"},
                question_ids=(),
                versions={},
            )
            prompts: dict[tuple[str, int], int] = {}
            rows = []
            for question in trained:
                for variant in range(VARIANTS):
                    prompts[question.id, variant] = next_prompt
                    strategy = None if variant == 0 else STRATEGIES[variant - 1].name
                    neighbor = None if variant == 0 else f"c_{next_prompt:024d}"
                    text = compress(f"{question.text} ({variant})".encode())
                    key = next_prompt.to_bytes(16, "big")
                    rows.append((next_prompt, run.id, key, question.id, variant, neighbor, strategy, text))
                    next_prompt += 1
            session.connection().exec_driver_sql(
                "INSERT INTO rollout_prompts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows
            )
        order = list(trained)
        for step in range(1, steps + 1):
            if (step - 1) * QUESTIONS_A_STEP % len(order) < QUESTIONS_A_STEP:
                chance.shuffle(order)
            first = (step - 1) * QUESTIONS_A_STEP % len(order)
            batch = order[first : first + QUESTIONS_A_STEP]
            next_id = _make_step(db, run, step, batch, prompts, rates, pool, chance, next_id)
        with db.write() as session:
            finish_run(session, run.id, finished=True)


def _make_step(
    db: Database,
    run: Run,
    step: int,
    batch: Sequence[Question],
    prompts: dict[tuple[str, int], int],
    rates: dict[str, float],
    pool: Sequence[bytes],
    chance: random.Random,
    next_id: int,
) -> int:
    rollouts, responses = [], []
    draw = chance.random
    for group, question in enumerate(batch):
        rate = min(0.99, rates[question.id] * (1 + step / 200))
        for session_number in range(VARIANTS * SESSIONS):
            variant = session_number // SESSIONS
            correct = draw() < rate
            grade = "unknown" if draw() < 0.002 else "correct" if correct else "wrong"
            reward = float(grade == "correct")
            reason = {"correct": "exact", "wrong": "different", "unknown": "timeout"}[grade]
            rollouts.append(
                (
                    next_id, prompts[question.id, variant], group, session_number,
                    int(200 + 1500 * draw()), draw() < 0.04, reward, grade, reason, "7", reward - rate,
                    -80 - 10 * draw(), -79 - 10 * draw(), None, 0.4 + draw() / 5, step - 1,
                )
            )  # fmt: skip
            responses.append((next_id, pool[int(draw() * len(pool))]))
            next_id += 1
    with db.write() as session:
        connection = session.connection()
        shard = connection.exec_driver_sql(
            "INSERT INTO rollout_shards (run_id, step, content, rows, imported_at) VALUES (?, ?, ?, ?, ?)"
            " RETURNING id",
            (run.id, step, f"{run.name}-{step}", len(rollouts), utc_now()),
        ).scalar_one()
        connection.exec_driver_sql(
            f"INSERT INTO rollouts VALUES (?, {shard}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rollouts
        )
        connection.exec_driver_sql("INSERT INTO rollout_texts VALUES (?, ?)", responses)
        connection.exec_driver_sql(
            "INSERT INTO train_steps VALUES (?, ?, ?)", (run.id, step, json.dumps(_metrics(step, chance)))
        )
        store_groups(session, run, step)
    return next_id


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
