"""Eval runs: one run per name and settings, grades by version, results, and the votes of samples."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from eval_runs import add_eval_run, make_eval_spec, make_problems, regrade
from hypothesis import given
from hypothesis import strategies as st
from runs import open_empty
from sqlalchemy import select, update

from evaluator.config import EvalConfig
from evaluator.evals import samples as stored
from evaluator.evals.counts import Block
from evaluator.evals.overview import choose_version, runs_overview
from evaluator.evals.problems import PlacedProblem, make_problem, run_problems
from evaluator.evals.results import GOLD, UNKNOWN, load_result, majority_values, make_votes, read_answers
from evaluator.evals.runs import find_eval_run, model_slug, open_eval_run
from evaluator.evals.samples import grade_run
from evaluator.evals.tables import GradeRow
from evaluator.grading import GRADER_VERSION, AnswerKind, Clustering, ClusterJob
from evaluator.passk import curve
from evaluator.presets import PromptConfig
from evaluator.signal.sources import load_runs
from service.asks.store import add_tasks
from service.asks.tables import FAILED_TASK, OPEN, TaskRow
from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.store import Run, check_name, open_run


def lose(db: Database, run: Run, position: int, first: int, count: int, *, final: bool = True) -> None:
    """Let a request for samples of a problem get no answer."""
    with db.write() as session:
        item = Block(run_problems(session, run.id)[position].id, first, count).item
        add_tasks(session, run.id, [item])
        state = FAILED_TASK if final else OPEN
        lost = update(TaskRow).where(TaskRow.item == item).values(state=state, error="time-out: none")
        session.execute(lost)


@pytest.mark.parametrize("final", [False, True])
def test_samples_that_were_asked_for_and_are_missing_are_unknown(db, final):
    run = add_eval_run(db, "a", [(8, 3, 1), (5, 5, 0), (8, 0, 0)])
    lose(db, run, 1, 5, 3, final=final)
    with db.read() as session:
        result = load_result(session, run)
        (line,) = runs_overview(session)
        answers = read_answers(session, run.id, result.grader_version)
    assert result.counts.n.tolist() == [8, 8, 8]
    assert result.counts.unknown.tolist() == [1, 3, 0]
    assert (result.samples, result.unknown, result.missing) == (21, 1, 3)
    point = curve(result.counts, [8])[8]  # as if the three were graded unknown
    assert (point.value, point.value_high) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert curve(result.counts, [1])[1].value_high == pytest.approx((4 / 8 + 8 / 8 + 0) / 3)
    assert line.to_json()["pass_at_1"] == curve(result.counts, [1])[1].value == pytest.approx(1 / 3)
    assert (line.missing, line.fewest) == (3, 5)
    assert [votes.total() for votes in answers.values()] == [8, 8, 8]


def test_grades_of_other_versions_serve_and_are_named(db):
    run = add_eval_run(db, "a", [(4, 3, 0)], grader_version="old 1")
    regrade(db, run, [(4, 2, 0)], "old 2")
    with db.read() as session:
        newest, asked = load_result(session, run), load_result(session, run, "old 1")
    assert (newest.grader_version, newest.counts.correct.tolist()) == ("old 2", [2])
    assert (asked.grader_version, asked.counts.correct.tolist()) == ("old 1", [3])
    regrade(db, run, [(4, 1, 0)], GRADER_VERSION)
    with db.read() as session:
        assert load_result(session, run).counts.correct.tolist() == [1]
        with pytest.raises(InputError, match="no grade by 'older'"):
            load_result(session, run, "older")


def test_runs_are_read_by_one_version_of_the_grader(db):
    first = add_eval_run(db, "a", [(4, 3, 0)], grader_version="old 1")
    second = add_eval_run(db, "b", [(4, 3, 0)])
    with db.read() as session, pytest.raises(InputError, match=r"a, b were graded by different versions"):
        choose_version(session, [first, second])
    regrade(db, second, [(4, 2, 0)], "old 1")
    with db.read() as session:
        assert choose_version(session, [first, second]) == "old 1"
        assert choose_version(session, [second]) == GRADER_VERSION


def same_number(jobs: Sequence[ClusterJob]) -> list[Clustering]:
    """Group answers by the number they spell; "?" cannot be read."""
    found = []
    for job in jobs:
        numbers = [None if answer in (None, "?") else float(str(answer)) for answer in job.answers]
        classes = list(dict.fromkeys(number for number in numbers if number is not None))
        places = tuple(None if number is None else classes.index(number) for number in numbers)
        found.append(Clustering(tuple(str(one) for one in classes), places, None, 0))
    return found


def counted(*problems: Sequence[Hashable | None]) -> tuple[Counter[Hashable | None], ...]:
    return tuple(map(Counter, problems))


def test_equal_wrong_answers_are_one_vote_however_they_are_spelled(tmp_path):
    with open_empty(tmp_path / "t.db") as db:
        run = add_eval_run(
            db, "a", [(6, 2, 0), (3, 0, 2)], answers=[["1", "1.0", "7", "7.0", "?", None], [None, None, "4"]]
        )
        with db.read() as session:
            votes = make_votes([read_answers(session, run.id, GRADER_VERSION)], same_number)
    seven = ("wrong", ("class", 0))
    assert tuple(votes.values()) == counted(
        (GOLD, GOLD, seven, seven, ("wrong", "?"), None), (UNKNOWN, UNKNOWN, ("wrong", "4"))
    )


def test_unknown_grades_bound_the_majority():
    votes = {"p": counted((GOLD, GOLD, UNKNOWN, ("wrong", "4"), ("wrong", "4")))[0]}
    low, high = majority_values(votes, 5)
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])
    low, high = majority_values(votes, 1)
    assert (low.tolist(), high.tolist()) == ([pytest.approx(2 / 5)], [pytest.approx(3 / 5)])


def test_tokens_come_from_receipts_where_samples_do_not_tell(db):
    run = add_eval_run(db, "a", [(4, 1, 0), (2, 0, 0)], tokens=lambda position, _: 40 if position else None)
    with db.read() as session:
        assert load_result(session, run).mean_tokens == pytest.approx((4 * 100 + 2 * 40) / 6)


def test_samples_without_a_grade_are_graded_by_kind(db, grader):
    problems = [
        make_problem("1 + 1?", "2", AnswerKind.INTEGER),
        make_problem("Which?", "B", AnswerKind.CHOICE),
        make_problem("How much?", "3.00", AnswerKind.TOLERANCE, "1e-1"),
    ]
    said = {"1 + 1?": "\\boxed{02}", "Which?": "The answer is (B).", "How much?": "\\boxed{3.05}"}

    def text(place: PlacedProblem, ordinal: int, grade: str) -> str:
        return said[place.problem.text] if ordinal else ""

    run = add_eval_run(db, "r", [(2, 0, 0)] * 3, problems=problems, texts=text, graded=[0, 0, 0])
    graded = grade_run(db, run.id, grader, lambda *_: None)
    assert graded == Counter(correct=3, wrong=3)
    with db.read() as session:
        rows = session.scalars(select(GradeRow).order_by(GradeRow.sample_id)).all()
        assert [(row.value, row.reason, row.source) for row in rows] == [
            ("wrong", "no answer found", None),
            ("correct", "numeric", "box"),
            ("wrong", "no answer found", None),
            ("correct", "choice", "marker"),
            ("wrong", "no answer found", None),
            ("correct", "tolerance", "box"),
        ]
        assert [row.extracted for row in rows] == [None, "02", None, "(B)", None, "3.05"]
    assert not grade_run(db, run.id, grader, lambda *_: None)


def test_parts_are_committed_and_reported_and_the_rest_is_graded_later(db, grader, monkeypatch):
    monkeypatch.setattr(stored, "SAMPLES_PER_COMMIT", 4)
    run = add_eval_run(db, "r", [(3, 1, 0), (3, 3, 0)], graded=[0, 0])

    class Stop(Exception):
        pass

    steps: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        steps.append((done, total))
        if done:
            raise Stop

    with pytest.raises(Stop):
        grade_run(db, run.id, grader, report)
    assert steps == [(0, 6), (4, 6)]
    assert grade_run(db, run.id, grader, lambda *_: None) == Counter(correct=2)


PROBLEMS = make_problems(3)
PLACED = [PlacedProblem(problem) for problem in PROBLEMS]


@given(st.text(max_size=80))
def test_every_model_gives_a_name(model):
    assert check_name(f"{model_slug(model)}.amc23")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"temperature": 1.0}, r"sampling.temperature \(0.6 stored, 1.0 given\)"),
        ({"template": "{question}"}, "prompt.template"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "prompt.chat_template_kwargs.enable_thinking"),
        ({"engine": {"sampler": "remote", "version": "0.12"}}, "engine.version"),
        ({"source": {"file": "test.jsonl", "options_seed": 1}}, "source.options_seed"),
    ],
)
def test_any_other_setting_is_another_run_and_is_named(db, changes, named):
    with db.write() as session:
        open_eval_run(session, "r", make_eval_spec(PROBLEMS), PLACED, {})
        with pytest.raises(InputError, match=named):
            open_eval_run(session, "r", make_eval_spec(PROBLEMS, **changes), PLACED, {})
        _, before = open_eval_run(session, "r2", make_eval_spec(PROBLEMS, **changes), PLACED, {})
        assert not before


def test_a_name_stands_for_the_one_run_made_under_it(db):
    pilot = add_eval_run(db, "pilot.set-1", [(4, 2, 0)])
    for benchmark in ("amc23", "aime24"):
        add_eval_run(db, f"base.{benchmark}", [(4, 2, 0)], benchmark=benchmark)
    with db.write() as session:
        open_run(session, name="rules", kind="propose", spec={}, question_ids=[], versions={})
    with db.read() as session:
        for name in ("pilot", "pilot.set-1", pilot.id, pilot.id[:12]):
            assert find_eval_run(session, name).id == pilot.id
        assert [checkpoint.label for checkpoint in load_runs(session, ["pilot"])] == ["pilot.set-1"]
        with pytest.raises(InputError, match=r"several runs. Choose one: base\.aime24, base\.amc23"):
            find_eval_run(session, "base")
        with pytest.raises(InputError, match="run 'rules' is of kind propose, not eval"):
            find_eval_run(session, "rules")
        with pytest.raises(NotFoundError, match="no eval run 'pil'"):
            find_eval_run(session, "pil")


def config(**settings: Any) -> EvalConfig:
    return EvalConfig(**{"benchmarks": ("aime24",), "model": "m", **settings})


def test_the_presets_of_the_paper():
    paper = config(preset="paper").prompt()
    assert (paper.form, paper.chat_template_kwargs) == ("chat", {"enable_thinking": False})
    assert paper.fill("1 + 1?") == (
        "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}.\n1 + 1?"
    )
    public = config(preset="paper-eval").prompt(choice=True)
    assert (public.form, config(preset="paper-eval").n, config(preset="paper", n=4).n) == ("raw", 128, 4)
    assert public.fill("1 + 1?").startswith("You FIRST think about the reasoning process")
    assert public.fill("1 + 1?").endswith("outputting the box.\n1 + 1?")


@pytest.mark.parametrize("content", [b"no place for it", b"\xff{question}"])
def test_a_prompt_file_has_to_be_text_with_the_placeholder(tmp_path, content):
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"prompt\.txt"):
        PromptConfig(prompt_file=file).prompt()
    with pytest.raises(InputError, match=r"gone\.txt"):
        PromptConfig(prompt_file=tmp_path / "gone.txt").prompt()
