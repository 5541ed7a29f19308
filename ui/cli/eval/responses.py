"""`tagrpo eval show` and `label`: the responses behind a run's figures, and a person's grades of them."""

from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from service.errors import InputError, NotFoundError
from ui.cli.output import terminal
from ui.cli.settings import EvalRun, Limit, Reviewer, db, reviewer_name

CHARACTERS_SHOWN = 2_000


def show(
    run: EvalRun,
    problem: str,
    grade: str | None = None,
    text: str | None = None,
    after: Annotated[int, Option(show_default=False)] = -1,
    limit: Limit = 5,
    full: bool = False,
) -> None:
    """Show a problem and its responses, page by page. Texts of gated benchmarks are not shown.

    Example: tagrpo eval show Qwen3-4B.amc23 0 --grade wrong

    Args:
        problem: Position of the problem in the run (from 0), or its id.
        grade: Only correct, wrong, unknown or ungraded samples, or human: those graded by a person.
        text: Only samples that contain this text.
        after: Continue after this sample.
        full: Show whole texts, not only their beginnings.
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals import problems, runs, samples
    from service.questions.images import load_images

    with db.reading() as session:
        chosen = runs.find_eval_run(session, run)
        secret = is_secret(chosen.spec["problems"])
        if secret and text:
            raise InputError(f"run {chosen.name} is on a gated benchmark; its texts cannot be searched.")
        place = problems.find_problem(session, chosen.id, problem)
        filters = samples.SampleFilters(value=grade, position=place.position, text=text)
        since = (place.position, after)
        page, behind = samples.browse_samples(session, chosen.id, filters, after=since, limit=limit)
        texts = samples.read_texts(session, [header.id for header in page])
        images = load_images(session, place.images)
    record = {"run": chosen.name, "problem": place.position, "problem_id": place.problem_id}
    records: list[dict[str, object]] = []
    for header in page:
        sample = {**vars(header), "characters": len(texts[header.id])}
        sample |= {"text": texts[header.id][: None if full else CHARACTERS_SHOWN]}
        hidden = {"id", "run_problem_id", "position", *(("extracted", "text") if secret else ())}
        records.append({name: value for name, value in sample.items() if name not in hidden})
    record |= {"samples": records, "after": behind and behind[1]}
    if not secret:
        named = [f"{id}: {images[id]}" for id in place.images]
        record |= {"question": place.text, "answer": place.answer, "images": named}
    gated = "a gated benchmark: questions, gold answers and responses are not shown"
    terminal.show(record, None if records else "no such samples", gated if secret else None)


def label(
    run: EvalRun,
    problem: Annotated[str | None, Argument()] = None,
    sample: Annotated[int | None, Argument(min=0)] = None,
    correct: bool = False,
    wrong: bool = False,
    withdraw: bool = False,
    comment: Annotated[str, Option(show_default=False)] = "",
    reviewer: Reviewer = None,
) -> None:
    """Grade a response yourself; or list the human grades of a run and their effect.

    Your grade overrides the grader's until you withdraw it. Reports state how many human grades count;
    `eval report --grades grader` leaves them out.

    Example: tagrpo eval label Qwen3-4B.amc23 7 3 --correct --comment "1/2, as the gold"

    Args:
        problem: Position of the problem in the run (from 0), or its id.
        sample: Number of the response, as shown by `eval show`.
        correct: Grade the response as correct.
        wrong: Grade the response as wrong.
        withdraw: Withdraw your newest grade of this response.
        comment: Reason for the grade.
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals import human, problems, results, runs, samples
    from ui.cli.records import record_parts

    if problem is None:
        if correct or wrong or withdraw:
            raise BadParameter("name the problem and the response to grade")
        with db.reading() as session:
            chosen = runs.find_eval_run(session, run)
            rows = human.list_human_grades(session, chosen.id)
            effect = results.human_record(session, chosen)
        if is_secret(chosen.spec["problems"]):
            rows = [{**row, "comment": None} for row in rows]
        columns = (
            "problem=position sample=ordinal grader person=value by=reviewer comment created_at withdrawn_at"
        )
        notes = ["", *record_parts(effect)] if rows else []
        empty = f"run {chosen.name}: no human grades"
        terminal.rows("grades", rows, columns, *notes, empty=empty, run=chosen.name, **effect)
        return
    if correct + wrong + withdraw != 1 or sample is None:
        raise BadParameter("give a problem, a response and one of --correct, --wrong and --withdraw")
    if withdraw and comment:
        raise BadParameter("--withdraw takes no --comment")
    who = reviewer_name(reviewer)
    with db.writing() as session:
        chosen = runs.find_eval_run(session, run)
        place = problems.find_problem(session, chosen.id, problem)
        filters, after = samples.SampleFilters(position=place.position), (place.position, sample - 1)
        page, _ = samples.browse_samples(session, chosen.id, filters, after=after, limit=1)
        if not page or page[0].ordinal != sample:
            raise NotFoundError(
                f"problem {place.position} of run {chosen.name} has no response {sample}. List them with "
                f"`tagrpo eval show {chosen.name} {place.position}`."
            )
        [header] = page
        if withdraw:
            withdrawn = human.withdraw_human_grade(session, header.id, reviewer=who)
            if withdrawn is None:
                raise NotFoundError(f"{who} has no grade of this response to withdraw.")
            recorded = f"{withdrawn} by {who} withdrawn"
        else:
            value: Literal["correct", "wrong"] = "correct" if correct else "wrong"
            new = human.add_human_grade(session, header.id, value, reviewer=who, comment=comment)
            recorded = f"{value} by {who}" + ("" if new else "; this was already recorded")
        effect = results.human_record(session, chosen)
    graded = {"problem": place.position, "sample": sample, "grader": header.value, "recorded": recorded}
    terminal.show({"run": chosen.name, **graded, **effect})
