"""Carry out a rephrase run: open its tasks to this process and work on them."""

from collections.abc import Callable
from dataclasses import dataclass

from evaluator.grading import Grader
from rephraser.proposing.file import FileCandidates, read_candidates
from rephraser.proposing.rules import propose_by_rules
from rephraser.run.rephrase import Rephrasing, Source
from rephraser.run.spec import RunSpec, ask_seed
from service.asks.ask import Models
from service.asks.store import Store, reopen_failed
from service.asks.work import Outcome, work_on
from service.database import Database
from service.errors import InputError
from service.questions import Question
from service.runs.store import Run, finish_run
from service.telling import TellStage


@dataclass(frozen=True)
class CandidateFile:
    """A file or Hub data set of candidates, and its columns if they have other names than usual."""

    source: str
    question_column: str | None = None
    candidate_column: str | None = None

    def read(self, questions: list[Question], limit: int | None = None) -> FileCandidates:
        """Return its candidates for these questions; see `read_candidates`."""
        return read_candidates(
            self.source,
            questions,
            limit=limit,
            question_column=self.question_column,
            candidate_column=self.candidate_column,
        )


def find_source(spec: RunSpec, candidates: FileCandidates | None) -> Source | None:
    """Return what gives the candidates of a run that asks no proposer; None for a run that asks one.

    Raises:
        InputError: a file is missing, is not for this run, or has changed since the run was made.
    """
    if spec.proposer != "file":
        if candidates is not None:
            raise InputError(
                f"--candidates belongs to runs that propose from a file; this one asks {spec.model}."
            )
        return _by_rules(spec) if spec.proposer == "rules" else None
    if candidates is None:
        raise InputError("this run proposes candidates from a file: name it with --candidates FILE.")
    if candidates.content != spec.source:
        raise InputError(
            f"{candidates.source}: its candidates are not those that the run was made with; restore the "
            "file, or start a run of another name."
        )
    by_question = candidates.by_question
    return lambda question_id, _, count: by_question.get(question_id, ())[:count]


def _by_rules(spec: RunSpec) -> Source:
    def propose(question_id: str, text: str, count: int) -> list[str]:
        seed = ask_seed(spec.seed, question_id) or 0
        return [candidate.text for candidate in propose_by_rules(text, count, seed=seed)]

    return propose


async def rephrase_run(
    db: Database,
    run: Run,
    models: Models,
    report: TellStage,
    *,
    source: Source | None = None,
    count_tokens: Callable[[str], int] | None = None,
    stop_below: float | None = None,
    retry_final: bool = False,
    grader_workers: int | None = None,
) -> Outcome:
    """Work on a run until it is done, stopped by a cap, or only failed requests are left.

    Args:
        db: The database.
        run: The run.
        models: Its proposer, solvers and the model that is asked about premises, open.
        report: Told how many questions are done.
        source: See `find_source`.
        count_tokens: Counts the tokens of candidates.
        stop_below: See `Rephrasing`.
        retry_final: Send requests again that failed for good.
        grader_workers: Processes that compare answers; by default one per core.
    """
    with db.write() as session:
        if retry_final:
            reopen_failed(session, run.id)
        finish_run(session, run.id, finished=False)
    store = Store(db)
    with Grader(workers=grader_workers) as grader:
        rephrasing = Rephrasing(
            store,
            run.id,
            RunSpec.from_json(run.spec),
            grader,
            source=source,
            count_tokens=count_tokens,
            stop_below=stop_below,
        )
        try:
            outcome = await work_on(
                store,
                run.id,
                rephrasing.rephrase,
                models,
                lambda progress: report("questions", progress.done, progress.total, progress.words),
            )
        finally:
            rephrasing.close()
            store.close()
    with db.write() as session:
        finish_run(session, run.id, finished=not outcome.open)
    return outcome
