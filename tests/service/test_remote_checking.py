"""Keys, and the look at an endpoint before it is used."""

import asyncio
from typing import Any

import pytest
from openai_faults import always
from openai_server import OpenAIServer
from remote_clients import ASK, OPENAI, PRICED, QUICK, VLLM, answered, ask, failed, unused_url

from service.errors import InputError
from service.models.remote import Endpoint, EndpointCheck, RemoteClient

KEY = "zq81-Tangerine-77w"


@pytest.mark.parametrize(("model", "name"), [(OPENAI, "OPENAI_API_KEY"), (VLLM, "HOSTED_VLLM_API_KEY")])
def test_the_key_comes_from_the_environment_and_stays_there(
    model: str, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, KEY)
    server = OpenAIServer(key=KEY, answer=lambda *_: [f"Is your key {KEY}?"] * 2)
    found = answered(ask(server, model=model))
    assert server.requests[0].authorization == f"Bearer {KEY}"
    assert KEY not in found.raw
    lost = failed(ask(OpenAIServer(faults=always("unauthorized")), model=model))
    assert lost.kind == "authentication"
    assert KEY not in repr(lost)
    assert "key removed" in lost.message
    assert KEY not in caplog.text


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_a_server_of_ones_own_needs_no_key(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert answered(ask(OpenAIServer(), model=model)).attempts == 1


async def test_a_missing_key_is_named_before_and_not_retried_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async with RemoteClient(Endpoint("gpt-4-turbo"), retries=QUICK) as remote:
        problem, result = (await remote.check()).problem, await remote.complete(ASK)
    assert problem is not None
    assert "OPENAI_API_KEY" in problem
    assert failed(result).kind == "authentication"
    assert failed(result).attempts == 1


async def check(server: OpenAIServer, url: str | None = None) -> EndpointCheck:
    async with server, RemoteClient(Endpoint(VLLM, url or server.url), prices=PRICED) as remote:
        return await remote.check()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"models": ["test-model", "other"]}, None),
        ({"models": ["other"]}, "'test-model', only: other"),
        ({"models": None}, None),
        ({"key": "another"}, "refuses the key"),
    ],
)
def test_checking_an_endpoint(settings: dict[str, Any], problem: str | None) -> None:
    endpoint = asyncio.run(check(OpenAIServer(**settings)))
    assert (endpoint.structured, endpoint.price_known) == (True, True)
    assert endpoint.problem is None if problem is None else problem in (endpoint.problem or "")


def test_checking_an_endpoint_that_is_not_there() -> None:
    endpoint = asyncio.run(check(OpenAIServer(), unused_url()))
    assert "cannot be reached" in (endpoint.problem or "")


def test_an_address_with_a_password_is_refused_without_naming_it() -> None:
    with pytest.raises(InputError, match="the address of host holds a name or password") as refused:
        Endpoint(VLLM, "http://me:Tangerine-77w@host/v1")
    assert "Tangerine" not in str(refused.value)
