"""The moving batch: as the model alone would write it, whatever shares the batch, the room and the memory."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny_models import STOPS, random_model, random_prompts

from service.errors import PrerequisiteError
from service.models.local import decoding
from service.models.local.attention import share_keys_of_groups
from service.models.local.cache import Room
from service.models.local.decoding import MovingBatch
from service.models.local.probing import can_share_a_batch
from service.models.local.rows import Choosing, Decoder, Row
from service.models.local.whole import WholeBatches

PLENTY = 10**9
MAX_TOKENS = 20
Drawn = dict[tuple[int, int], tuple[list[int], str | None]]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def llama() -> Any:
    return random_model("llama")


def choosing(temperature: float = 0.9) -> Choosing:
    return Choosing(temperature, 0.9, frozenset(STOPS))


def draw(decoder: Decoder, prompts: Sequence[tuple[int, ...]], n: int, *, at_once: int = 9) -> Drawn:
    """Decode n rows a prompt, queued a few at a time."""
    rows = [
        Row(prompt, MAX_TOKENS, seed=100 * number + place, owner=number, place=place)
        for number, prompt in enumerate(prompts)
        for place in range(n)
    ]
    found: Drawn = {}
    for start in range(0, len(rows), at_once):
        decoder.add(rows[start : start + at_once])
        found.update({(row.owner, row.place): (row.tokens, row.stop_reason) for row in decoder.step()})
    for _ in range(len(rows) * (MAX_TOKENS + 2)):
        if len(found) == len(rows):
            break
        found.update({(row.owner, row.place): (row.tokens, row.stop_reason) for row in decoder.step()})
    assert len(found) == len(rows)
    assert decoder.waiting == decoder.running == 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "mistral", "gemma2"])
def test_greedy_rows_are_those_of_generate_for_each_prompt_alone(name: str) -> None:
    from transformers import GenerationConfig

    model = random_model(name)
    assert can_share_a_batch(model)
    prompts = random_prompts(5)
    found = draw(MovingBatch(model, choosing(0.0), Room(3, PLENTY)), prompts, 1)
    settings = GenerationConfig(
        max_new_tokens=MAX_TOKENS, do_sample=False, eos_token_id=list(STOPS), pad_token_id=0
    )
    for number, prompt in enumerate(prompts):
        ids = torch.tensor([prompt])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        assert found[number, 0][0] == whole[0, len(prompt) :].tolist()


@pytest.mark.parametrize("name", ["llama", "qwen3", "mistral", "gpt2"])
def test_shared_keys_of_groups_change_no_token(name: str) -> None:
    prompts = random_prompts(4)
    expected = draw(MovingBatch(random_model(name), choosing(), Room(8, PLENTY)), prompts, 2)
    model = random_model(name)
    share_keys_of_groups(model)
    assert model.config._attn_implementation != "sdpa"
    assert draw(MovingBatch(model, choosing(), Room(8, PLENTY)), prompts, 2) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_a_rows_tokens_do_not_depend_on_the_batch(name: str) -> None:
    model, prompts = random_model(name), random_prompts(4)
    alone = draw(MovingBatch(model, choosing(), Room(1, PLENTY)), prompts, 4)
    assert len({tuple(tokens) for tokens, _ in alone.values()}) > 12
    assert {reason for _, reason in alone.values()} == {"stop", "length"}
    for rows, places in ((3, PLENTY), (16, PLENTY), (8, 90)):
        assert draw(MovingBatch(model, choosing(), Room(rows, places)), prompts, 4) == alone
    assert draw(WholeBatches(model, choosing(), 5), prompts, 4) == alone


def test_the_logits_of_a_step_are_those_of_reading_everything_again(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    forward = llama.forward

    @functools.wraps(forward)
    def spying(**arguments: Any) -> Any:
        out = forward(**arguments)
        seen.append(out.logits[:, -1])
        return out

    decoder = MovingBatch(llama, choosing(), Room(8, PLENTY))
    rows = [Row(prompt, 6, seed=number) for number, prompt in enumerate(random_prompts(4))]
    decoder.add(rows)
    monkeypatch.setattr(llama, "forward", spying)
    for _ in range(3):
        decoder.step()
    running = list(decoder._rows)
    decoder.step()
    assert len(running) >= 2
    for place, row in enumerate(running):
        ids = torch.tensor([[*row.prompt, *row.tokens[:4]]])
        torch.testing.assert_close(seen[-1][place], forward(input_ids=ids).logits[0, -1], rtol=0, atol=1e-10)


def test_a_prompt_is_read_once_and_no_finished_row_is_computed(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: list[tuple[int, int]] = []
    forward = llama.forward

    @functools.wraps(forward)
    def counting(**arguments: Any) -> Any:
        shapes.append(tuple(arguments["input_ids"].shape))
        return forward(**arguments)

    monkeypatch.setattr(llama, "forward", counting)
    found = draw(MovingBatch(llama, choosing(), Room(4, PLENTY)), [(9, 10, 11), (20, 21)], 8, at_once=16)
    prefills = [shape for shape in shapes if shape[1] > 1]
    assert sorted(prefills) == [(1, 2), (1, 3)]
    decoded = sum(rows for rows, length in shapes if length == 1)
    # Every token but the first of a row is one row of one step, and the last token is never read.
    assert decoded == sum(len(tokens) - 1 for tokens, _ in found.values())


def test_a_batch_keeps_within_its_room(llama: Any) -> None:
    decoder = MovingBatch(llama, choosing(), Room(16, 120))
    decoder.add([Row((9, 10, 11), MAX_TOKENS, seed=seed) for seed in range(30)])
    done = 0
    while done < 30:
        done += len(decoder.step())
        assert decoder.running * (decoder._cache.width) <= 120
    decoder.add([Row(tuple([9] * 200), 20, seed=1)])  # longer than the room: alone
    while decoder.waiting + decoder.running:
        done += len(decoder.step())
    assert done == 31


def test_out_of_memory_halves_the_batch_and_changes_no_token(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = random_prompts(4)
    expected = draw(MovingBatch(llama, choosing(), Room(16, PLENTY)), prompts, 4)
    forward, failures = llama.forward, []

    @functools.wraps(forward)
    def small(**arguments: Any) -> Any:
        if arguments["input_ids"].shape[0] > 4:
            failures.append(1)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(**arguments)

    monkeypatch.setattr(llama, "forward", small)
    decoder = MovingBatch(llama, choosing(), Room(16, PLENTY))
    assert draw(decoder, prompts, 4, at_once=16) == expected
    assert 1 <= len(failures) <= 3
    assert decoder.places in (2, 3, 4)
    assert "out of GPU memory" in decoder.notices[0]


def test_memory_that_does_not_do_for_a_choice_loses_no_row(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = random_prompts(3)
    expected = draw(MovingBatch(llama, choosing(), Room(16, PLENTY)), prompts, 4)
    choose, calls = decoding.choose_tokens, itertools.count()

    def now_and_then(*arguments: Any, **options: Any) -> Any:
        if next(calls) in (0, 4):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return choose(*arguments, **options)

    monkeypatch.setattr(decoding, "choose_tokens", now_and_then)
    decoder = MovingBatch(llama, choosing(), Room(16, PLENTY))
    assert draw(decoder, prompts, 4, at_once=12) == expected
    assert decoder.notices[0] == "out of GPU memory with 4 rows; going on with at most 2 at a time."
    assert len(decoder.notices) == 2


def test_whole_batches_are_halved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompts = random_model("lfm2"), random_prompts(2)
    expected = draw(WholeBatches(model, choosing(), 8), prompts, 4)
    generate = model.generate

    def small(**arguments: Any) -> Any:
        if arguments["input_ids"].shape[0] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(**arguments)

    monkeypatch.setattr(model, "generate", small)
    decoder = WholeBatches(model, choosing(), 8)
    assert draw(decoder, prompts, 4) == expected
    assert (decoder.places, len(decoder.notices)) == (2, 3)
    monkeypatch.setattr(decoder, "_most", 1)
    monkeypatch.setattr(model, "generate", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(PrerequisiteError, match="one response does not fit"):
        draw(decoder, [(9, 10)], 1)


def test_a_halved_whole_batch_grows_again_and_tries_less_often_where_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, prompt = random_model("lfm2"), (9, 10, 11)
    generate, limit, sizes = model.generate, [2], []

    def small(**arguments: Any) -> Any:
        sizes.append(arguments["input_ids"].shape[0])
        if sizes[-1] > limit[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(**arguments)

    monkeypatch.setattr(model, "generate", small)
    decoder = WholeBatches(model, choosing(), 4)
    decoder.add([Row(prompt, 2, seed=seed) for seed in range(160)])
    for _ in range(27):
        decoder.step()
    assert sizes == [4] + [2] * 8 + [4] + [2] * 16 + [4]
    limit[0] = 4  # another process has gone
    while decoder.waiting:
        decoder.step()
    assert sizes[27:] == [2] * 32 + [4] * 12


def test_not_even_one_row_in_memory_is_an_error(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:

    def never(**arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    decoder = MovingBatch(llama, choosing(), Room(4, PLENTY))
    monkeypatch.setattr(llama, "forward", never)
    with pytest.raises(PrerequisiteError, match="one response does not fit"):
        draw(decoder, [(9, 10)], 1)


def test_models_with_other_states_are_drawn_in_whole_batches_with_the_same_samples() -> None:
    model, prompts = random_model("lfm2"), random_prompts(3)
    assert not can_share_a_batch(model)
    alone = draw(WholeBatches(model, choosing(), 1), prompts, 2)
    decoder = WholeBatches(model, choosing(), 8)
    assert draw(decoder, prompts, 2) == alone
    assert "Lfm2ForCausalLM" in decoder.notices[0]


def test_a_model_that_cannot_tell_where_a_shorter_row_begins_shares_no_batch(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = llama.forward

    def without_positions(**arguments: Any) -> Any:  # and without the mask
        return forward(**{**arguments, "attention_mask": None})

    assert can_share_a_batch(llama)
    monkeypatch.setattr(llama, "forward", without_positions)
    assert not can_share_a_batch(llama)


def test_a_whole_batch_that_is_stopped_waits_again(llama: Any) -> None:
    steps = iter([False, False, True])
    decoder = WholeBatches(llama, Choosing(0.9, 0.9, frozenset()), 8, lambda: next(steps, False))
    decoder.add([Row((9, 10, 11), 12, seed=seed) for seed in range(3)])
    assert decoder.step() == []
    assert decoder.waiting == 3
    finished = decoder.step()
    assert [len(row.tokens) for row in finished] == [12] * 3
    again = WholeBatches(llama, Choosing(0.9, 0.9, frozenset()), 8)
    again.add([Row((9, 10, 11), 12, seed=seed) for seed in range(3)])
    key = lambda row: row.seed  # noqa: E731
    assert [row.tokens for row in sorted(again.step(), key=key)] == [
        row.tokens for row in sorted(finished, key=key)
    ]
