"""`tagrpo eval show`: the responses behind a run's figures."""

from typing import Annotated

from typer import Option

from service.errors import InputError
from ui.cli.eval.settings import EvalRun
from ui.cli.output import terminal
from ui.cli.settings import db

CHARACTERS_SHOWN = 2_000


def show(
    run: EvalRun,
    problem: str,
    grade: str | None = None,
    text: str | None = None,
    after: Annotated[int, Option(show_default=False)] = -1,
    limit: Annotated[int, Option(min=1)] = 5,
    full: bool = False,
) -> None:
    """Show a problem and its responses, page by page. Texts of gated benchmarks are not shown.

    Example: tagrpo eval show Qwen3-4B.amc23 0 --grade wrong

    Args:
        problem: Position of the problem in the run (from 0), or its id.
        grade: Only correct, wrong, unknown or ungraded samples, or human: those graded by a person.
        text: Only samples that contain this text.
        after: Continue after this sample.
        limit: Number of samples per page.
        full: Show whole texts, not only their beginnings.
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals.problems import find_problem
    from evaluator.evals.runs import find_eval_run
    from evaluator.evals.samples import SampleFilters, browse_samples, read_texts
    from service.questions.images import load_images

    with db.reading() as session:
        chosen = find_eval_run(session, run)
        secret = is_secret(chosen.spec["problems"])
        if secret and text:
            raise InputError(f"run {chosen.name} is on a gated benchmark; its texts cannot be searched.")
        place = find_problem(session, chosen.id, problem)
        filters = SampleFilters(value=grade, position=place.position, text=text)
        page = browse_samples(session, chosen.id, filters, after=(place.position, after), limit=limit)
        texts = read_texts(session, [header.id for _, header in page.samples])
        images = load_images(session, place.images)
    hidden = {"id", "run_problem_id", *(("extracted", "text") if secret else ())}
    samples = [
        {
            **{name: value for name, value in vars(header).items() if name not in hidden},
            "characters": len(texts[header.id]),
            **({} if secret else {"text": texts[header.id][: None if full else CHARACTERS_SHOWN]}),
        }
        for _, header in page.samples
    ]
    record = {
        "run": chosen.name,
        "problem": place.position,
        "problem_id": place.problem_id,
        "samples": samples,
        "after": page.after and page.after[1],
    }
    if not secret:
        named = [f"{id}: {images[id]}" for id in place.images]
        record |= {"question": place.text, "answer": place.answer, "images": named}
    gated = "a gated benchmark: questions, gold answers and responses are not shown"
    terminal.show(record, None if samples else "no such samples", gated if secret else None)
