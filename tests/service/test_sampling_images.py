"""The sampler of a checkpoint with problems that hold images: a tiny model that sees, in float64."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from eval_sampling import draw, start
from pictures import picture
from sampling_runs import plan_run, stored_samples, stored_texts
from tiny_model import save_tiny_model
from tiny_vision import TOKENS_OF_AN_IMAGE, save_tiny_vision_model

from evaluator.evals.problems import Problem, make_problem
from service.database import Database
from service.errors import InputError
from service.models.local import LocalSampler
from service.models.local.cache import Room
from service.models.local.decoding import MovingBatch
from service.models.local.images import as_given
from service.models.local.probing import can_share_a_batch
from service.models.local.rows import Choosing, PromptImages, Row
from service.models.local.whole import WholeBatches
from service.models.processors import Pictures, image_tokens, open_processor
from service.questions.images import read_image, store_images

MAX_TOKENS = 12
COLORS = ("red", "green", "blue")


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_vision_model(tmp_path_factory.mktemp("seeing")))


@pytest.fixture(scope="module")
def model(folder: str) -> Any:
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64).eval()


def rows_of(folder: str, each: int) -> list[Row]:
    """Return rows of prompts with no, one and two pictures, some of which differ by their pictures alone."""
    processor = open_processor(folder)
    mark = "<|vision_start|><|image_pad|><|vision_end|>"
    asked = [("What?", [])]
    asked += [(f"{mark}What?", [picture(color, (40, 40))]) for color in COLORS]
    asked += [(f"{mark}or{mark}?", [picture("red", (90, 60)), picture("blue", (40, 40))])]
    rows = []
    for number, (text, files) in enumerate(asked):
        pictures = Pictures(tuple(files), text, ())
        made = processor(text=[text], images=pictures.opened() or None, return_tensors="pt")
        images = (
            PromptImages(pictures.key, lambda made=made: as_given(made, torch.float64)) if files else None
        )
        prompt = tuple(made["input_ids"][0].tolist())
        rows += [
            Row(prompt, MAX_TOKENS, 100 * number + place, number, place, images) for place in range(each)
        ]
    return rows


def drawn(decoder: Any, rows: Sequence[Row]) -> dict[tuple[int, int], list[int]]:
    decoder.add(rows)
    finished: dict[tuple[int, int], list[int]] = {}
    for _ in range(len(rows) * MAX_TOKENS):
        finished |= {(row.owner, row.place): row.tokens for row in decoder.step()}
        if len(finished) == len(rows):
            return finished
    raise AssertionError("rows are left")


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_moving_batch_writes_what_generate_does(model: Any, folder: str, temperature: float) -> None:
    assert can_share_a_batch(model)
    choosing = Choosing(temperature, 1.0, frozenset({2}), image_tokens(model.config))
    whole = drawn(WholeBatches(model, choosing, 4), rows_of(folder, 2))
    assert len({tuple(tokens) for tokens in whole.values()}) >= (5 if temperature == 0 else 10)
    for room in (Room(64, 10**9), Room(1, 10**9), Room(3, 120)):
        assert drawn(MovingBatch(model, choosing, room), rows_of(folder, 2)) == whole


def test_tokens_that_stand_for_images_are_never_drawn(model: Any, folder: str) -> None:
    never = frozenset(range(10, 264))
    choosing = Choosing(1.0, 1.0, frozenset({2}), never)
    for decoder in (MovingBatch(model, choosing, Room(8, 10**9)), WholeBatches(model, choosing, 8)):
        texts = drawn(decoder, rows_of(folder, 3)).values()
        assert {token for tokens in texts for token in tokens}.isdisjoint(never)


def pictured(db: Database, colors: Sequence[str]) -> list[Problem]:
    images = [read_image(picture(color, (40, 40))) for color in colors]
    with db.write() as session:
        store_images(session, images)
    return [make_problem("Which <image> is it?", "1", images=[image.id]) for image in images]


def sampler(folder: str) -> LocalSampler:
    return LocalSampler(folder, device="cpu", dtype="float64")


def ignore(_count: int, _words: str) -> None:
    pass


def test_a_run_over_problems_with_images_depends_on_the_images(db: Database, folder: str) -> None:
    problems = [*pictured(db, COLORS), make_problem("Which is it?", "1")]
    work = plan_run(db, 4, problems=problems, max_tokens=MAX_TOKENS)
    filled = sampler(folder).fill(work, ignore)
    assert (filled.failed, filled.stopped) == (0, None)
    samples = stored_samples(work)
    assert len(samples) == 16
    seen, unseen = samples[0].prompt_tokens, samples[-1].prompt_tokens
    assert seen is not None
    assert unseen is not None
    # its tokens, two around them, and the space where it stands
    assert seen == unseen + TOKENS_OF_AN_IMAGE + 2 + len(" ")
    again = plan_run(db, 4, problems=problems, name="again", max_tokens=MAX_TOKENS)
    sampler(folder).fill(again, ignore)
    assert stored_texts(again) == stored_texts(work)
    greedy = plan_run(db, 1, problems=problems, name="greedy", max_tokens=MAX_TOKENS, temperature=0.0)
    sampler(folder).fill(greedy, ignore)
    assert len(set(stored_texts(greedy))) == 4


def test_samples_of_problems_with_images_are_graded_and_counted(db: Database, folder: str) -> None:
    run = start(db, "graded", pictured(db, COLORS), max_tokens=MAX_TOKENS)
    outcome = draw(db, run, sampler(folder), 3)
    assert (outcome.drawn, outcome.missing, outcome.stopped) == (9, 0, None)
    assert outcome.graded.samples == 9


def test_a_model_without_eyes_is_refused_by_one_line(db: Database, tmp_path: Path) -> None:
    text_model = save_tiny_model(tmp_path / "text")
    work = plan_run(db, 1, problems=pictured(db, ["red"]))
    with pytest.raises(InputError, match=r"takes no images; name a model that does"):
        sampler(str(text_model)).fill(work, ignore)


def test_raw_text_has_no_place_for_images(db: Database, folder: str) -> None:
    work = plan_run(db, 1, problems=pictured(db, ["red"]), form="raw")
    with pytest.raises(InputError, match="raw text has no place for images"):
        sampler(folder).fill(work, ignore)


def test_what_makes_pixels_is_part_of_the_description(folder: str, tmp_path: Path) -> None:
    assert sampler(folder).describe()["images"] == "pil"
    assert "images" not in sampler(str(save_tiny_model(tmp_path))).describe()
