"""`tagrpo demo`: the whole way on embedded questions, each step an ordinary command that is printed."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ui.cli import output


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", help="Where the demo keeps its database and exports.")
    ] = Path("tagrpo-demo"),
) -> None:
    """Show the whole way on embedded questions: no key, no network, no model, no GPU.

    Each step is an ordinary command, printed so that you can repeat it. A second run changes nothing.

    Example: tagrpo demo
    """
    from typer.main import get_command

    from evaluator.errors import InputError
    from sandbox.demo import QUESTIONS_FILE, demo_steps, embedded_questions
    from ui.cli.app import app

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / QUESTIONS_FILE).write_text(embedded_questions(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); name another --folder.") from error
    steps = demo_steps(folder)
    command = get_command(app)
    for number, step in enumerate(steps, start=1):
        output.say()
        output.heading(f"{number}/{len(steps)}  {step.title}")
        output.say(step.words)
        output.say(f"$ tagrpo {shlex.join(step.arguments)}")
        output.say()
        code = command.main(list(step.arguments), prog_name="tagrpo", standalone_mode=False)
        if code:
            raise typer.Exit(int(code))
    _show_example(folder / "tagrpo.db")
    output.say()
    output.heading("What you have now")
    output.say(f"{folder / 'hf'}: a Hugging Face data set, `datasets.load_dataset({str(folder / 'hf')!r})`")
    output.say(f"{folder / 'verl'}: training data for verl")
    output.say(
        "Answers were not compared: that takes a solver model. With one, neighbors are accepted or rejected "
        "by their answers; docs/rephrase-with-vllm.md and docs/rephrase-with-gpt.md show how."
    )


def _show_example(db: Path) -> None:
    from evaluator.database import Database
    from rephraser.sets import find_set, load_entries

    with Database.open(db, read_only=True) as database, database.read() as session:
        entries = load_entries(session, find_set(session, "demo").id)
    fullest = max(entries, key=lambda entry: (len(entry.neighbors), len(entry.question.text)))
    output.say()
    output.heading("A question and its neighbors")
    output.say(f"original:   {fullest.question.text}    (answer: {fullest.question.answer})")
    for index, neighbor in enumerate(fullest.neighbors, start=1):
        indented = neighbor.text.replace("\n", "\n            ")
        output.say(f"neighbor {index}: {indented}")
