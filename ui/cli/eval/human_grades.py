"""`tagrpo eval human-grade` and `human-grades`: a person's grade over the grader's, and all there are."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from service.errors import InputError, NotFoundError
from ui.cli import output
from ui.cli.eval.browsing import find_problem
from ui.cli.eval.settings import EvalRun, ProblemPlace
from ui.cli.files import RowsFile
from ui.cli.output import Terminal
from ui.cli.settings import Db, Reviewer, reviewer_name

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.store import Run


def human_grade(
    run: EvalRun,
    problem: ProblemPlace,
    sample: Annotated[int, Argument(help="Number of the response, as shown by `eval samples`.", min=0)],
    correct: Annotated[bool, Option(help="Grade the response as correct.")] = False,
    wrong: Annotated[bool, Option(help="Grade the response as wrong.")] = False,
    withdraw: Annotated[bool, Option(help="Withdraw your newest grade of this response.")] = False,
    comment: Annotated[str, Option(help="Reason for the grade.", show_default=False)] = "",
    reviewer: Reviewer = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Grade a response yourself. Your grade overrides the grader's, and the change of the score is shown.

    Human grades are stored permanently and apply to every grader version. The newest grade of a response
    counts until it is withdrawn. Reports state how many count; --grades grader leaves them out.

    Example: tagrpo eval human-grade Qwen3-4B.amc23 7 3 --correct --comment "1/2, as the gold"
    """
    from evaluator.evals.human import add_human_grade, withdraw_human_grade
    from evaluator.evals.overview import shown_grader
    from evaluator.evals.problems import run_problems
    from evaluator.evals.runs import find_eval_run
    from evaluator.evals.samples import page_samples

    if correct + wrong + withdraw != 1:
        raise typer.BadParameter("give one of --correct, --wrong and --withdraw")
    if withdraw and comment:
        raise typer.BadParameter("--withdraw takes no --comment")
    who = reviewer_name(reviewer)
    with db.writing() as session:
        chosen = find_eval_run(session, run)
        place = find_problem(chosen, run_problems(session, chosen.id), problem)
        header = next(
            iter(page_samples(session, chosen.id, place.id, after_ordinal=sample - 1, limit=1)), None
        )
        if header is None or header.ordinal != sample:
            raise NotFoundError(
                f"problem {place.position} of run {chosen.name} has no response {sample}. List them with "
                f"`tagrpo eval samples {chosen.name} {place.position}`."
            )
        if withdraw:
            withdrawn = withdraw_human_grade(session, header.id, reviewer=who)
            if withdrawn is None:
                raise NotFoundError(f"{who} has no grade of this response to withdraw.")
            words = f"{withdrawn} by {who} withdrawn"
        else:
            grader = shown_grader(session, chosen.id)
            value = "correct" if correct else "wrong"
            new = add_human_grade(
                session,
                header.id,
                "correct" if correct else "wrong",
                reviewer=who,
                comment=comment,
                grader_id=None if grader is None else grader.id,
            )
            words = f"{value} by {who}" + ("" if new else "; this was already recorded")
        record = {
            "run": chosen.name,
            "problem": place.position,
            "sample": sample,
            "grader": header.value,
            **_effect(session, chosen),
        }
    record["recorded"] = words
    terminal.emit(record, _print_effect, record)


def human_grades(
    run: EvalRun,
    *,
    file: RowsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the human grades of a run and their effect on its score.

    For gated benchmarks the comments are left out, since they may quote the problem.

    Example: tagrpo eval human-grades Qwen3-4B.amc23 --out grades.jsonl
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals.human import list_human_grades
    from evaluator.evals.overview import shown_grader
    from evaluator.evals.runs import find_eval_run

    file.check()
    with db.reading() as session:
        chosen = find_eval_run(session, run)
        grader = shown_grader(session, chosen.id)
        grades = list_human_grades(session, chosen.id, None if grader is None else grader.id)
        effect = _effect(session, chosen)
    rows = [asdict(grade) for grade in grades]
    if is_secret(chosen.spec["problems"]):
        rows = [{**row, "comment": None} for row in rows]
    file.write(rows)
    record = {"run": chosen.name, "grades": rows, **effect}
    terminal.emit(record, _print_list, record)


def _effect(session: "Session", run: "Run") -> dict[str, Any]:
    """Return what people's grades change; `why` says why nothing can be told."""
    from evaluator.evals.results import human_effect, load_result

    try:
        result = load_result(session, run)
        effects = [asdict(effect) for effect in human_effect(session, run)]
    except InputError as error:
        return {"human_grades": None, "overruled": None, "pass_at_k": None, "why": str(error)}
    return {
        "human_grades": result.human,
        "overruled": result.overruled,
        "pass_at_k": effects,
        "why": None,
    }


def _print_list(record: dict[str, Any]) -> None:
    fields = ("value", "reviewer", "comment", "created_at", "withdrawn_at")
    output.table(
        ["problem", "sample", "grader", "person", "by", "comment", "when", "withdrawn"],
        [
            [row["position"], row["ordinal"], row["grader"] or "not graded", *(row[name] for name in fields)]
            for row in record["grades"]
        ],
        empty=f"run {record['run']}: no human grades",
    )
    if record["grades"]:
        output.say()
        _print_score(record)


def _print_effect(record: dict[str, Any]) -> None:
    place = f"{record['run']}, problem {record['problem']}, response {record['sample']}"
    output.say(f"{place}: {record['recorded']}; the grader says {record['grader'] or 'nothing yet'}")
    _print_score(record)


def _print_score(record: dict[str, Any]) -> None:
    from evaluator.reports.documents.document import hundredths

    if record["pass_at_k"] is None:
        output.say(f"no score yet: {record['why']}")
        return
    count = output.plural(record["human_grades"], "human grade")
    output.say(f"{count} counted, {record['overruled']:,} different from the grader's")
    output.table(
        ["k", "pass@k by the grader", "with human grades"],
        [[row["k"], hundredths(row["grader"]), hundredths(row["human"])] for row in record["pass_at_k"]],
    )
