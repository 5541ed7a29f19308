"""Starting eval runs: names, keys, and settings that make another run."""

import pytest
from eval_runs import make_eval_spec, make_problems
from hypothesis import given
from hypothesis import strategies as st

from evaluator.evals.problems import PlacedProblem, placed_hash, problems_hash, run_problems
from evaluator.evals.runs import check_eval_run, model_slug, open_eval_run
from service.database import Database
from service.errors import InputError
from service.runs.store import check_name

PROBLEMS = make_problems(3)
PLACED = [PlacedProblem(problem) for problem in PROBLEMS]


@given(st.text(max_size=80))
def test_every_model_gives_a_name(model: str) -> None:
    assert check_name(f"{model_slug(model)}.amc23")


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("gpt-4-turbo", "gpt-4-turbo"),
        ("hosted_vllm/Qwen/Qwen3-4B", "Qwen3-4B"),
        ("./runs/step 200/", "step-200"),
        ("/", "model"),
        ("..", "model"),
    ],
)
def test_names_follow_the_model(model: str, slug: str) -> None:
    assert model_slug(model) == slug


def test_the_same_settings_are_the_same_run(db: Database) -> None:
    spec = make_eval_spec(PROBLEMS)
    with db.write() as session:
        run, before = open_eval_run(session, "r", spec, PLACED, {"a": "1"})
        again, before_again = open_eval_run(session, "r", spec, PLACED, {"a": "2"})
        assert (before, before_again, run.id) == (0, 3, again.id)
        assert [problem.text for problem in run_problems(session, run.id)] == [p.text for p in PROBLEMS]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"temperature": 1.0}, r"sampling.temperature \(0.6 there, 1.0 now\)"),
        ({"seed": 1}, "sampling.seed"),
        ({"samples_per_request": 1}, "sampling.samples_per_request"),
        ({"template": "{question}"}, "prompt.template"),
        ({"system": "Be brief."}, "prompt.system"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "prompt.chat_template_kwargs.enable_thinking"),
        ({"form": "raw"}, "prompt.form"),
        ({"engine": {"sampler": "remote", "version": "0.12"}}, "engine.version"),
        ({"problems_hash": "0" * 64}, "problems_hash"),
        ({"source": {"file": "test.jsonl", "options_seed": 1}}, "source.options_seed"),
        ({"model": "other"}, "model"),
    ],
)
def test_any_other_setting_is_another_run_and_is_named(
    db: Database, changes: dict[str, object], named: str
) -> None:
    with db.write() as session:
        open_eval_run(session, "r", make_eval_spec(PROBLEMS), PLACED, {})
        with pytest.raises(InputError, match=named):
            check_eval_run(session, "r", make_eval_spec(PROBLEMS, **changes), PLACED)
        _, before = open_eval_run(session, "r2", make_eval_spec(PROBLEMS, **changes), PLACED, {})
        assert not before


def test_a_run_of_the_first_problems_grows_and_does_not_shrink(db: Database) -> None:
    spec = make_eval_spec(PROBLEMS)
    with db.write() as session:
        run, _ = open_eval_run(session, "r", spec, PLACED[:1], {})
        first = run_problems(session, run.id)
        grown, before = open_eval_run(session, "r", spec, PLACED, {})
        assert (grown.id, before) == (run.id, 1)
        assert run_problems(session, run.id)[:1] == first
        assert [problem.text for problem in run_problems(session, run.id)] == [p.text for p in PROBLEMS]
        with pytest.raises(InputError, match=r"has 3 problems \(2 now\); a run can grow by a larger limit"):
            open_eval_run(session, "r", spec, PLACED[:2], {})


def test_a_run_needs_problems(db: Database) -> None:
    with db.write() as session, pytest.raises(InputError, match="no problems to evaluate"):
        open_eval_run(session, "r", make_eval_spec(PROBLEMS), [], {})


def test_the_hash_tells_neighbors_groups_and_order_apart() -> None:
    assert placed_hash(PLACED) == problems_hash(PROBLEMS)
    grouped = [PlacedProblem(PROBLEMS[0], "q_1", 0), PlacedProblem(PROBLEMS[1], "q_1", 1), PLACED[2]]
    swapped = [PlacedProblem(PROBLEMS[0], "q_1", 1), PlacedProblem(PROBLEMS[1], "q_1", 0), PLACED[2]]
    hashes = {placed_hash(placed) for placed in (PLACED, PLACED[::-1], PLACED[:2], grouped, swapped)}
    assert len(hashes) == 5
