"""Every query of the pages at random places."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.pages.places import World
from evaluator.evals.overview import runs_overview
from evaluator.evals.results import load_result
from evaluator.evals.samples import SampleFilters, browse_samples, page_samples, read_texts
from evaluator.reports.contrast import contrast_runs, contrast_texts
from rephraser.reviews import audit as audits
from rephraser.reviews import queue as reviews
from rephraser.reviews.agreement import run_agreement
from rephraser.reviews.rates import growing_false_accepts
from rephraser.reviews.status import standing_counts
from rephraser.sets import changes as set_changes
from rephraser.sets.counts import accept_rates, count_proposals
from rephraser.sets.store import list_sets, load_entries, member_ids
from rephraser.sets.wordings import wordings
from rephraser.tables import ReviewRow
from rephraser.views import questions as search
from rephraser.views.candidates import CandidateFilters, page_candidates, read_cards
from rephraser.views.evidence import page_answers
from service.questions import browsing as questions
from service.questions.browsing import count_labels
from service.questions.store import question_texts
from service.runs import progress
from trainer_adapter.record import series
from trainer_adapter.record.groups import KINDS, GroupFilters
from trainer_adapter.record.listing import RolloutFilters, list_rollouts
from trainer_adapter.record.reading import Record, place_of
from trainer_adapter.record.runs import list_train_runs

Ask = Callable[[Session, random.Random], object]
PAGE = 25


def page_queries(world: World) -> dict[str, Ask]:
    """Return every query by page and name."""
    return {
        **_overview(world),
        **_questions(world),
        **_reviews(world),
        **_sets(world),
        **_rollouts(world),
        **_curves(world),
    }


def _overview(world: World) -> dict[str, Ask]:
    def running(session: Session, chance: random.Random) -> None:
        (found,) = progress.progress_of(session, [world.neighbor_run])
        minutes = progress.last_minutes(session, world.neighbor_run.id)
        progress.pace(minutes, found, datetime.now(UTC))
        progress.frequent_errors(session, world.neighbor_run.id)

    return {
        "overview: counts": lambda s, c: (
            count_labels(s),
            standing_counts(s),
            progress.count_runs(s),
            progress.spent_in_all(s),
        ),
        "overview: sets": lambda s, c: (list_sets(s), questions.list_sets(s)),
        "overview: runs": lambda s, c: progress.page_runs(s),
        "overview: runs, of a kind, next page": lambda s, c: progress.page_runs(
            s, kind="eval", after=world.neighbor_run.id
        ),
        "overview: evaluations": lambda s, c: runs_overview(s),
        "overview: trainings": lambda s, c: list_train_runs(s),
        "overview: a run's pace and errors": running,
    }


def _questions(world: World) -> dict[str, Ask]:
    def page(*, first: bool = False, **filters: Any) -> Ask:
        def ask(session: Session, chance: random.Random) -> object:
            after = None if first else chance.choice(world.question_ids)
            return search.page_questions(session, search.QuestionFilters(**filters), after=after, limit=PAGE)

        return ask

    def count(**filters: Any) -> Ask:
        return lambda s, c: search.count_questions(s, search.QuestionFilters(**filters))

    def answers(session: Session, chance: random.Random) -> object:
        return page_answers(session, chance.choice(world.answered), world.solver)

    run, model = world.neighbor_run.id, "openai/gpt-4-turbo"
    filtered: dict[str, dict[str, Any]] = {
        "page": {},
        "page, subject": {"subject": "Geometry"},
        "page, level": {"level": "Level 3"},
        "page, subject and level": {"subject": "Geometry", "level": "Level 3"},
        "page, rejected": {"status": "rejected"},
        "page, strategy": {"strategy": "format"},
        "page, model": {"model": model},
        "page, strategy, model, verdict": {"strategy": "format", "model": model, "status": "undecided"},
        "page, of a run": {"run_id": run},
        "page, all at once": {
            "status": "accepted",
            "strategy": "format",
            "model": model,
            "subject": "Algebra",
            "run_id": run,
        },
        "page, finding": {"finding": "number_missing"},
        "page, finding and strategy": {"finding": "number_missing", "strategy": "format"},
        "page, finding and accepted": {"finding": "number_missing", "status": "accepted"},
        "page, question set": {"question_set": "extra"},
        "page, neighbor set": {"neighbor_set": "math-ta@1"},
    }
    return {
        **{f"questions: {name}": page(**filters) for name, filters in filtered.items()},
        **{f"questions: first {name}": page(first=True, **filters) for name, filters in filtered.items()},
        "questions: search, frequent word": page(text="tangent"),
        "questions: search, nothing found": lambda s, c: search.page_questions(
            s, search.QuestionFilters(text="no such words")
        ),
        "questions: search, a formula": lambda s, c: search.page_questions(
            s, search.QuestionFilters(text=f"{c.randint(100, 999)}x +")
        ),
        "questions: search, two letters": lambda s, c: search.page_questions(
            s, search.QuestionFilters(text="3x")
        ),
        "questions: search and rejected": page(text="tangent", status="rejected", subject="Algebra"),
        "questions: count, all": count(),
        "questions: count, subject": count(subject="Algebra"),
        "questions: count, accepted": count(status="accepted"),
        "questions: count, search": count(text="tangent"),
        "questions: findings of a run": lambda s, c: search.finding_counts(s, run_id=world.neighbor_run.id),
        "question: its neighbors": lambda s, c: page_candidates(
            s, CandidateFilters(question_id=c.choice(world.question_ids))
        ),
        "question: its accepted neighbors": lambda s, c: page_candidates(
            s, CandidateFilters(question_id=c.choice(world.question_ids), status="accepted")
        ),
        "question: members of a set": lambda s, c: member_ids(
            s, world.set_ids[0], c.choice(world.question_ids)
        ),
        "question: a candidate": lambda s, c: read_cards(s, c.choice(world.candidate_ids)),
        "question: answers with texts": answers,
    }


def _reviews(world: World) -> dict[str, Ask]:
    run = world.neighbor_run.id

    def rates(session: Session, chance: random.Random) -> object:
        audit = audits.get_audit(session, world.audit_id)
        return audits.audit_rates(session, audit)

    def growth(session: Session, chance: random.Random) -> object:
        audit = audits.get_audit(session, world.audit_id)
        rows = session.scalars(select(ReviewRow).where(ReviewRow.audit_id == audit.id))
        return growing_false_accepts(audit.members, [_review(row) for row in rows])

    return {
        "review: queue of a run, blind": lambda s, c: reviews.open_queue(s, run, "ada", seed=c.randrange(99)),
        "review: queue, undecided": lambda s, c: reviews.open_queue(s, run, "ada", statuses=("undecided",)),
        "review: queue, undecided, strategy": lambda s, c: reviews.open_queue(
            s, run, "ada", statuses=("undecided",), strategy="format"
        ),
        "review: audits of a run": lambda s, c: audits.list_audits(s, run),
        "review: 25 items": lambda s, c: reviews.read_items(s, c.sample(world.candidate_ids, PAGE)),
        "review: progress": lambda s, c: (
            reviews.run_progress(s, run, "ada"),
            reviews.audit_progress(s, world.audit_id, 400, "ada"),
        ),
        "review: agreement": lambda s, c: run_agreement(s, run),
        "review: error rates": rates,
        "review: rates as they grow": growth,
    }


def _review(row: ReviewRow) -> Any:
    from rephraser.reviews.store import as_review

    return as_review(row)


def _sets(world: World) -> dict[str, Ask]:
    first, second = world.set_ids[:2]

    def changes(kind: Any) -> Ask:
        return lambda s, c: set_changes.page_changes(
            s, first, second, kind, after=(c.choice(world.question_ids), 0), limit=PAGE
        )

    return {
        "sets: page of members": lambda s, c: load_entries(
            s, second, first=c.randrange(world.set_positions), limit=PAGE
        ),
        "sets: what changed, counted": lambda s, c: set_changes.count_changes(s, first, second),
        "sets: added, page": changes("added"),
        "sets: removed, page": changes("removed"),
        "sets: changed, page": changes("changed"),
        "sets: rates of a run": lambda s, c: accept_rates(count_proposals(s, [world.neighbor_run.id])),
        "sets: wordings of 300 questions": lambda s, c: wordings(s, second, seed=c.randrange(99)),
    }


def _rollouts(world: World) -> dict[str, Ask]:
    def record(chance: random.Random) -> Record:
        return chance.choice(list(world.trainings.values()))

    def page(**filters: Any) -> Ask:
        def ask(session: Session, chance: random.Random) -> None:
            after = (chance.randrange(1, world.steps + 1), chance.choice(world.trained))
            counts = record(chance).counts()
            found = counts.page_groups(GroupFilters(**filters), after=after, limit=PAGE)
            question_texts(session, [one.question_id for one in found])

        return ask

    def of_step(session: Session, chance: random.Random) -> object:
        kind = chance.choice(KINDS)
        wanted = GroupFilters(step=chance.randrange(1, world.steps + 1), kind=kind)
        return record(chance).counts().page_groups(wanted, limit=PAGE)

    def whole(session: Session, chance: random.Random) -> None:
        training, step = record(chance), chance.randrange(1, world.steps + 1)
        (one,) = training.counts().page_groups(GroupFilters(step=step), limit=1)
        found = training.joint_group(step, one.question_id)
        rows = [place_of(rollout.id)[1] for column in found.columns for rollout in column.rollouts]
        training.texts(training.headers(step), rows)

    def plain(session: Session, chance: random.Random) -> object:
        return list_rollouts(
            record(chance), RolloutFilters(step=chance.randrange(1, world.steps + 1)), limit=PAGE
        )

    names = [f"tagrpo/zero/{kind}/share" for kind in ("original", "neighbors", "joint")]
    names += [f"tagrpo/entropy/{part}" for part in ("mean", "original", "neighbors")]
    names += ["tagrpo/covariance/positive/top_1", "tagrpo/anchor/log_ratio/variant_1", "actor/grad_norm"]
    return {
        "rollouts: steps of a run": lambda s, c: record(c).counts().page_steps(),
        "rollouts: groups of a step by kind": of_step,
        "rollouts: groups of a run": page(),
        "rollouts: all wrong in a run": page(kind="all wrong"),
        "rollouts: time-outs in a run": page(timeouts=True),
        "rollouts: time-outs of a step": page(timeouts=True, step=1),
        "rollouts: a joint group with texts": whole,
        "rollouts: one question over training": lambda s, c: (
            record(c).counts().question_history(c.choice(world.trained))
        ),
        "rollouts: plain list of a step": plain,
        "signal: names of metrics": lambda s, c: [
            series.metric_names(one) for one in world.trainings.values()
        ],
        "signal: nine metrics of four runs": lambda s, c: [
            series.metric_points(one, name) for one in world.trainings.values() for name in names
        ],
    }


def _curves(world: World) -> dict[str, Ask]:
    def pair(chance: random.Random) -> tuple[str, str]:
        by_size: dict[int, list[str]] = {}
        for run in world.eval_runs:
            by_size.setdefault(len(world.problems[run.id]), []).append(run.id)
        first, second = chance.sample(chance.choice(list(by_size.values())), 2)
        return first, second

    def contrast(session: Session, chance: random.Random) -> None:
        found = contrast_runs(session, *pair(chance), chance.choice((1, 8, 64)))
        contrast_texts(session, found.page("all", limit=PAGE))

    def samples(session: Session, chance: random.Random) -> None:
        run = chance.choice(world.eval_runs).id
        problem = chance.choice(world.problems[run])
        found = page_samples(
            session,
            run,
            problem,
            after_ordinal=chance.randrange(100),
            limit=PAGE,
            grader_id=world.graders[run],
        )
        read_texts(session, [one.id for one in found])

    def wrong(session: Session, chance: random.Random) -> object:
        run = chance.choice(world.eval_runs).id
        position = chance.randrange(len(world.problems[run]))
        filters = SampleFilters(value="wrong", position=position)
        return browse_samples(session, run, filters, after=(position, 1), limit=PAGE)

    return {
        "curves: counts of one run": lambda s, c: load_result(s, c.choice(world.eval_runs)),
        "curves: counts of eight runs": lambda s, c: [load_result(s, run) for run in world.eval_runs],
        "curves: who solves what at k": contrast,
        "curves: samples with texts": samples,
        "curves: wrong samples of a problem": wrong,
        "curves: cost axis": lambda s, c: c.choice(list(world.trainings.values())).counts().drawn_by_step(),
    }
