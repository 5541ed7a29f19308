"""The demo: ordinary `tagrpo` commands over embedded questions, in an order that shows the whole way."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

QUESTIONS_FILE = "questions.jsonl"


@dataclass(frozen=True)
class Step:
    """One command of the demo (without the leading `tagrpo`) and what to say before it."""

    title: str
    words: str
    arguments: tuple[str, ...]


def embedded_questions() -> str:
    """Return the embedded questions as JSON Lines: 42 of our own, with gold answers, levels and subjects."""
    return resources.files("sandbox").joinpath("data", QUESTIONS_FILE).read_text(encoding="utf-8")


def demo_steps(folder: Path) -> list[Step]:
    """Return the steps of the demo, which keeps all its files in `folder`."""
    db = ("--db", str(folder / "tagrpo.db"))
    return [
        Step(
            "Questions",
            "Import questions. Ids are content hashes, so importing twice changes nothing; every gold "
            "answer must grade as correct against itself.",
            ("questions", "import", str(folder / QUESTIONS_FILE), "--name", "demo", *db),
        ),
        Step(
            "Candidates and structural checks",
            "Propose rephrasings by rules, which need no model, and check their structure: numbers, "
            "formulas, units, the question asked, the form of the answer.",
            ("neighbors", "propose", "demo", "--name", "rules", "--proposer", "rules", "--n", "3", *db),
        ),
        Step(
            "A published set",
            "Publish an immutable version. Without a solver no answers were compared, so the neighbors are "
            "unverified and must be asked for.",
            ("sets", "publish", "demo", "--run", "rules", "--include", "unverified", *db),
        ),
        Step(
            "Verification",
            "Derive the set's hash anew from its content.",
            ("sets", "verify", "demo", *db),
        ),
        Step(
            "Export for Hugging Face",
            "One row a question with its neighbors, and a data-set card.",
            ("sets", "export", "demo", "--to", "hf", str(folder / "hf"), "--overwrite", *db),
        ),
        Step(
            "Export for training",
            "Parquet that verl reads, one row a question with its neighbors inside.",
            ("sets", "export", "demo", "--to", "verl", str(folder / "verl"), "--overwrite", *db),
        ),
    ]
