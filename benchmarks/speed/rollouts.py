"""The rollout record: its size, the time to open it, and the time to read a group with its responses.

Each step has 128 of 2,000 questions with 32 responses each. Half of them are drawn for the question; if
none is right, the others go to its four neighbors. Groups are read at random places; the first read and the
median and the worst of the others count. Responses are sentences of common words in random order, with new
numbers.

    python -m benchmarks.speed.rollouts [--rollouts 100000] [--text-bytes 2700] [--folder DIR]

With `--folder` the record is kept, and read again if it is there. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import run_apart

if TYPE_CHECKING:
    from trainer_adapter.record import RolloutRecord

QUESTIONS, QUESTIONS_A_STEP, SESSIONS, NEIGHBORS = 2_000, 128, 32, 4
STEP = QUESTIONS_A_STEP * SESSIONS
STRATEGIES = ("wording", "context", "order", "terse")
SPEC = {"recipe": {"name": "ta_rescue", "sampling": "rescue", "anchor": "tapered"}, "model": "base"}
REPEATS = 40

WORDS = re.findall(
    "[a-z]+",
    """the sum product remainder area triangle number ways second term side value total cost probability ratio
    slope line digit coefficient result equation inequality largest factor angle circle square root integer
    divisor multiple prime sequence polynomial therefore since we obtain simplify substitute multiply divide
    subtract add both sides consider let denote that this equals so hence now recall from which follows note
    case first each between distance speed hours minutes workers cookies students meters tank fraction percent
    average median set element subset order edge diagonal chord tangent height base volume cylinder plane axis
    origin parabola focus function domain inverse limit bound maximum minimum congruent residue cycle pattern
    even odd common difference geometric original remaining at least exactly one two three four than more less
    twice half final answer is are be can must have given know find need using gives means holds implies with
    for and or not then if where only all some any no of in on by to a an as into over under after before""",
)
FORMULAS = re.split(
    r" \| ",
    r"\frac{%d}{%d} | %dx + %d = 0 | x^2 - %dx + %d | \sqrt{%d} \approx %d | %d \cdot %d | \binom{%d}{%d} | "
    r"%d \equiv %d \pmod{7} | \left(%d, %d\right)",
)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--text-bytes", type=int, default=2_700, help="of a response")
    parser.add_argument("--folder", type=Path, help="of the record (default: a temporary one)")
    parser.add_argument("--read", action="store_true", help="only read the record in --folder")
    args = parser.parse_args()
    if args.read:
        print(json.dumps(measure_reads(args.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if not (folder / "run.json").exists():
            write_record(folder, max(1, args.rollouts // STEP), args.text_bytes)
        size = sum(path.stat().st_size for path in folder.iterdir())
        report = run_apart(__file__, "--read", "--folder", folder)
        print(json.dumps({"megabytes": round(size / 1e6, 1), **report}))


def write_record(folder: Path, steps: int, text_bytes: int) -> None:
    """Write the record of a training."""
    from trainer_adapter.record import RolloutWriter

    texts = make_texts(text_bytes)
    with RolloutWriter(folder, "bench", spec=SPEC) as writer:
        for step in range(1, steps + 1):
            writer.write(step, list(make_step(step, texts)))
            writer.write_metrics(step, {f"engine/{number}": number / step for number in range(100)})


def measure_reads(folder: Path) -> dict[str, Any]:
    """Open the record in a folder and read groups with their responses."""
    from trainer_adapter.record.groups import GroupFilters
    from trainer_adapter.record.reading import Record

    began = time.perf_counter()
    record = Record(folder)
    counts = record.counts()
    opened_s = time.perf_counter() - began
    chance, steps, times = random.Random(0), record.steps(), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        group = chance.choice(record.counts().page_groups(GroupFilters(step=chance.choice(steps)), limit=200))
        found = record.joint_group(group.step, group.question_id)
        headers = record.headers(group.step)
        rows = [int(one.id.partition(":")[2]) for column in found.columns for one in column.rollouts]
        record.texts(headers, rows)
        times.append(round((time.perf_counter() - began) * 1e3, 2))
    return {
        "rollouts": int(counts.prompts["responses"].sum()),
        "open_ms": round(opened_s * 1e3, 1),
        "group_ms": {"first": times[0], "median": statistics.median(times[1:]), "worst": max(times[1:])},
    }


def make_texts(text_bytes: int) -> list[str]:
    """Return responses to draw from; each ends in an answer of its own."""
    chance, texts = random.Random(0), []
    sentences = [make_sentence(chance) for _ in range(40_000)]
    for number in range(4_000):
        text = f"The final answer is \\boxed{{{number}}}."
        while len(text) < text_bytes:
            text = chance.choice(sentences) + text
        texts.append(text[-(text_bytes - 12) :])
    return texts


def make_sentence(chance: random.Random) -> str:
    """Return common words in no order, with numbers and formulas."""
    parts = []
    for _ in range(chance.randint(7, 16)):
        # Common words are far more frequent than rare ones, as in any language.
        parts.append(WORDS[int(len(WORDS) * chance.random() ** 1.7)])
        if chance.random() < 0.22:
            formula = chance.choice(FORMULAS) % (chance.randint(1, 999), chance.randint(1, 99))
            parts.append(f"${formula}$")
    return " ".join(parts).capitalize() + ". "


def make_step(step: int, texts: list[str]) -> Iterator[RolloutRecord]:
    """Yield the records of a step."""
    from trainer_adapter.record import RolloutRecord

    chance = random.Random(step)
    draw = chance.random
    a_round = QUESTIONS // QUESTIONS_A_STEP
    order = list(range(QUESTIONS))
    random.Random((step - 1) // a_round).shuffle(order)
    first = (step - 1) % a_round * QUESTIONS_A_STEP
    for group, question in enumerate(order[first : first + QUESTIONS_A_STEP]):
        rate = (question * 7919 % QUESTIONS / QUESTIONS) ** 2
        is_dead = True
        for session in range(SESSIONS):
            variant = 1 + session % NEIGHBORS if is_dead and session >= SESSIONS // 2 else 0
            unknown, correct = draw() < 0.002, draw() < rate
            is_dead = is_dead and (variant > 0 or unknown or not correct)
            grade = None if unknown else correct
            yield RolloutRecord(
                step=step,
                question_id=f"q_{question:024x}",
                neighbor_id=f"c_{question * 10 + variant:024x}" if variant else None,
                strategy=STRATEGIES[variant - 1] if variant else None,
                variant=variant,
                group=group,
                session=session,
                prompt=f"A question of some length, number {question}, worded in way {variant}. " * 4,
                response=f"{step:05d}{group:03d}{session:03d} {texts[int(draw() * len(texts))]}",
                tokens=int(200 + 1500 * draw()),
                truncated=draw() < 0.04,
                reward=float(bool(grade)),
                correct=grade,
                reason="timeout" if unknown else "exact" if correct else "different",
                extracted=str(session % 9),
                advantage=float(bool(grade)) - rate,
                old_log_prob=-80 - 10 * draw(),
                sampling_log_prob=-79 - 10 * draw(),
                ref_log_prob=None,
                entropy=0.4 + draw() / 5,
                weights_version=step - 1,
            )


if __name__ == "__main__":
    main()
