"""Opening the models of a command: each at one place, with enough tasks under way."""

from pathlib import Path

import pytest
from asking import OPENAI, VLLM
from openai_server import OpenAIServer

from service.asks.batch import LINES_PER_JOB
from service.engines.opening import OpenModels, RemoteSettings
from service.errors import InputError


async def test_a_model_of_several_roles_is_asked_at_one_place() -> None:
    async with OpenAIServer() as server, OpenModels(Path()) as models:
        first = await models.open(RemoteSettings(model=OPENAI, base_url=(server.url,), max_concurrency=300))
        assert await models.open(RemoteSettings(model=OPENAI)) is first
        with pytest.raises(
            InputError, match=f"{OPENAI} has two different addresses: {server.url} and http://h/v1"
        ):
            await models.open(RemoteSettings(model=OPENAI, base_url=("http://h/v1",)))
        assert (list(models.models().endpoints), models.models().at_once) == ([OPENAI], 300)


@pytest.mark.parametrize(("model", "jobs"), [(OPENAI, True), (VLLM, False)])
async def test_batch_jobs_hold_many_tasks_and_own_vllm_servers_have_none(model: str, jobs: bool) -> None:
    async with OpenAIServer() as server, OpenModels(Path()) as models:
        await models.open(RemoteSettings(model=model, base_url=(server.url,), batch=True))
        found = models.models()
        assert (list(found.backends), found.at_once) == (([OPENAI], 2 * LINES_PER_JOB) if jobs else ([], 256))
