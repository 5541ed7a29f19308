"""Makes a large database for measuring pages: questions, neighbors, sets, rollouts, evaluation samples.

Sizes at scale 1: 10,000 questions, 30,000 neighbors with verdicts and evidence, 3 versions of a set, 2
reviewers, 4 trainings with 1,000,000 rollouts, 8 eval runs with 200,000 samples. All follows from a seed.

Questions, runs, cells, problems, sets, reviews and the counts of groups are written by the project's own
functions. Candidates, verdicts, answers, samples, grades and rollouts go into their tables by plain inserts,
as the project's functions would write them (its triggers run as well); their texts are drawn from a pool of
generated ones, compressed once each.
"""

import json
import math
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from evaluator.database import Database, utc_now
from evaluator.database.base import ZSTD_LEVEL
from evaluator.evals.graders import grader_id
from evaluator.evals.problems import PlacedProblem, make_problem, run_problems, store_run_problems
from evaluator.evals.spec import EVAL, EvalSpec, PromptSpec, SamplingSettings
from evaluator.evals.start import placed_hash
from evaluator.grading import GRADER_VERSION
from evaluator.questions import Question, make_question
from evaluator.questions.store import Member, members_hash, store_set
from evaluator.runs.cells import CellPlan, Receipt, add_cells, claim_cells, fail_cell, fill_cell, set_outcomes
from evaluator.runs.store import Run, finish_run, open_run
from rephraser import sets
from rephraser.candidates import candidate_id
from rephraser.pipeline.spec import RunSpec, SolverSpec
from rephraser.reviews.audit import open_audit
from rephraser.reviews.store import Decision, record_reviews
from rephraser.strategies import Strategy
from trainer_adapter.rollouts.grouping import store_groups
from trainer_adapter.rollouts.importing import TRAIN

SUBJECTS = ("Algebra", "Counting & Probability", "Geometry", "Number Theory", "Prealgebra")
STRATEGIES = (
    Strategy("perspectives", "5", "other words, other order", "Say it in other words.", False),
    Strategy("format", "1", "another layout", "Lay it out in another way.", False),
    Strategy("rename", "1", "other names", "Use other names.", True),
)
FINDINGS = ("number_changed", "answer_format_lost", "formula_changed", "too_similar", "unit_lost")
MODELS = ("openai/gpt-4-turbo", "hosted_vllm/Qwen/Qwen2.5-32B-Instruct")
TRAININGS = ("grpo", "ta_grpo", "ta_grpo_star", "w_reinforce")
BENCHMARKS = (("aime", 60), ("math500", 332))
SAMPLES_A_PROBLEM = 128
QUESTIONS_A_STEP, SESSIONS, VARIANTS = 128, 8, 4
WORDS = re.findall(
    "[a-z]+",
    """the sum product remainder area triangle number ways second term side value total cost ratio slope line
    digit coefficient result equation largest factor angle circle square root integer divisor prime multiple
    sequence polynomial therefore we obtain simplify substitute multiply divide subtract add both consider let
    denote that this equals so hence now recall from which follows note case first each between distance speed
    hours minutes workers students meters tank fraction percent average median set subset order edge diagonal
    chord tangent height base volume cylinder plane axis origin focus function domain limit bound since""",
)


@dataclass
class Texts:
    """Generated prose about arithmetic with formulas, and compressed responses to draw from."""

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

    def responses(self, count: int, shortest: int, longest: int) -> list[bytes]:
        """Return compressed responses; lengths are spread as those of models, many short and few long."""
        compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
        found = []
        for _ in range(count):
            length = min(longest, int(shortest * math.exp(abs(self.chance.gauss(0, 0.8)))))
            text = f"{self.prose(length, length + 100)} So it is \\boxed{{{self.chance.randint(0, 99)}}}."
            found.append(compress(text.encode()))
        return found


def make_database(path: Path, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
    """Write the database into a new file; return the seconds that each part took."""
    texts = Texts(random.Random(seed))
    seconds: dict[str, float] = {}
    with Database.open(path) as db:

        def timed(name: str, work: Any, *given: Any) -> Any:
            began = time.perf_counter()
            result = work(*given)
            seconds[name] = round(time.perf_counter() - began, 1)
            print(f"made {name}: {seconds[name]} s", flush=True)
            return result

        questions = timed("questions", make_questions, db, texts, round(10_000 * scale))
        run = timed("candidates", make_candidates, db, texts, questions)
        timed("sets and reviews", make_sets_and_reviews, db, run, questions)
        timed("evaluation", make_evaluation, db, texts, scale)
        timed("rollouts", make_rollouts, db, texts, questions, scale)
    return seconds


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
            spec = {
                "kind": "import",
                "content_hash": members_hash((m.position, m.question.id) for m in members),
            }
            store_set(session, name, members, spec)
    return questions


def make_candidates(db: Database, texts: Texts, questions: Sequence[Question]) -> Run:
    """Store a run with three candidates a question, their requests, verdicts with evidence, some answers."""
    chance, now = texts.chance, utc_now()
    solver = SolverSpec(model="hosted_vllm/Qwen/Qwen2.5-7B-Instruct")
    spec = RunSpec(
        questions="math", proposer="llm", model=MODELS[0], strategies=STRATEGIES, solvers=(solver,)
    )
    with db.write() as session:
        ids = [question.id for question in questions]
        run, _ = open_run(
            session, name="math-neighbors", kind="propose", spec=spec.to_json(), question_ids=ids, versions={}
        )
        plans = [
            CellPlan(run.id, "propose", id, 0, 0, 0, {"count": 3, "seed": n}) for n, id in enumerate(ids)
        ]
        add_cells(session, run.id, plans)
        cells = {}
        for cell in claim_cells(session, run.id, run.id, owner="benchmark", limit=len(plans)):
            cells[cell.subject_id] = cell.id
    rows: dict[str, list[Any]] = {"candidates": [], "proposals": [], "first": [], "last": []}
    bodies: dict[int, str] = {}
    for question in questions:
        proposed = []
        for ordinal in range(3):
            strategy = STRATEGIES[ordinal]
            text = f"{texts.prose(80, 420)} Find {question.answer} - 1 + 1."
            identity = candidate_id(question.id, text)
            proposed.append(text)
            rows["candidates"].append((identity, question.id, text, now))
            cell = cells[question.id]
            model = MODELS[chance.random() < 0.3]
            rows["proposals"].append(
                (run.id, question.id, identity, cell, "llm", strategy.name, strategy.hash, model, 0, ordinal)
            )
            findings = _findings(chance)
            fatal = any(finding["severity"] == "fatal" for finding in findings)
            first = "rejected" if fatal else "unverified"
            evidence = {"findings": findings, "versions": {"checks": "1"}}
            rows["first"].append(
                (identity, run.id, first, None, "structural checks", fatal, json.dumps(evidence), now)
            )
            if not fatal:
                rows["last"].append((identity, run.id, *_judged(chance, question, findings, solver.id), now))
        bodies[cells[question.id]] = json.dumps(
            {
                "choices": [
                    {"message": {"content": json.dumps({"rephrasings": proposed})}, "finish_reason": "stop"}
                ]
            }
        )
    with db.write() as session:
        for number, (cell, body) in enumerate(bodies.items()):
            if number % 200 == 199:
                fail_cell(session, cell, "RateLimitError: 429 after 6 attempts", attempts=6, cost_usd=None)
            else:
                fill_cell(session, cell, body, Receipt(MODELS[0], 700, 400, 0.019, 1, 4.2))
        set_outcomes(session, dict.fromkeys(bodies, "ok"))
        connection = session.connection()
        connection.exec_driver_sql("INSERT INTO candidates VALUES (?, ?, ?, ?)", rows["candidates"])
        connection.exec_driver_sql(
            "INSERT INTO proposals (run_id, question_id, candidate_id, cell_id, proposer, strategy,"
            " strategy_hash, model, round, ordinal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows["proposals"],
        )
        for part in ("first", "last"):
            connection.exec_driver_sql(
                "INSERT INTO verdicts (candidate_id, run_id, status, posterior, reason, final, evidence,"
                " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows[part],
            )
        finish_run(session, run.id, finished=True)
    _make_answers(db, run, solver, questions[: len(questions) // 20], rows["candidates"], texts)
    return run


def _findings(chance: random.Random) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "severity": "fatal" if chance.random() < 0.3 else "warning",
            "detail": f"{name.replace('_', ' ')}: 12 became 13.",
        }
        for name in FINDINGS
        if chance.random() < 0.06
    ]


def _judged(
    chance: random.Random, question: Question, findings: list[dict[str, str]], solver: str
) -> tuple[str, float, str, bool, str]:
    status = chance.choices(("accepted", "undecided", "rejected"), (0.75, 0.15, 0.1))[0]
    shared = {"accepted": chance.randint(6, 12), "undecided": chance.randint(1, 3), "rejected": 0}[status]
    evidence = {
        "counts": {
            "classes": [question.answer, "7", "12", "-1"],
            "original": [20, 6, 4, 0],
            "candidate": [shared, 0, 0, 12 - shared],
            "gold": 0,
            "original_unparsed": 2,
            "candidate_unparsed": 0,
            "unknown_pairs": 0,
        },
        "by_solver": {"hosted_vllm/Qwen/Qwen2.5-7B-Instruct": {"original": 32, "candidate": 12}},
        "findings": findings,
        "overlap": shared,
        "new_top": 12 - shared,
        "original_top": 20,
        "log_bayes_factor": round(chance.gauss(4 if status == "accepted" else -2, 2), 3),
        "solvers": [solver],
        "versions": {"grader": GRADER_VERSION, "checks": "1"},
    }
    return (
        status,
        round(chance.random(), 4),
        f"{shared} of 12 answers are shared.",
        True,
        json.dumps(evidence),
    )


def _make_answers(
    db: Database,
    run: Run,
    solver: SolverSpec,
    questions: Sequence[Question],
    candidates: Sequence[tuple[Any, ...]],
    texts: Texts,
) -> None:
    """Draw 32 answers to a twentieth of the questions and 12 to their candidates, four to a request."""
    of_candidates = [row[0] for row in candidates[: 3 * len(questions)]]
    wanted = [(question.id, 32) for question in questions] + [(id, 12) for id in of_candidates]
    response = f"{texts.prose(600, 900)} So it is \\boxed{{7}}."
    choices = [{"message": {"content": response}, "finish_reason": "stop"}] * 4
    body = json.dumps({"choices": choices})
    with db.write() as session:
        plans = [
            CellPlan(solver.id, "answer", subject, 0, first, 0, {"count": 4})
            for subject, number in wanted
            for first in range(0, number, 4)
        ]
        add_cells(session, run.id, plans)
        answers = []
        for cell in claim_cells(session, run.id, solver.id, owner="benchmark", limit=len(plans)):
            fill_cell(session, cell.id, body, Receipt(solver.model, 200, 1600, 0.0005, 1, 9.0))
            answers += [
                (cell.id, solver.id, cell.subject_id, cell.ordinal + choice, choice, "7", "stop")
                for choice in range(4)
            ]
        session.connection().exec_driver_sql(
            "INSERT INTO answers (cell_id, solver_id, subject_id, ordinal, choice, extracted, finish_reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            answers,
        )


def make_sets_and_reviews(db: Database, run: Run, questions: Sequence[Question]) -> None:
    """Publish three versions, draw an audit, and let two reviewers decide on it."""
    chance = random.Random(1)
    sets.publish(db, "math-ta", run=run.name, n=2)
    sets.publish(db, "math-ta", run=run.name, n=3)
    audit, _ = open_audit(db, run, size=min(400, len(questions)), seed=1)
    for reviewer in ("ada", "ben"):
        with db.write() as session:
            decisions = [
                Decision(member.candidate_id, *_decision(chance, member.status), reviewer, audit.id)
                for member in audit.members
            ]
            record_reviews(session, decisions)
    sets.publish(db, "math-ta", run=run.name, n=3)


def _decision(chance: random.Random, status: str) -> tuple[Any, str]:
    agrees = chance.random() < 0.9
    return ("accepted", "") if (status == "accepted") == agrees else ("rejected", "another problem")


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
                name, placed_hash(placed), {"file": "generated"}, path, {"sampler": "vllm"},
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
    """Return the metrics of a step: those of docs/metrics.md with four prompts, and the engine's own."""
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
