"""`tagrpo eval samples`: the responses behind a run's figures."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from service.errors import InputError, NotFoundError
from ui.cli import output
from ui.cli.eval.settings import EvalRun, ProblemPlace
from ui.cli.output import Terminal
from ui.cli.settings import Db

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from evaluator.evals.problems import RunProblem
    from service.runs.store import Run


def samples(
    run: EvalRun,
    problem: ProblemPlace,
    grade: Annotated[
        str | None, Option(help="Only correct, wrong, unknown, ungraded or human ones (graded by a person).")
    ] = None,
    text: Annotated[str | None, Option(help="Only those that hold this text.")] = None,
    after: Annotated[int, Option(help="Continue after this sample.", show_default=False)] = -1,
    limit: Annotated[int, Option(min=1, help="Samples per page.")] = 5,
    full: Annotated[bool, Option(help="Show whole texts, not only their beginnings.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a problem and the responses to it, a page at a time; of gated benchmarks only ids and grades.

    Example: tagrpo eval samples Qwen3-4B.amc23 0 --grade wrong
    """
    from evaluator.evals.runs import find_eval_run

    with db.reading() as session:
        chosen = find_eval_run(session, run)
        page = read_samples(
            session, chosen, problem, after=after, limit=limit, grade=grade, text=text, full=full
        )
    terminal.emit(page, print_samples, page)


def read_samples(
    session: "Session",
    run: "Run",
    problem: str,
    *,
    after: int,
    limit: int,
    grade: str | None,
    text: str | None,
    full: bool,
) -> dict[str, Any]:
    """Return a problem and a page of its samples as JSON; texts are cut unless `full`.

    `after` is the sample to go on behind, None at the end.

    Of a gated benchmark only ids, grades and token counts are there.

    Raises:
        NotFoundError: the run has no such problem.
        InputError: no such grade, or a search in a gated benchmark.
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals.problems import run_problems
    from evaluator.evals.samples import SampleFilters, browse_samples, read_texts
    from service.questions.images import load_headers

    secret = is_secret(run.spec["problems"])
    if secret and text:
        raise InputError(f"run {run.name} is of a gated benchmark, whose texts are not searched.")
    chosen = find_problem(run, run_problems(session, run.id), problem)
    filters = SampleFilters(value=grade, position=chosen.position, text=text)
    page = browse_samples(session, run.id, filters, after=(chosen.position, after), limit=limit)
    texts = read_texts(session, [header.id for _, header in page.samples])
    samples = []
    for _, header in page.samples:
        row = {
            name: value
            for name, value in asdict(header).items()
            if name not in ("id", "run_problem_id") and not (secret and name == "extracted")
        }
        response = texts[header.id]
        if not secret:
            row["text"] = response if full else response[: output.CHARACTERS_SHOWN]
        row["characters"] = len(response)
        samples.append(row)
    record: dict[str, Any] = {
        "run": run.name,
        "problem": chosen.position,
        "problem_id": chosen.problem_id,
        "samples": samples,
        "after": page.after and page.after[1],
    }
    if not secret:
        headers = load_headers(session, chosen.images)
        named = [f"{id}: {headers[id]}" for id in chosen.images]
        record |= {"question": chosen.text, "answer": chosen.answer, "images": named}
    return record


def print_samples(record: dict[str, Any]) -> None:
    """Print what `read_samples` returned."""
    from service.questions.images import name_images

    output.heading(f"{record['run']}, problem {record['problem']} ({record['problem_id']})")
    if "question" in record:
        output.say(name_images(record["question"], record["images"]))
        output.say(f"gold: {record['answer']}")
    else:
        output.say("a gated benchmark: its questions, golds and responses are not shown")
    for sample in record["samples"]:
        output.say()
        by_human = sample["human"] and f"{sample['human']} by a person"
        parts = [by_human, sample["value"] or "not graded", sample["reason"], sample["stop_reason"]]
        if sample["completion_tokens"] is not None:
            parts.append(f"{sample['completion_tokens']:,} tokens")
        if sample.get("extracted") is not None:
            parts.append(f"answer read: {sample['extracted']}")
        if sample["source"] is not None:
            parts.append(f"found in: {sample['source']}")
        output.heading(f"sample {sample['ordinal']}: {', '.join(part for part in parts if part)}")
        if "text" in sample:
            output.say_text(sample["text"], sample["characters"], full=True)
    if not record["samples"]:
        output.say("no such samples")
    output.say_next(record["after"])


def find_problem(run: "Run", problems: "list[RunProblem]", reference: str) -> "RunProblem":
    """Return the problem of a run that a place, from 0, or the beginning of an id names."""
    if reference.isdecimal() and int(reference) < len(problems):
        return problems[int(reference)]
    matches = [problem for problem in problems if problem.problem_id.startswith(reference)]
    if len(matches) != 1:
        raise NotFoundError(
            f"run {run.name} has no problem {reference!r}: give its id or its place, 0 to "
            f"{len(problems) - 1:,}."
        )
    return matches[0]
