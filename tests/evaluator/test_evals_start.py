"""Starting eval runs: names, keys, presets of prompts, and settings that make another run."""

from pathlib import Path
from typing import Any

import pytest
from eval_runs import add_eval_run, make_eval_spec, make_problems
from hypothesis import given
from hypothesis import strategies as st

from evaluator.config import EvalConfig
from evaluator.evals.problems import PlacedProblem
from evaluator.evals.runs import find_eval_run, model_slug, open_eval_run
from evaluator.signal.sources.eval_runs import load_runs
from service.database import Database
from service.errors import InputError, NotFoundError
from service.models.settings import PromptConfig
from service.runs.store import check_name, open_run

PROBLEMS = make_problems(3)
PLACED = [PlacedProblem(problem) for problem in PROBLEMS]


@given(st.text(max_size=80))
def test_every_model_gives_a_name(model: str) -> None:
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
def test_any_other_setting_is_another_run_and_is_named(
    db: Database, changes: dict[str, object], named: str
) -> None:
    with db.write() as session:
        open_eval_run(session, "r", make_eval_spec(PROBLEMS), PLACED, {})
        with pytest.raises(InputError, match=named):
            open_eval_run(session, "r", make_eval_spec(PROBLEMS, **changes), PLACED, {})
        _, before = open_eval_run(session, "r2", make_eval_spec(PROBLEMS, **changes), PLACED, {})
        assert not before


def test_a_name_stands_for_the_one_run_made_under_it(db: Database) -> None:
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
        with pytest.raises(NotFoundError, match="no run 'pil'"):
            find_eval_run(session, "pil")


def config(**settings: Any) -> EvalConfig:
    return EvalConfig(**{"benchmarks": ("aime24",), "model": "m", **settings})


def test_the_presets_of_the_paper() -> None:
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
def test_a_prompt_file_has_to_be_text_with_the_placeholder(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"prompt\.txt"):
        PromptConfig(prompt_file=file).prompt()
    with pytest.raises(InputError, match=r"gone\.txt"):
        PromptConfig(prompt_file=tmp_path / "gone.txt").prompt()
