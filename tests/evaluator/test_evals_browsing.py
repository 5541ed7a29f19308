"""Looking at eval runs: their numbers, samples page by page, texts."""

import pytest
from eval_runs import add_eval_run, make_problems, regrade
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runs import open_empty

from evaluator.evals.overview import runs_overview, shown_grader
from evaluator.evals.problems import PlacedProblem, run_problems
from evaluator.evals.samples import (
    UNGRADED,
    SampleFilters,
    browse_samples,
    count_samples,
    page_samples,
    read_texts,
)
from evaluator.grading import GRADER_VERSION
from evaluator.grading.versions import find_grader
from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.store import Run

COUNTS = [(8, 2, 1), (8, 8, 0), (8, 0, 0), (4, 2, 0), (8, 2, 0)]


@pytest.fixture
def run(db: Database) -> Run:
    return add_eval_run(db, "a", COUNTS, truncated=2)


def problem_ids(db: Database, run: Run) -> list[int]:
    with db.read() as session:
        return [problem.id for problem in run_problems(session, run.id)]


def test_samples_come_in_order_page_by_page_with_their_grades(db: Database, run: Run) -> None:
    first = problem_ids(db, run)[0]
    with db.read() as session:
        one = page_samples(session, run.id, first, limit=5)
        two = page_samples(session, run.id, first, after_ordinal=one[-1].ordinal, limit=5)
        assert page_samples(session, run.id, first, after_ordinal=7) == []
    assert [sample.ordinal for sample in one + two] == list(range(8))
    assert [sample.value for sample in one + two] == ["correct"] * 2 + ["unknown"] + ["wrong"] * 5
    assert (one[0].reason, one[0].extracted, one[0].source) == ("exact", "1", "box")
    assert (one[0].prompt_tokens, one[0].completion_tokens, one[0].seed) == (20, 100, 0)


def test_samples_are_found_by_grade(db: Database, run: Run) -> None:
    with db.read() as session:

        def ordinals(**which: str) -> list[int]:
            page = browse_samples(session, run.id, SampleFilters(position=0, **which))  # type: ignore[arg-type]
            return [sample.ordinal for _, sample in page.samples]

        assert ordinals(value="correct") == [0, 1]
        assert ordinals(value="unknown") == [2]
        assert ordinals(value="wrong") == [3, 4, 5, 6, 7]
        assert ordinals(value=UNGRADED) == []
        with pytest.raises(
            InputError,
            match=r"'right' is not a grade. Choose from correct, wrong, unknown, ungraded or human",
        ):
            ordinals(value="right")


def test_samples_without_a_grade_show_none_and_can_be_asked_for(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 2, 0)], graded=[3])
    (problem,) = problem_ids(db, run)
    with db.read() as session:
        samples = page_samples(session, run.id, problem)
        page = browse_samples(session, run.id, SampleFilters(value=UNGRADED))
        ungraded = [sample for _, sample in page.samples]
    assert [sample.value for sample in samples] == ["correct", "correct", "wrong", None]
    assert ungraded == samples[3:]
    assert (ungraded[0].reason, ungraded[0].extracted, ungraded[0].source) == (None, None, None)


def test_a_problem_of_another_run_is_refused(db: Database, run: Run) -> None:
    other = problem_ids(db, add_eval_run(db, "b", [(2, 1, 0)]))[0]
    with db.read() as session, pytest.raises(NotFoundError, match=f"problem {other} is not in the run"):
        page_samples(session, run.id, other)


def test_texts_are_read_by_id(db: Database) -> None:
    run = add_eval_run(
        db, "a", [(600, 1, 0)], texts=lambda place, ordinal, value: f"{ordinal} {value} \ud800"
    )
    (problem,) = problem_ids(db, run)
    with db.read() as session:
        samples = page_samples(session, run.id, problem, limit=None)
        texts = read_texts(session, [sample.id for sample in samples])
        assert read_texts(session, []) == {}
        with pytest.raises(NotFoundError, match="sample 999999 is not in the database"):
            read_texts(session, [samples[0].id, 999_999])
    assert [texts[sample.id] for sample in samples[:2]] == ["0 correct \ud800", "1 wrong \ud800"]
    assert len(texts) == 600


def test_grades_shown_are_this_versions_then_the_newest_complete_ones(db: Database, run: Run) -> None:
    with db.read() as session:
        shown = shown_grader(session, run.id)
        assert shown is not None
        assert (shown.version, shown.complete) == (GRADER_VERSION, True)
    regrade(db, run, [(n, 0, 0) for n, _, _ in COUNTS], "newer")
    first = problem_ids(db, run)[0]
    with db.read() as session:
        assert shown_grader(session, run.id) == shown
        newer = find_grader(session, "newer")
        assert page_samples(session, run.id, first)[0].value == "correct"
        assert page_samples(session, run.id, first, grader_id=newer)[0].value == "wrong"


def test_a_complete_older_version_is_shown_before_a_newer_partial_one(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 4, 0)], grader_version="old")
    other = add_eval_run(db, "b", [(4, 2, 0)], graded=[2], grader_version="old")
    regrade(db, run, [(1, 0, 0)], "new")
    regrade(db, other, [(1, 0, 0)], "new")
    with db.read() as session:
        whole, partial = shown_grader(session, run.id), shown_grader(session, other.id)
    assert whole is not None
    assert partial is not None
    assert (whole.version, whole.complete) == ("old", True)
    assert (partial.version, partial.complete) == ("new", False)


def test_nothing_graded_shows_no_grader(db: Database) -> None:
    run = add_eval_run(db, "a", [(2, 0, 0)], graded=[0])
    with db.read() as session:
        assert shown_grader(session, run.id) is None
        (overview,) = runs_overview(session)
    assert (overview.grader, overview.mean, overview.graded, overview.samples) == (None, None, 0, 2)


def test_a_run_counts_questions_apart_from_their_neighbors(db: Database) -> None:
    problems = make_problems(5)
    placed = [PlacedProblem(problem, f"q_{n // 3}", n % 3) for n, problem in enumerate(problems)]
    add_eval_run(db, "a", [(4, n % 3, 0) for n in range(5)], problems=placed)
    with db.read() as session:
        (overview,) = runs_overview(session)
    assert (overview.problems, overview.groups) == (5, 2)


def test_runs_come_with_their_numbers(db: Database, run: Run) -> None:
    add_eval_run(db, "half", [(4, 4, 0), (4, 0, 0)], graded=[4, 0])
    with db.read() as session:
        whole, half = sorted(runs_overview(session), key=lambda one: one.run.name)
    assert (whole.run.name, whole.problems, whole.groups, whole.samples) == ("a", 5, 5, 36)
    assert (whole.fewest, whole.most, whole.truncated) == (4, 8, 10)
    assert (whole.correct, whole.wrong, whole.unknown, whole.graded) == (14, 21, 1, 36)
    assert whole.mean == pytest.approx((2 / 8 + 1 + 0 + 2 / 4 + 2 / 8) / 5)
    assert half.mean is None
    assert half.grader is not None
    assert not half.grader.complete


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)).map(
            lambda c: (c[0] + c[1] + c[2], c[0], c[1])
        ),
        min_size=1,
        max_size=5,
    ),
    st.data(),
)
def test_counts_and_pages_agree(tmp_path_factory: pytest.TempPathFactory, counts, data) -> None:  # type: ignore[no-untyped-def]
    cut = [data.draw(st.integers(0, n)) for n, _, _ in counts]
    graded = [data.draw(st.integers(0, n)) for n, _, _ in counts]
    with open_empty(tmp_path_factory.mktemp("p") / "t.db") as db:
        run = add_eval_run(db, "a", counts, truncated=cut, graded=graded)
        with db.read() as session:
            grader = find_grader(session, GRADER_VERSION)
            found = count_samples(session, run.id, grader)
            for one, problem in zip(found, run_problems(session, run.id), strict=True):
                samples = page_samples(session, run.id, problem.id, limit=None)
                values = [sample.value for sample in samples]
                assert (one.run_problem_id, one.samples) == (problem.id, len(samples))
                assert one.truncated == sum(sample.stop_reason == "length" for sample in samples)
                assert (one.correct, one.wrong, one.unknown) == tuple(
                    values.count(value) for value in ("correct", "wrong", "unknown")
                )
