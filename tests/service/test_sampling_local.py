"""The sampler of a checkpoint: whole runs into a database, resumed, grown, interrupted."""

import json
import os
import shutil
import signal
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sampling_runs import bodies_of, cells_of, plan_run, stored_samples, stored_texts
from tiny_model import SPECIAL_TOKENS, save_tiny_model

from evaluator.grading.extraction import after_thinking
from service.database import Database
from service.errors import InputError, PrerequisiteError
from service.models.checkpoint import open_checkpoint
from service.models.drawing import sample_seed
from service.models.local import LocalSampler
from service.models.local.decoding import MovingBatch
from service.models.local.loading import find_device, load_model


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with a random model that stops now and then."""
    from transformers import AutoModelForCausalLM

    folder = save_tiny_model(tmp_path_factory.mktemp("model"))
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    for parameter in loaded.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(3)
    loaded.generation_config.eos_token_id = [2, 3, 4, 5, 6, 7, 8]
    loaded.generation_config.repetition_penalty = 1.5  # not part of a run's settings: not applied
    loaded.save_pretrained(folder)
    return str(folder)


def sampler(model: str, **options: Any) -> LocalSampler:
    return LocalSampler(model, device="cpu", dtype="float64", **options)


def ignore(_count: int, _words: str) -> None:
    pass


def test_problems_that_another_process_adds_are_drawn_too(db: Database, model: str) -> None:
    cells = plan_run(db, 10, max_tokens=12, seed=3)
    first = next(iter(cells.problems))
    known = replace(cells, problems={first: cells.problems[first]})
    assert sampler(model).fill(known, ignore).answered == 6
    assert len(stored_samples(cells)) == 30


def test_a_run_is_drawn_with_its_seeds_counts_and_stop_reasons(db: Database, model: str) -> None:
    work = plan_run(db, 10, max_tokens=12, seed=3)
    told: list[tuple[int, str]] = []
    filled = sampler(model).fill(work, lambda count, words: told.append((count, words)))
    assert (filled.answered, filled.failed, filled.stopped) == (6, 0, None)
    assert sum(count for count, _ in told) == 30
    assert "samples/s" in told[-1][1]
    samples = stored_samples(work)
    assert len(samples) == 30
    problems = {problem.position: problem.problem_id for problem in work.problems.values()}
    assert [one.seed for one in samples] == [
        sample_seed(3, problems[one.position], one.ordinal) for one in samples
    ]
    assert {one.stop_reason for one in samples} == {"stop", "length"}
    for one in samples:
        assert one.completion_tokens is not None
        assert (one.completion_tokens == 12) or one.stop_reason == "stop"
        assert not any(token in one.text for token in SPECIAL_TOKENS)
    assert len({one.text for one in samples}) > 20
    text = next(iter(work.problems.values())).text
    shown = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    assert samples[0].prompt_tokens == len(shown) - len("<|im_start|>") * 2 - len("<|im_end|>") + 3
    assert json.loads(bodies_of(work)[0]) == {"max_tokens": 12}
    cell = cells_of(work)[0]
    assert cell.completion_tokens == sum(one.completion_tokens or 0 for one in samples[:8])


@pytest.mark.slow
def test_samples_do_not_depend_on_batches_cells_or_how_the_run_grew(db: Database, model: str) -> None:
    at_once = plan_run(db, 8, name="once", max_tokens=10)
    sampler(model).fill(at_once, ignore)
    grown = plan_run(db, 4, name="grown", max_tokens=10, samples_per_request=4)
    drawer = sampler(model, batch_size=3)
    drawer.fill(grown, ignore)
    drawer.fill(plan_run(db, 8, name="grown", max_tokens=10, samples_per_request=4), ignore)
    narrow = plan_run(db, 8, name="narrow", max_tokens=10, samples_per_request=1)
    sampler(model, batch_size=1).fill(narrow, ignore)
    tight = plan_run(db, 8, name="tight", max_tokens=10, samples_per_request=5)
    sampler(model, batch_tokens=150).fill(tight, ignore)
    assert len(stored_texts(at_once)) == 24
    assert stored_texts(at_once) == stored_texts(grown) == stored_texts(narrow) == stored_texts(tight)


def test_at_temperature_zero_one_text_stands_for_all(db: Database, model: str) -> None:
    work = plan_run(db, 4, problems=2, temperature=0.0, max_tokens=10)
    sampler(model).fill(work, ignore)
    samples = stored_samples(work)
    assert len(samples) == 8
    assert [len({one.text for one in samples if one.position == position}) for position in (0, 1)] == [1, 1]
    assert cells_of(work)[0].completion_tokens == samples[0].completion_tokens  # drawn once


def test_the_description_names_everything_that_shapes_samples(model: str) -> None:
    import transformers

    found = LocalSampler(model, device="cpu").describe()
    assert found["sampler"] == "local"
    assert found["torch"] == torch.__version__
    assert found["transformers"] == transformers.__version__
    assert (found["dtype"], found["device"]) == ("float32", "cpu")
    assert found["weights"].startswith("weights_")
    assert found["chat_template"].startswith("template_")
    assert LocalSampler(model, device="cpu", batch_size=3).describe() == found


def test_a_model_without_a_template_continues_raw_text_and_says_so(db: Database, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "raw")
    (folder / "chat_template.jinja").unlink()
    drawer = sampler(str(folder))
    assert (drawer.describe()["chat_template"], drawer.describe()["form"]) == (None, "raw")
    work = plan_run(db, 1, problems=1, max_tokens=3)
    drawer.check(work.spec)
    assert "raw text" in drawer.notices[0]
    drawer.fill(work, ignore)
    (sample,) = stored_samples(work)
    assert sample.prompt_tokens == len(next(iter(work.problems.values())).text)
    assert len(drawer.notices) == 1


def test_a_thought_that_the_prompt_opens_is_stored_opened(db: Database, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "thinks")
    with (folder / "chat_template.jinja").open("a") as template:
        template.write("<think>\n")
    drawer = sampler(str(folder))
    work = plan_run(db, 2, problems=1, max_tokens=3)
    drawer.fill(work, ignore)
    texts = [sample.text for sample in stored_samples(work)]
    assert len(texts) == 2
    assert all(text.startswith("<think>\n") for text in texts)
    assert after_thinking(texts[0]) is None


def test_a_closed_sampler_holds_no_weights_and_can_draw_again(db: Database, model: str) -> None:
    drawer = sampler(model)
    drawer.fill(plan_run(db, 1, problems=1, max_tokens=3), ignore)
    weights = weakref.ref(drawer._model)
    drawer.close()
    assert weights() is None
    drawer.fill(plan_run(db, 2, problems=1, max_tokens=3), ignore)


def test_a_signal_stops_between_tokens_and_the_next_call_goes_on(
    db: Database, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = plan_run(db, 4, max_tokens=10, samples_per_request=1)
    whole = plan_run(db, 4, name="whole", max_tokens=10, samples_per_request=1)
    sampler(model).fill(whole, ignore)
    step, steps = MovingBatch.step, []

    def counting(batch: MovingBatch) -> Any:
        steps.append(1)
        if len(steps) == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(batch)

    monkeypatch.setattr(MovingBatch, "step", counting)
    handler = signal.getsignal(signal.SIGTERM)
    drawer = sampler(model, batch_size=4)
    filled = drawer.fill(work, ignore)
    assert filled.stopped == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is handler
    assert len(steps) == 6
    assert 0 < len(stored_samples(work)) == filled.answered < 12
    assert all(cell.lease_owner is None for cell in cells_of(work))
    assert drawer.fill(work, ignore).stopped is None
    assert stored_texts(work) == stored_texts(whole)


def test_it_draws_in_a_thread_too(db: Database, model: str) -> None:
    work = plan_run(db, 1, problems=1, max_tokens=3)
    thread = threading.Thread(target=sampler(model).fill, args=(work, ignore))
    thread.start()
    thread.join()
    assert len(stored_samples(work)) == 1


def test_two_processes_share_a_run(db: Database, model: str) -> None:
    work = plan_run(db, 4, problems=2, max_tokens=3, samples_per_request=2)
    other = plan_run(db, 4, problems=2, max_tokens=3, samples_per_request=2)
    assert len(other.lease(1)) == 1
    assert sampler(model).fill(work, ignore).answered == 3


def test_responses_are_cut_where_the_context_ends(db: Database, model: str) -> None:
    work = plan_run(db, 2, problems=1, max_tokens=4000, temperature=0.6)
    drawer = sampler(model)
    drawer.fill(work, ignore)
    samples = stored_samples(work)
    room = 512 - (samples[0].prompt_tokens or 0)
    assert all((one.completion_tokens or 0) <= room for one in samples)
    assert json.loads(bodies_of(work)[0]) == {"max_tokens": room}
    assert "in the context of 512" in drawer.notices[0]


def test_a_prompt_beyond_the_context_names_the_problem(db: Database, model: str) -> None:
    work = plan_run(db, 1, template="{question}" + "x" * 600)
    with pytest.raises(InputError, match=r"the prompt of problem 1 \(p_.* context is 512"):
        sampler(model).fill(work, ignore)
    assert all(cell.lease_owner is None for cell in cells_of(work))


def test_weights_that_are_no_numbers_stop_the_run(db: Database, model: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = save_tiny_model(tmp_path / "broken")
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    loaded.model.norm.weight.data.fill_(float("nan"))
    loaded.save_pretrained(folder)
    with pytest.raises(InputError, match="not finite numbers"):
        sampler(str(folder)).fill(plan_run(db, 1, problems=1), ignore)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": "abacus"}, InputError, "give auto, cpu, cuda"),
        ({"device": "cuda:7"}, PrerequisiteError, "there is no cuda device"),
        ({"device": "cpu", "dtype": "int4"}, InputError, "dtype is 'int4'"),
    ],
)
def test_devices_and_dtypes_that_are_not_there(
    model: str, options: dict[str, str], error: type[Exception], message: str
) -> None:
    if options["device"].startswith("cuda") and torch.cuda.is_available():
        options = {**options, "device": "mps"}
        message = "there is no mps device"
    with pytest.raises(error, match=message):
        LocalSampler(model, **options).describe()  # type: ignore[arg-type]


def test_batches_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="batch-size is 0"):
        LocalSampler("model", batch_size=0)


def test_weights_that_are_not_there_are_not_random_ones(model: str, tmp_path: Path) -> None:
    """verl saves an adapter's training under peft's names; transformers would only warn."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(model, tmp_path / "peft")
    weights = load_file(folder / "model.safetensors")
    renamed = {f"base_model.model.{name}": weight for name, weight in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PrerequisiteError, match=r"lacks weights .* and [\d,]+ more; they would be random"):
        load_model(open_checkpoint(str(folder), None, "local"), find_device("cpu"), "float32")


def test_a_folder_that_holds_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="cannot be loaded"):
        LocalSampler(str(tmp_path)).describe()
