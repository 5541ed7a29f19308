"""Problems with images drawn by the real vLLM, offline and as a server, with a tiny model that sees."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pictures import picture
from sampling_runs import plan_run, stored_samples, stored_texts
from tiny_vision import save_tiny_vision_model
from vllm_runs import engine_processes, use_cpu_build
from vllm_server import vllm_server

from evaluator.evals.problems import Problem, make_problem
from service.database import Database
from service.models.local import LocalSampler
from service.models.remote import Endpoint
from service.models.remote.sampler import RemoteSampler
from service.models.vllm import VllmSampler
from service.questions.images import read_image, store_images

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("torchvision") is None, reason="`make test VLLM=1` has torchvision at hand"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    use_cpu_build()
    return save_tiny_vision_model(tmp_path_factory.mktemp("seeing"))


@pytest.fixture(scope="module")
def sampler(folder: Path) -> Iterator[VllmSampler]:
    before = engine_processes()
    drawing = VllmSampler(str(folder), dtype="float32")
    yield drawing
    drawing.close()
    assert engine_processes() <= before


def problems(db: Database) -> list[Problem]:
    """Return problems of one text with another picture each, one with two, and one without any."""
    images = [read_image(picture(color, (40, 40))) for color in ("red", "green", "blue")]
    images.append(read_image(picture("red", (90, 60))))
    with db.write() as session:
        store_images(session, images)
    made = [make_problem("Which <image> is it?", "1", images=[image.id]) for image in images[:3]]
    both = make_problem("Is <image> like <image>?", "1", images=[images[3].id, images[1].id])
    return [*made, both, make_problem("Which is it?", "1")]


def ignore(_count: int, _words: str) -> None:
    pass


def test_vllm_draws_what_transformers_does_and_sees_the_images(
    db: Database, sampler: VllmSampler, folder: Path
) -> None:
    settings = {"problems": problems(db), "max_tokens": 12, "temperature": 0.0}
    work = plan_run(db, 1, name="vllm", **settings)
    filled = sampler.fill(work, ignore)
    assert (filled.answered, filled.failed, filled.stopped) == (5, 0, None)
    other = plan_run(db, 1, name="local", **settings)
    LocalSampler(str(folder), device="cpu", dtype="float32").fill(other, ignore)
    assert stored_texts(work) == stored_texts(other)
    assert len(set(stored_texts(work))) == 5
    tokens = [sample.prompt_tokens for sample in stored_samples(work)]
    assert tokens == [sample.prompt_tokens for sample in stored_samples(other)]


def test_a_server_of_vllm_is_sent_the_same_images_in_the_same_places(
    db: Database, folder: Path, tmp_path: Path
) -> None:
    settings = {"problems": problems(db), "max_tokens": 12, "temperature": 0.0}
    work = plan_run(db, 1, name="server", **settings)
    with vllm_server(folder, tmp_path / "log") as url:
        sampler = RemoteSampler(Endpoint.at(f"hosted_vllm/{folder.name}", (url,)))
        filled = sampler.fill(work, ignore)
    assert (filled.answered, filled.failed, filled.stopped) == (5, 0, None)
    other = plan_run(db, 1, name="local", **settings)
    LocalSampler(str(folder), device="cpu", dtype="float32").fill(other, ignore)
    assert stored_texts(work) == stored_texts(other)
    tokens = [sample.prompt_tokens for sample in stored_samples(work)]
    assert tokens == [sample.prompt_tokens for sample in stored_samples(other)]


def test_many_samples_of_a_problem_with_images_end(db: Database, sampler: VllmSampler) -> None:
    work = plan_run(db, 12, problems=problems(db)[:4], max_tokens=12)
    filled = sampler.fill(work, ignore)
    assert (filled.failed, filled.stopped) == (0, None)
    assert len(stored_texts(work)) == 48
