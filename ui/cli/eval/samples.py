"""Responses of an eval run on the terminal: a page of one problem's samples, texts cut, gated ones hidden."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evaluator.benchmarks.catalogue import is_secret
from service.errors import NotFoundError
from ui.cli import output

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from evaluator.evals.problems import RunProblem
    from service.runs.store import Run

CHARACTERS_SHOWN = 2_000


def read_samples(
    session: "Session", run: "Run", problem: str, *, after: int, limit: int, grade: str | None, full: bool
) -> dict[str, Any]:
    """Return a problem and a page of its samples as JSON; texts are cut unless `full`.

    Of a gated benchmark only ids, grades and token counts are there.

    Raises:
        NotFoundError: the run has no such problem.
        InputError: no such grade.
    """
    from evaluator.evals.problems import run_problems
    from evaluator.evals.samples import page_samples, read_texts

    chosen = _find(run, run_problems(session, run.id), problem)
    headers = page_samples(session, run.id, chosen.id, after_ordinal=after, limit=limit, value=grade)
    texts = read_texts(session, [header.id for header in headers])
    secret = is_secret(run.spec["problems"])
    samples = []
    for header in headers:
        row = {
            name: value
            for name, value in asdict(header).items()
            if name not in ("id", "run_problem_id") and not (secret and name == "extracted")
        }
        text = texts[header.id]
        if not secret:
            row["text"] = text if full else text[:CHARACTERS_SHOWN]
        row["characters"] = len(text)
        samples.append(row)
    found: dict[str, Any] = {
        "run": run.name,
        "problem": chosen.position,
        "problem_id": chosen.problem_id,
        "samples": samples,
    }
    if not secret:
        found |= {"question": chosen.text, "answer": chosen.answer}
    return found


def print_samples(found: dict[str, Any]) -> None:
    """Print what `read_samples` returned."""
    output.heading(f"{found['run']}, problem {found['problem']} ({found['problem_id']})")
    if "question" in found:
        output.say(visible(found["question"]))
        output.say(f"gold: {visible(found['answer'])}")
    else:
        output.say("a gated benchmark: its questions, golds and responses are not shown")
    for sample in found["samples"]:
        output.say()
        parts = [sample["value"] or "not graded", sample["reason"], sample["stop_reason"]]
        if sample["completion_tokens"] is not None:
            parts.append(f"{sample['completion_tokens']:,} tokens")
        if sample.get("extracted") is not None:
            parts.append(f"answer read: {visible(sample['extracted'])}")
        if sample["source"] is not None:
            parts.append(f"found in: {sample['source']}")
        output.heading(f"sample {sample['ordinal']}: {', '.join(part for part in parts if part)}")
        if "text" in sample:
            text = visible(sample["text"])
            left = sample["characters"] - len(sample["text"])
            output.say(text + (f"\n[{left:,} characters more; --full shows them]" if left else ""))
    if found["samples"]:
        output.say()
        output.say(f"more: --after {found['samples'][-1]['ordinal']}")
    else:
        output.say("no such samples")


def visible(text: str) -> str:
    """Return text with control characters shown as codes: a terminal would obey a model's escapes."""
    return "".join(
        char if char in "\n\t" or not (ord(char) < 32 or 127 <= ord(char) < 160) else f"\\x{ord(char):02x}"
        for char in text
    )


def _find(run: "Run", problems: "list[RunProblem]", reference: str) -> "RunProblem":
    if reference.isdecimal() and int(reference) < len(problems):
        return problems[int(reference)]
    matches = [problem for problem in problems if problem.problem_id.startswith(reference)]
    if len(matches) != 1:
        raise NotFoundError(
            f"run {run.name} has no problem {reference!r}: give its id or its place, 0 to "
            f"{len(problems) - 1:,}."
        )
    return matches[0]
