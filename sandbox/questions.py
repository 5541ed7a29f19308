"""Questions for training and evaluation, as files that `questions import` and `eval run` read."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.phrasings import PHRASINGS, Phrasing
from sandbox.problems import RESERVED, Story, WordProblem, draw_story, split_numbers
from sandbox.worlds import World
from service.errors import InputError
from service.questions.files import read_objects
from service.writing import write_folder

TRAIN_FILE, HELDOUT_FILE, RECORD = "train.jsonl", "heldout.jsonl", "sandbox.json"


@dataclass(frozen=True)
class Asked:
    """A problem in the phrasing in which it is asked: a question of the sandbox."""

    problem: WordProblem
    phrasing: Phrasing

    @property
    def text(self) -> str:
        return self.phrasing.text(self.problem)

    @property
    def answer(self) -> str:
        return str(self.problem.total)

    def row(self) -> dict[str, Any]:
        """Return the question as a row; the subject is the phrasing, which importing keeps."""
        return {
            "question": self.text,
            "answer": self.answer,
            "subject": self.phrasing.name,
            "count": self.problem.count,
            "price": self.problem.price,
            "charge": self.problem.charge,
            **vars(self.problem.story),
        }


def draw_questions(seed: int, train: int, heldout: int) -> tuple[list[Asked], list[Asked]]:
    """Return training and held-out questions: no three numbers twice, none that a policy was pre-trained on.

    The phrasings occur equally often in either part, up to one.
    """
    if train < 1 or heldout < 1 or train + heldout > RESERVED:
        raise InputError(
            f"--train {train} and --heldout {heldout}: give at least 1 each and at most {RESERVED:,} "
            "together, the number of problems held out of pre-training."
        )
    draw = random.Random(f"questions {seed}")
    numbers = draw.sample(split_numbers()[0], train + heldout)
    return _asked(draw, numbers[:train]), _asked(draw, numbers[train:])


def write_questions(folder: Path, world: World, seed: int, train: int, heldout: int) -> None:
    """Write `train.jsonl`, `heldout.jsonl` and a record of the settings.

    The questions are the same in all worlds; the record keeps the name of the world for readers.
    """
    parts = dict(zip((TRAIN_FILE, HELDOUT_FILE), draw_questions(seed, train, heldout), strict=True))
    record = {"world": world.name, "seed": seed, "train": train, "heldout": heldout}

    def write(made: Path) -> None:
        for name, questions in parts.items():
            (made / name).write_text(json_lines(asked.row() for asked in questions), encoding="utf-8")
        (made / RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")

    write_folder(folder, write, overwrite=None, mark=RECORD)


def read_questions(path: Path) -> list[Asked]:
    """Return the questions of a file that `write_questions` made."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; `python -m sandbox questions FOLDER` writes it.")
    questions = [_read_row(row, f"{path}:{number}") for number, row in read_objects(path)]
    if not questions:
        raise InputError(f"{path}: contains no questions; `python -m sandbox questions FOLDER` writes it.")
    return questions


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _asked(draw: random.Random, numbers: Sequence[tuple[int, int, int]]) -> list[Asked]:
    phrasings = [PHRASINGS[place % len(PHRASINGS)] for place in range(len(numbers))]
    draw.shuffle(phrasings)
    return [
        Asked(WordProblem(*three, draw_story(draw)), phrasing)
        for three, phrasing in zip(numbers, phrasings, strict=True)
    ]


def _read_row(row: Mapping[str, Any], place: str) -> Asked:
    try:
        story = Story(row["name"], row["item"], row["extra"])
        problem = WordProblem(row["count"], row["price"], row["charge"], story)
        asked = Asked(problem, next(each for each in PHRASINGS if each.name == row["subject"]))
    except (KeyError, TypeError, StopIteration) as error:
        raise InputError(f"{place}: not a sandbox question ({error}).") from error
    if (asked.text, asked.answer) != (row.get("question"), row.get("answer")):
        raise InputError(
            f"{place}: question and answer do not match its numbers; write the file again with "
            "`python -m sandbox questions`."
        )
    return asked
