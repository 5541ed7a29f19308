"""The steps of the demo: ordinary commands in an order that shows the whole way, with words."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.demo.plan import (
    BASE,
    CANDIDATES,
    CHANGES,
    HELDOUT,
    KS,
    LEARNING_RATE,
    LEARNING_RATES,
    NEIGHBORS,
    PILOT,
    QUESTIONS,
    DemoPlan,
    G,
    Training,
    comparisons,
    demo_recipe,
)

PER_QUESTION, BROKEN, ROUNDS = 6, 0.25, 4
LONGEST_RESPONSE, LONGEST_PROMPT = 40, 64
_PLAIN = (
    *("--preset", "plain", "temperature=1.0", "top_p=1.0"),
    *(f"max_tokens={LONGEST_RESPONSE}", "batch_size=256"),
)
"""How responses are drawn everywhere: the bare question, at the temperature of training.

256 at a time take a quarter less time than 64, the default, with so small a model.
"""


@dataclass(frozen=True)
class Step:
    """One command of the demo."""

    chapter: str  # one of `CHAPTERS`
    title: str
    words: str  # what it does and what to look at
    arguments: tuple[str, ...]  # after `tagrpo`, or `sandbox` and those after `python -m sandbox`
    attention: str = ""  # what exit code 3 means, if the demo continues after it
    makes: tuple[Path, ...] = ()  # if all of it exists, the step is done; a part that a kill left is removed

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command."""
        return (
            ("python", "-m", *self.arguments)
            if self.arguments[0] == "sandbox"
            else ("tagrpo", *self.arguments)
        )

    @property
    def shell(self) -> str:
        """The command for a shell."""
        return shlex.join(self.command)


CHAPTERS = (
    "Verified neighbors",
    "A published set",
    "Diagnosis before training",
    "Training",
    "Evaluation",
)


SPEED_VARIABLES = ("OMP_NUM_THREADS", "GOMP_SPINCOUNT")


def speed_settings() -> str:
    """Return the variables that the steps run under, as a shell sets them; they change speed alone."""
    return " ".join(f"{name}={os.environ[name]}" for name in SPEED_VARIABLES if name in os.environ)


def demo_steps(plan: DemoPlan) -> list[Step]:
    """Return the steps in order; each is a command that can be repeated by itself."""
    return [*_neighbors(plan), *_set(plan), *_pilot(plan), *_training(plan), *_evaluation(plan)]


def step_keys(plan: DemoPlan) -> list[str]:
    """Return what tells the steps apart, the same wherever the demo's folder lies."""
    return [step.shell for step in demo_steps(replace(plan, folder=Path(".")))]


def _neighbors(plan: DemoPlan) -> Iterator[Step]:
    folder, size, db = plan.folder, plan.size, _db(plan)
    chapter = CHAPTERS[0]
    yield Step(
        chapter,
        "The policy",
        "A language model of a few hundred thousand weights, pre-trained on word problems about a count, a "
        "price and a charge. It comes with tagrpo; `python -m sandbox pretrain` creates another one.",
        ("sandbox", "policy", str(plan.policy)),
        makes=(plan.policy,),
    )
    yield Step(
        chapter,
        "The solver",
        "A second model, from control world C, answers the candidates. It makes as many mistakes as the "
        "policy, but the same ones for every wording of a problem. So its answers, like a strong model's, "
        "show whether two texts pose the same problem. The policy's own answers depend on the wording.",
        ("sandbox", "policy", str(plan.solver), "--world", "C"),
        makes=(plan.solver,),
    )
    yield Step(
        chapter,
        "Questions",
        f"{size.train} training questions and {size.heldout} held-out questions, all new to the policy. "
        "Each has one of eight phrasings, and the phrasing determines how the policy calculates.",
        (
            *("sandbox", "questions", str(folder / "questions"), "--world", size.world, "--seed", "0"),
            *("--train", str(size.train), "--heldout", str(size.heldout)),
        ),
        makes=(folder / "questions",),
    )
    yield Step(
        chapter,
        "Import",
        "The id of a question is a hash of its content. Every gold answer must be graded correct when "
        "compared with itself.",
        ("questions", "import", str(folder / "questions" / "train.jsonl"), "--name", QUESTIONS, *db),
    )
    yield Step(
        chapter,
        "Candidates",
        f"{PER_QUESTION} rephrasings per question. {BROKEN:.0%} are broken on purpose, like some "
        "rephrasings by language models: a changed number, a missing condition, a reversed question, or a "
        "revealed answer. A separate file records which ones.",
        (
            *("sandbox", "candidates", str(folder / "questions")),
            *("--out", str(folder / "candidates.jsonl")),
            *("--per-question", str(PER_QUESTION), "--broken", str(BROKEN), "--seed", "0"),
            *("--truth", str(plan.truth)),
        ),
        makes=(folder / "candidates.jsonl", plan.truth),
    )
    yield Step(
        chapter,
        "Structural checks, answers, verdicts",
        "Structural checks need no model. The solver then answers each question and the candidates that "
        "pass. Enough shared answers accept a candidate; no shared answer and a dominant new one reject it. "
        "The others stay undecided and out of the set.",
        (
            *("rephrase", "run", QUESTIONS, "--name", CANDIDATES, "proposer=file"),
            *(f"proposer.candidates={folder / 'candidates.jsonl'}", "--n", str(NEIGHBORS)),
            *("--solver", str(plan.solver), "solver.preset=plain"),
            *("solver.dtype=float32", "solver.temperature=1.0", "solver.top_p=1.0"),
            *(f"rounds={ROUNDS}", "solver.batch_size=256"),
            *(f"solver.max_tokens={LONGEST_RESPONSE}", *db),
        ),
    )
    yield Step(
        chapter,
        "The truth",
        "How many broken candidates were caught, and how many good ones were lost?",
        ("sandbox", "score", CANDIDATES, "--truth", str(plan.truth), *db),
    )


def _set(plan: DemoPlan) -> Iterator[Step]:
    folder, db, export = plan.folder, _db(plan), ("sets", "export", f"{QUESTIONS}@1", "--format")
    yield Step(
        CHAPTERS[1],
        "Publish",
        "The accepted candidates become an immutable version of a neighbor set with a content hash.",
        ("sets", "publish", QUESTIONS, "--run", CANDIDATES, "--n", str(NEIGHBORS), *db),
    )
    yield Step(
        CHAPTERS[1],
        "Verify",
        "Recompute the hash from the stored members.",
        ("sets", "show", f"{QUESTIONS}@1", "--verify", *db),
    )
    yield Step(
        CHAPTERS[1],
        "Export for Hugging Face",
        "A dataset with a card that documents the origin of every neighbor.",
        (*export, "hf", "--out", str(folder / "hf"), "--overwrite", *db),
    )
    yield Step(
        CHAPTERS[1],
        "Export for verl",
        "Training files with one row per question, which contains its neighbors. The prompt is the question "
        "without an instruction.",
        (
            *(*export, "verl", "--out", str(folder / "verl"), "--overwrite"),
            *("--tokenizer", str(plan.policy), "--instruction", ""),
            *("--max-prompt-tokens", str(LONGEST_PROMPT), *db),
        ),
    )


def _pilot(plan: DemoPlan) -> Iterator[Step]:
    size, db = plan.size, _db(plan)
    run = f"{PILOT}.{QUESTIONS}-1"
    yield Step(
        CHAPTERS[2],
        "A pilot",
        f"{size.pilot} responses of the policy to every question and every neighbor, sampled with the same "
        "settings as in training.",
        _eval_neighbors(plan, plan.policy, PILOT),
    )
    yield Step(
        CHAPTERS[2],
        "Forecast",
        "Share of questions that will give no gradient, because all their responses get the same reward: for "
        "2 or 8 responses to the question (GRPO), and 2 to each of 4 prompts (TA-GRPO's joint group).",
        ("diagnose", run, "--only", "forecast", "--g", str(G), "--n", str(NEIGHBORS), *db),
    )
    yield Step(
        CHAPTERS[2],
        "Difficulty",
        "Do neighbors shift difficulty? Some shift is intended. The output lists neighbors whose success "
        "rate is implausible, given that of their question.",
        ("diagnose", run, "--only", "difficulty", *db),
        attention="a human should check the flagged neighbors",
    )
    yield Step(
        CHAPTERS[2],
        "Training plan",
        "Number of responses that TA-GRPO samples, compared with GRPO for equal epochs. The "
        "memory estimate is for one GPU, but the demo trains on the CPU.",
        (
            *("train", "plan", "ta_grpo", "--model", str(plan.policy), "--data", str(plan.folder / "verl")),
            *("--pilot", run, *_overrides(plan, Training("ta_grpo", 1)), *db),
        ),
        attention="the forecast includes a warning",
    )


def _training(plan: DemoPlan) -> Iterator[Step]:
    size, db = plan.size, _db(plan)
    for training in plan.trainings():
        recipe = demo_recipe(training.recipe)
        folder = plan.run_folder(training)
        steps = plan.steps(training.recipe)
        drawn = steps * plan.drawn_a_step(training.recipe)
        yield Step(
            CHAPTERS[3],
            f"Train {training.recipe}, seed {training.seed}",
            f"{recipe.summary[0].upper()}{recipe.summary[1:]}. {steps} steps of {size.questions_a_step} "
            f"questions with {recipe.rollouts} responses each, {drawn:,} in "
            f"total{', plus more until every group is mixed' if recipe.drops_dead_groups else ''}. verl "
            "runs on Ray without a GPU and takes a minute to start. tagrpo records every response with its "
            "prompt, grade, reward and advantage.",
            (
                *("train", "run", training.recipe, "--data", str(plan.folder / "verl")),
                *("--model", str(plan.policy), "--cpu", "--hide-log", "--name", training.name),
                *(f"folder={folder}", *db, *_overrides(plan, training)),
            ),
        )


def _overrides(plan: DemoPlan, training: Training) -> tuple[str, ...]:
    size, steps, seed = plan.size, plan.steps(training.recipe), training.seed
    epochs = -(-steps * size.questions_a_step // size.train)
    rate = LEARNING_RATES.get(training.recipe, LEARNING_RATE)
    actor = "actor_rollout_ref.actor"
    return (
        *(f"{axis}={value}" for axis, value in CHANGES.get(training.recipe, {}).items()),
        "loss.kl_coef=0",
        f"verl.data.train_batch_size={size.questions_a_step}",
        f"verl.{actor}.ppo_mini_batch_size={size.mini_batch}",
        f"verl.{actor}.optim.lr={rate:g}",
        f"verl.{actor}.optim.lr_scheduler_type=constant",
        f"verl.{actor}.optim.lr_warmup_steps_ratio=0",
        f"verl.{actor}.ppo_max_token_len_per_gpu=16384",
        f"verl.data.max_response_length={LONGEST_RESPONSE}",
        f"verl.trainer.total_epochs={epochs}",
        f"verl.trainer.total_training_steps={steps}",
        "verl.trainer.save_freq=10",
        f"verl.{actor}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        f"verl.data.seed={seed}",
        f"run.seed={seed}",
        "run.record_tokens=true",
        "run.poll_interval_s=0.1",
    )


def _evaluation(plan: DemoPlan) -> Iterator[Step]:
    size, db = plan.size, _db(plan)
    models = [(BASE, plan.policy), *((each.name, plan.model(each)) for each in plan.trainings())]
    for name, model in models:
        yield Step(
            CHAPTERS[4],
            f"Held-out questions: {name}",
            f"{size.samples} graded responses to each of {size.heldout} held-out questions; pass@k with "
            "intervals.",
            (
                *("eval", "run", str(plan.folder / "questions" / "heldout.jsonl"), "--name", name),
                *("--model", str(model), "dtype=float32", "--n", str(size.samples)),
                *(*_PLAIN, "samples_per_request=16", *db),
            ),
        )
    yield Step(
        CHAPTERS[4],
        "All models compared",
        "pass@1 to pass@32. The interval is for new questions of the same kind.",
        (
            *("eval", "report", *(_heldout(name) for name, _ in models)),
            *("--k", ",".join(map(str, KS)), "--paper", "none", *db),
        ),
    )
    for a, b in comparisons(plan):
        yield Step(
            CHAPTERS[4],
            f"{a} against {b}",
            "Paired differences per question, with intervals and p-values.",
            (
                *("eval", "compare", _heldout(a), _heldout(b)),
                *("--k", "1,8,32", "--changes", "0", *db),
            ),
        )
    first_seed = [each for each in plan.trainings() if each.seed == 1]
    for training in first_seed:
        yield Step(
            CHAPTERS[4],
            f"The neighbor set again: {training.name}",
            "The same as the pilot, but with the trained model.",
            _eval_neighbors(plan, plan.model(training), training.name),
        )
    yield Step(
        CHAPTERS[4],
        "Training signal after training",
        "Share of questions without a gradient before and after training, diversity of responses, and cost "
        "of a group with mixed rewards.",
        (
            "diagnose",
            *(f"{name}.{QUESTIONS}-1" for name in (PILOT, *(t.name for t in first_seed))),
            *("--g", str(G), "--n", str(NEIGHBORS), *db),
        ),
    )


def _eval_neighbors(plan: DemoPlan, model: Path, name: str) -> tuple[str, ...]:
    return (
        *("eval", "run", f"neighbors={QUESTIONS}@1", "--name", name, "--model", str(model)),
        *("dtype=float32", "--n", str(plan.size.pilot), *_PLAIN, *_db(plan)),
    )


def _heldout(name: str) -> str:
    return f"{name}={name}.{HELDOUT}"


def _db(plan: DemoPlan) -> tuple[str, str]:
    return ("--db", str(plan.database))
