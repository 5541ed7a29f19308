"""The vLLM sampler, with an engine that answers like vLLM and misbehaves."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from fake_vllm import Behaviour, VLLMValidationError, install, text_of
from sampling_runs import bodies_of, cells_of, plan_run, stored_samples, stored_texts
from tiny_model import save_tiny_model

from service.database import Database
from service.errors import InputError, PrerequisiteError
from service.models.drawing import sample_seed
from service.models.offline import Order
from service.models.settings import SamplingSettings
from service.models.stopping import exit_on_sigterm
from service.models.vllm import VllmSampler
from service.models.vllm.engine import Engine


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_model(tmp_path_factory.mktemp("model")))


@pytest.fixture
def behaviour(monkeypatch: pytest.MonkeyPatch) -> Behaviour:
    made = Behaviour()
    install(monkeypatch, made)
    return made


def ignore(_count: int, _words: str) -> None:
    pass


def test_a_run_is_drawn_with_n_in_one_request_and_the_seeds_that_vllm_uses(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    work = plan_run(db, 10, max_tokens=40, temperature=0.7, top_p=0.9, seed=5)
    counts: list[int] = []
    filled = VllmSampler(model).fill(work, lambda count, words: counts.append(count))
    assert (filled.answered, filled.failed, filled.stopped) == (6, 0, None)
    assert sum(counts) == 30
    assert sorted(params.n for _, params in behaviour.asked) == [2, 2, 2, 8, 8, 8]
    assert {(one.temperature, one.top_p, one.max_tokens) for _, one in behaviour.asked} == {(0.7, 0.9, 40)}
    samples = stored_samples(work)
    assert len(samples) == 30
    problem = work.problems[min(work.problems)]
    first = sample_seed(5, problem.problem_id, 0)
    second = sample_seed(5, problem.problem_id, 8)
    assert [one.seed for one in samples[:10]] == [*range(first, first + 8), second, second + 1]
    prompts = {tuple(ids) for ids, _ in behaviour.asked}
    assert samples[0].text in {text_of(ids, first) for ids in prompts}
    assert {(one.stop_reason, one.completion_tokens) for one in samples} == {("stop", 4)}
    assert len({one.text for one in samples}) == 30
    raw = json.loads(bodies_of(work)[0])
    assert raw["n"] == 8
    assert raw["cached_tokens"] == samples[0].prompt_tokens - 1
    receipt = cells_of(work)[0]
    assert (receipt.completion_tokens, receipt.prompt_tokens) == (32, samples[0].prompt_tokens)


def test_the_engine_is_started_once_with_prefix_caching(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    sampler = VllmSampler(model, tensor_parallel=2, max_model_len=200, gpu_memory_utilization=0.5)
    for name in ("a", "b"):
        sampler.fill(plan_run(db, 1, name=name, max_tokens=20), ignore)
    (arguments,) = behaviour.llms
    assert arguments["model"] == model
    assert arguments["tensor_parallel_size"] == 2
    assert arguments["gpu_memory_utilization"] == 0.5
    assert arguments["kwargs"] == {"enable_prefix_caching": True, "max_model_len": 200}


def test_the_description_holds_versions_weights_and_devices(model: str, behaviour: Behaviour) -> None:
    found = VllmSampler(model, tensor_parallel=2).describe()
    assert found["sampler"] == "vllm"
    assert found["vllm"] == "0.24.0"
    assert (found["device"], found["gpu"], found["tensor_parallel"]) == ("cuda", "Fake H100", 2)
    assert found["weights"].startswith("weights_")
    assert found["chat_template"].startswith("template_")
    assert "form" not in found
    assert not behaviour.llms  # the engine is not started for it


def test_at_temperature_zero_a_text_is_drawn_once_and_stands_for_all(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    work = plan_run(db, 8, problems=1, temperature=0.0)
    VllmSampler(model).fill(work, ignore)
    assert [params.n for _, params in behaviour.asked] == [1]
    samples = stored_samples(work)
    assert len(samples) == 8
    assert len({one.text for one in samples}) == 1


def test_closing_ends_the_engine_once_and_the_next_pass_starts_another(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    sampler = VllmSampler(model)
    sampler.close()  # none was started
    sampler.fill(plan_run(db, 1, name="a", max_tokens=20), ignore)
    sampler.close()
    sampler.close()
    assert behaviour.ended == 1
    sampler.fill(plan_run(db, 1, name="b", max_tokens=20), ignore)
    assert len(behaviour.llms) == 2


def test_a_cpu_is_named_once(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Behaviour(device="cpu"))
    engine = VllmSampler(model).describe()
    assert engine["device"] == "cpu"
    assert "gpu" not in engine


@pytest.mark.parametrize("error", [VLLMValidationError("too many"), ValueError("too many")])
def test_a_request_that_vllm_refuses_is_no_dead_engine(
    db: Database, model: str, behaviour: Behaviour, error: Exception
) -> None:
    def refuse(_number: int) -> None:
        raise error

    behaviour.before_request = refuse
    work = plan_run(db, 1)
    with pytest.raises(InputError, match="vLLM refuses a request: too many"):
        VllmSampler(model).fill(work, ignore)
    assert behaviour.ended == 1  # what it had taken before would stand in the way of the next pass
    assert [cell.state for cell in cells_of(work)] == ["empty"] * 3
    assert all(cell.lease_owner is None for cell in cells_of(work))


@pytest.mark.parametrize(
    ("seeds", "max_tokens", "message"),
    [((2**64 - 1, 2**64), 5, "at most 64 bits"), ((-2,), 5, "at most 64 bits"), ((1,), 0, "max_tokens")],
)
def test_an_order_that_vllm_would_choke_on_is_refused_before_it_is_sent(
    model: str, behaviour: Behaviour, seeds: tuple[int, ...], max_tokens: int, message: str
) -> None:
    engine = Engine(model)
    with pytest.raises(InputError, match=message):
        engine.submit([Order(1, [1, 2], seeds, max_tokens)], SamplingSettings())
    assert not behaviour.asked
    engine.submit([Order(2, [1, 2], (2**64 - 2, 2**64 - 1), 5)], SamplingSettings())
    assert len(behaviour.asked) == 1


def test_temperatures_that_vllm_would_change_are_refused(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    with pytest.raises(InputError, match=r"temperature is 0\.005"):
        VllmSampler(model).fill(plan_run(db, 1, temperature=0.005), ignore)


def test_aborted_and_lost_requests_fail_and_the_others_are_stored(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    behaviour.finish = lambda number: {1: "abort", 2: "error"}.get(number, "length")
    behaviour.lost = lambda number: number == 0
    work = plan_run(db, 4, problems=5, samples_per_request=4)
    filled = VllmSampler(model).fill(work, ignore)
    assert (filled.answered, filled.failed) == (2, 3)
    assert filled.failures == {"abort": 1, "error": 1, "lost": 1}
    assert [cell.state for cell in cells_of(work)] == ["failed"] * 3 + ["filled"] * 2
    assert cells_of(work)[1].error == "vLLM ended the request: abort"
    assert {one.stop_reason for one in stored_samples(work)} == {"length"}


def test_an_engine_that_dies_leaves_what_came_back_and_the_rest_to_the_next_call(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    behaviour.dies_at_step = 2
    work = plan_run(db, 2, problems=7, samples_per_request=2)
    sampler = VllmSampler(model)
    filled = sampler.fill(work, ignore)
    assert filled.stopped == "engine"
    assert "EngineDeadError" in (filled.message or "")
    assert (filled.answered, len(stored_samples(work))) == (3, 6)
    assert [cell.lease_owner for cell in cells_of(work)] == [None] * 7
    assert behaviour.ended == 1  # what is left of it would keep its memory
    behaviour.dies_at_step = None
    assert sampler.fill(work, ignore).answered == 4
    assert len(behaviour.llms) == 2  # a new engine
    assert len(stored_samples(work)) == 14


def test_a_signal_stops_after_the_step_and_gives_back_what_is_in_flight(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    behaviour.before_step = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 2 else None
    work = plan_run(db, 2, problems=10, samples_per_request=2)
    handler = signal.getsignal(signal.SIGINT)
    filled = VllmSampler(model).fill(work, ignore)
    assert filled.stopped == "interrupted"
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(stored_samples(work)) == 2 * filled.answered == 12
    assert len(behaviour.aborted) == 4
    assert all(cell.lease_owner is None for cell in cells_of(work))


def test_a_step_that_never_ends_is_given_up_after_the_grace(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    def hang(_step: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait()

    behaviour.before_step = hang
    work = plan_run(db, 2)
    with exit_on_sigterm(), pytest.raises(SystemExit) as leaving:
        VllmSampler(model, grace_s=0.05).fill(work, ignore)
    assert leaving.value.code == 143
    assert all(cell.lease_owner is None for cell in cells_of(work))


def test_an_engine_that_ends_with_the_signal_counts_as_interrupted(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    behaviour.before_step = lambda step: os.kill(os.getpid(), signal.SIGINT)
    behaviour.dies_at_step = 1
    filled = VllmSampler(model).fill(plan_run(db, 2), ignore)
    assert filled.stopped == "interrupted"


def test_many_cells_are_in_flight_but_not_all(db: Database, model: str, behaviour: Behaviour) -> None:
    work = plan_run(db, 4, problems=150, samples_per_request=1)
    filled = VllmSampler(model).fill(work, ignore)
    assert filled.answered == 600
    assert behaviour.most_in_flight == 256
    assert len(stored_texts(work)) == 600


def test_responses_are_capped_where_the_context_ends_and_it_is_said(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    work = plan_run(db, 1, problems=1, max_tokens=400)
    sampler = VllmSampler(model, max_model_len=100)
    sampler.fill(work, ignore)
    ((ids, params),) = behaviour.asked
    assert params.max_tokens == 100 - len(ids)
    assert any("in the context of 100" in notice for notice in sampler.notices)


def test_a_prompt_beyond_the_context_names_the_problem_before_the_engine_starts(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    with pytest.raises(InputError, match=r"the prompt of problem 1 .* context is 20"):
        VllmSampler(model, max_model_len=20).fill(plan_run(db, 1), ignore)
    assert not behaviour.llms


def test_an_engine_that_does_not_start_is_told_with_its_reason(
    db: Database, model: str, behaviour: Behaviour
) -> None:
    behaviour.fails_to_start = "CUDA out of memory"
    work = plan_run(db, 1)
    with pytest.raises(PrerequisiteError, match=r"vLLM does not start .* CUDA out of memory"):
        VllmSampler(model).fill(work, ignore)
    assert all(cell.lease_owner is None for cell in cells_of(work))


def test_without_vllm_the_message_says_what_to_install(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'tagrpo\[vllm\]'"):
        VllmSampler(model).describe()


def test_a_model_without_a_template_is_drawn_as_raw_text_with_a_notice(
    db: Database, tmp_path: Path, behaviour: Behaviour
) -> None:
    folder = save_tiny_model(tmp_path / "raw")
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    sampler = VllmSampler(str(folder))
    assert (sampler.describe()["chat_template"], sampler.describe()["form"]) == (None, "raw")
    sampler.fill(plan_run(db, 1, problems=1), ignore)
    assert any("no chat template" in notice for notice in sampler.notices)


@pytest.mark.parametrize(
    "options",
    [
        {"tensor_parallel": 0},
        {"gpu_memory_utilization": 0.0},
        {"gpu_memory_utilization": 1.5},
        {"max_model_len": 1},
    ],
)
def test_options_out_of_range_are_refused(model: str, options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="give"):
        VllmSampler(model, **options)  # type: ignore[arg-type]


def test_importing_the_samplers_loads_no_engine() -> None:
    import subprocess

    code = (
        "import sys, service.models.local, service.models.vllm; "
        "print([name for name in ('torch', 'transformers', 'vllm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
