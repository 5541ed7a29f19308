"""The vLLM sampler with the real engine, in vLLM's build for CPUs: one engine for all tests here."""

import os
import signal
from collections.abc import Iterator

import pytest
from sampling_runs import bodies_of, cells_of, plan_run, stored_samples, stored_texts
from tiny_model import save_tiny_model
from vllm_runs import engine_processes, use_cpu_build

from service.database import Database
from service.errors import InputError
from service.models.drawing import sample_seed
from service.models.offline import Order
from service.models.settings import SamplingSettings
from service.models.vllm import VllmSampler

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmSampler]:
    use_cpu_build()
    model = save_tiny_model(tmp_path_factory.mktemp("model"), heads=2)
    before = engine_processes()
    drawing = VllmSampler(str(model), dtype="float32")
    yield drawing
    drawing.close()
    assert engine_processes() <= before


def ignore(_count: int, _words: str) -> None:
    pass


def test_the_description_names_the_cpu_build(sampler: VllmSampler) -> None:
    engine = sampler.describe()
    assert (engine["sampler"], engine["vllm"], engine["device"]) == ("vllm", "0.31.0", "cpu")
    assert "gpu" not in engine


def test_a_run_is_drawn_with_its_seeds_and_again_the_same(db: Database, sampler: VllmSampler) -> None:
    work = plan_run(db, 12, max_tokens=30)
    filled = sampler.fill(work, ignore)
    assert (filled.answered, filled.failed, filled.stopped) == (6, 0, None)
    samples = stored_samples(work)
    assert len(samples) == 36
    first = sample_seed(0, work.problems[min(work.problems)].problem_id, 0)
    assert first is not None
    assert [sample.seed for sample in samples[:8]] == [*range(first, first + 8)]
    assert len({sample.text for sample in samples}) > 30
    assert {sample.stop_reason for sample in samples} <= {"stop", "length"}
    assert all(sample.completion_tokens and sample.completion_tokens <= 30 for sample in samples)
    again = plan_run(db, 12, name="again", max_tokens=30)
    sampler.fill(again, ignore)
    assert stored_texts(again) == stored_texts(work)


def test_a_signal_gives_back_what_is_in_flight_and_the_engine_goes_on(
    db: Database, sampler: VllmSampler
) -> None:
    calm = plan_run(db, 16, name="calm", max_tokens=40, samples_per_request=1)
    sampler.fill(calm, ignore)
    work = plan_run(db, 16, max_tokens=40, samples_per_request=1)
    drawn = 0

    def interrupt(count: int, _words: str) -> None:
        nonlocal drawn
        drawn += count

    engine = sampler._engine
    assert engine is not None
    steps = engine.step

    def step() -> object:
        finished = steps()
        if finished:
            os.kill(os.getpid(), signal.SIGINT)
        return finished

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "step", step)
        filled = sampler.fill(work, interrupt)
    assert filled.stopped == "interrupted"
    assert 0 < len(stored_samples(work)) < 48
    assert all(cell.lease_owner is None for cell in cells_of(work))
    assert sampler.fill(work, ignore).stopped is None
    assert stored_texts(work) == stored_texts(calm)


def test_without_seeds_none_is_stored_and_nothing_repeats(db: Database, sampler: VllmSampler) -> None:
    texts = []
    for name in ("a", "b"):
        work = plan_run(db, 4, name=name, max_tokens=30, seed=None)
        sampler.fill(work, ignore)
        assert {sample.seed for sample in stored_samples(work)} == {None}
        texts.append(stored_texts(work))
    assert texts[0] != texts[1]


def test_greedy_texts_are_drawn_once_and_stop_strings_end_them(db: Database, sampler: VllmSampler) -> None:
    greedy = plan_run(db, 3, name="greedy", problems=1, max_tokens=40, temperature=0.0)
    sampler.fill(greedy, ignore)
    texts = set(stored_texts(greedy))
    assert len(texts) == 1
    (text,) = texts
    stop = text[len(text) // 2]
    stopped = plan_run(db, 1, name="stopped", problems=1, max_tokens=40, temperature=0.0, stop=(stop,))
    sampler.fill(stopped, ignore)
    (sample,) = stored_samples(stopped)
    assert (sample.text, sample.stop_reason) == (text.partition(stop)[0], "stop")


@pytest.mark.parametrize(
    ("prompt", "seeds", "message"),
    [
        ([5] * 600, (1,), "refuses a request"),
        ([5], (2**64,), "64 bits"),
        ([99_999], (1,), "refuses a request"),
    ],
)
def test_a_request_that_vllm_refuses_is_bad_input_and_the_next_pass_draws(
    db: Database, sampler: VllmSampler, prompt: list[int], seeds: tuple[int, ...], message: str
) -> None:
    sampler.fill(plan_run(db, 1, name="first", problems=1, max_tokens=5), ignore)
    engine = sampler._engine
    assert engine is not None
    with pytest.raises(InputError, match=message):
        engine.submit([Order(1, prompt, seeds, 5)], SamplingSettings())
    work = plan_run(db, 2, name="next", problems=1, max_tokens=5)
    assert sampler.fill(work, ignore).answered == 1
    assert bodies_of(work)


def test_an_engine_whose_process_is_killed_is_told_and_the_next_pass_starts_another(
    db: Database, sampler: VllmSampler
) -> None:
    work = plan_run(db, 16, max_tokens=40, samples_per_request=1)
    sampler.fill(plan_run(db, 1, name="first", problems=1, max_tokens=5), ignore)
    engine = sampler._engine
    assert engine is not None
    steps = engine.step

    def step() -> object:
        finished = steps()
        if finished:
            for pid in engine_processes():
                os.kill(pid, signal.SIGKILL)
        return finished

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "step", step)
        filled = sampler.fill(work, ignore)
    assert (filled.stopped, "EngineDeadError" in (filled.message or "")) == ("engine", True)
    assert 0 < filled.answered < 48
    assert all(cell.lease_owner is None for cell in cells_of(work))
    assert sampler.fill(work, ignore).answered == 48 - filled.answered


def test_engines_of_a_cluster_draw_what_one_draws_though_they_are_killed_meanwhile(
    db: Database, sampler: VllmSampler
) -> None:
    from ray.cluster_utils import Cluster

    alone = plan_run(db, 512, name="alone", max_tokens=40)
    sampler.fill(alone, ignore)
    before = engine_processes(of_cluster=True)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    killed: set[int] = set()

    def kill_all(count: int, _words: str) -> None:
        if count and not killed:
            killed.update(engine_processes(of_cluster=True) - before)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, num_gpus=1)
        work = plan_run(db, 512, max_tokens=40)
        on_nodes = VllmSampler(sampler._name, ray_address=cluster.address, dtype="float32")
        try:
            filled = on_nodes.fill(work, kill_all)
        finally:
            on_nodes.close()
    finally:
        cluster.shutdown()
    assert (filled.answered, filled.failed, filled.stopped) == (192, 0, None)
    assert killed
    assert stored_texts(work) == stored_texts(alone)
