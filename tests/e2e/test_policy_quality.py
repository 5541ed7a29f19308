"""The shipped policy solves about half, in the way its world says; its command reproduces it."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from traces import strategy_of

from evaluator.grading import Grader
from sandbox.phrasings import PHRASINGS
from sandbox.policy import RECORD, write_shipped_policy
from sandbox.pretraining import SCHEDULE, SHAPE, pretrain
from sandbox.questions import Asked, draw_questions
from sandbox.tokenizer import make_tokenizer
from sandbox.traces import DIRECT, has_mistake
from sandbox.worlds import WORLDS

G, NEIGHBORS = 8, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("quality") / "policy-a"
    write_shipped_policy(target)
    return target


def variants(questions: list[Asked]) -> list[list[Asked]]:
    """Return each question with three other phrasings behind it."""
    draw = random.Random(0)
    return [
        [
            question,
            *(
                Asked(question.problem, phrasing)
                for phrasing in draw.sample([p for p in PHRASINGS if p is not question.phrasing], NEIGHBORS)
            ),
        ]
        for question in questions
    ]


def draw_responses(folder: Path, texts: list[str], n: int) -> list[list[str]]:
    """Return n responses to each text at temperature 1, from left-padded prompts."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    torch.manual_seed(0)
    found = []
    for start in range(0, len(texts), 64):
        messages = [[{"role": "user", "content": text}] for text in texts[start : start + 64]]
        prompts = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt")
        out: Any = model.generate(
            **inputs, do_sample=True, temperature=1.0, top_k=0, num_return_sequences=n, max_new_tokens=40
        )
        new = tokenizer.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        found += [new[i : i + n] for i in range(0, len(new), n)]
    return found


def test_success_depends_on_the_phrasing_and_joint_groups_are_seldom_equal(folder: Path) -> None:
    """Pass@1 near .5; G=8 on the question gives equal rewards much more often than 4x8 with neighbors."""
    groups = variants(draw_questions(0, 128, 8)[0])
    asked = [variant for group in groups for variant in group]
    responses = draw_responses(folder, [one.text for one in asked], G)
    pairs = [(text, one.answer) for one, texts in zip(asked, responses, strict=True) for text in texts]
    with Grader(workers=1) as grader:
        grades = [grade.value == "correct" for grade in grader.grade_many(pairs)]
    right = np.array(grades).reshape(len(groups), NEIGHBORS + 1, G)
    assert 0.4 < right[:, 0].mean() < 0.6
    equal_alone = np.ptp(right[:, 0].astype(int), axis=-1) == 0
    equal_joint = np.ptp(right.reshape(len(groups), -1).astype(int), axis=-1) == 0
    assert not (equal_joint & ~equal_alone).any()
    assert equal_alone.mean() - equal_joint.mean() > 0.15

    dominant = [
        strategy_of(text) == one.phrasing.dominant
        for one, texts in zip(asked, responses, strict=True)
        for text in texts
    ]
    assert np.mean(dominant) == pytest.approx(WORLDS["A"].dominance, abs=0.03)
    mistaken = np.array([has_mistake(one.problem, one.phrasing.dominant) for one in asked])
    success = right.reshape(-1, G).mean(1)
    assert success[mistaken].mean() < 0.25
    written_out = np.array([one.phrasing.dominant != DIRECT for one in asked])
    assert success[~mistaken & written_out].mean() > 0.85
    assert success[~mistaken & ~written_out].mean() > success[mistaken].mean()


def test_the_command_learns_as_the_shipped_policy_did(folder: Path) -> None:
    """The first 100 of its steps, with its settings: the loss is the recorded one.

    The same bits come only from the same processor and build of torch; elsewhere rounding grows, but not by
    as much as is allowed here. A fault in corpus, model or optimizer changes the losses by more.
    """
    record = json.loads((folder / RECORD).read_text())
    losses = {}
    pretrain(
        WORLDS[record["world"]["name"]],
        make_tokenizer(),
        seed=record["seed"],
        threads=1,
        stop=100,
        report=lambda progress: losses.update({str(progress.step): progress.loss}),
    )
    assert record["schedule"] == {**record["schedule"], "steps": SCHEDULE.steps, "batch": SCHEDULE.batch}
    assert record["shape"]["width"] == SHAPE.width
    assert losses == {step: pytest.approx(record["losses"][step], rel=0.15) for step in ("100",)}
