"""A database with a little of everything, made without a model: the set `demo`, the run `rules`."""

import shutil
from pathlib import Path

from command_line import run_here

QUESTIONS = Path(__file__).with_name("first_look.jsonl")
"""42 questions of our own, with gold answers, levels and subjects."""


def make_first_look(folder: Path) -> Path:
    """Fill `folder` with a database (tagrpo.db) and two exports (hf, verl), and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(QUESTIONS, folder / "questions.jsonl")
    db = ("--db", str(folder / "tagrpo.db"))
    for arguments in (
        ("questions", "import", str(folder / "questions.jsonl"), "--name", "demo"),
        ("rephrase", "run", "demo", "--name", "rules", "proposer=rules", "--n", "3"),
        ("sets", "publish", "demo", "--run", "rules", "--include", "unverified"),
        ("sets", "export", "demo", "--format", "hf", "--out", str(folder / "hf")),
        ("sets", "export", "demo", "--format", "verl", "--out", str(folder / "verl")),
    ):
        done = run_here(*arguments, *db)
        assert done.code == 0, done.err
    return folder
