"""`make gpu-check`: what it writes, what it takes for a failure; its trainings run by hand."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import gpu_check
from benchmarks.gpu_check import Outcome, page

HOME = "/" + "home"
LOG = "line\n" * 30 + f"saved in {HOME}/me/runs/x\nstep:2 - actor/pg_loss:0.1"
DONE = Outcome(
    "train grpo", "tagrpo train run grpo --model /tmp/x/model", 61.0, LOG, None, ("step 1: loss 0.1",)
)


def metrics(folder: Path, *losses: float, gradient: float = 1.0) -> Path:
    (folder / "metrics").mkdir(parents=True)
    lines = [
        json.dumps({"step": step, "data": {"actor/pg_loss": loss, "actor/grad_norm": gradient}})
        for step, loss in enumerate(losses, start=1)
    ]
    (folder / "metrics" / "1.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_a_page_has_versions_figures_and_the_end_of_the_log_and_no_paths() -> None:
    written = page([DONE], "NVIDIA H100", None, cpu=False)
    assert "# GPU check: NVIDIA H100" in written
    assert "a random Qwen 3: everything went well" in written
    assert re.search(r"^\| Python \| 3\.", written, re.M)
    assert "step 1: loss 0.1" in written
    assert "step:2 - actor/pg_loss:0.1" in written
    assert written.count("\nline") < 12
    assert HOME not in written
    assert "/tmp" not in written
    assert "No GPU was used" not in written


@pytest.mark.parametrize(
    ("losses", "problem"),
    [
        ((0.1, 0.2), None),
        ((0.1,), "1 steps have metrics, 2 were to be trained"),
        ((0.1, float("nan")), "actor/pg_loss is missing or no finite number"),
    ],
)
def test_a_training_without_its_steps_has_failed(
    tmp_path: Path, losses: tuple[float, ...], problem: str | None
) -> None:
    outcome = gpu_check._with_metrics(DONE, metrics(tmp_path / "run", *losses))
    assert outcome.problem == problem
    assert gpu_check._with_metrics(DONE, tmp_path / "none").problem is not None
    still = gpu_check._with_metrics(DONE, metrics(tmp_path / "still", 0.0, 0.0, gradient=0.0))
    assert "no step has a gradient" in str(still.problem)


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ('drawing ...\n{"runs": [{"run": "check.sums", "drawn": 16}]}\nnote: done', None),
        ('{"runs": [{"run": "check.sums", "drawn": 3}]}', "drew 3 samples of 16"),
        ('{"runs": []}', "printed no result"),
        ("drawing ...", "printed no result"),
    ],
)
def test_an_evaluation_without_a_result_has_failed(log: str, problem: str | None) -> None:
    outcome = gpu_check._with_samples(Outcome("evaluate", "tagrpo eval run", 1.0, log, None))
    assert outcome.problem == problem
    assert ("check.sums" in "".join(outcome.figures)) == (problem is None)


def test_nothing_comes_after_what_failed_and_the_exit_code_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def run(what: str, words: list[str], folder: Path, ends: float) -> Outcome:
        asked.append(what)
        return Outcome(what, "tagrpo", 1.0, "CUDA error", "exit code 1")

    monkeypatch.setattr(gpu_check, "_run", run)
    monkeypatch.setattr(gpu_check, "write_data", lambda folder, tokenizer: None)
    monkeypatch.setattr(gpu_check.importlib.util, "find_spec", lambda name: object())
    code = gpu_check.main(["--cpu", "--model", "m", "--out", str(tmp_path / "gpu-check.md")])
    assert (code, asked) == (1, ["train grpo"])
    assert "**failed** at *train grpo*" in (tmp_path / "gpu-check.md").read_text(encoding="utf-8")
    printed = capsys.readouterr()
    assert "FAILED" in printed.out
    assert "NO GPU IS USED" in printed.err
    assert "CUDA error" in printed.err


def test_the_data_is_an_export_with_neighbors_and_a_benchmark(tmp_path: Path) -> None:
    from sandbox.tokenizer import save_tokenizer
    from trainer_adapter.runs.data import read_data

    save_tokenizer(tmp_path / "model")
    gpu_check.write_data(tmp_path, str(tmp_path / "model"))
    data = read_data(tmp_path / "data", verify=True)
    assert (data.questions, dict(data.neighbors_per_question)) == (8, {2: 8})
    rows = (tmp_path / "sums.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(rows[1]) == {"problem": "What is 1 + 3?", "answer": "4"}
