"""Clients of the test server with a price, quick retries and a fixed seed."""

import asyncio
from typing import Any

from openai_server import OpenAIServer

from service.models.remote import (
    BatchClient,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    Message,
    Price,
    PriceTable,
    RemoteClient,
    RetryPolicy,
)

VLLM, OPENAI = "hosted_vllm/test-model", "openai/test-model"
PRICED = PriceTable({VLLM: Price(100.0, 200.0), OPENAI: Price(100.0, 200.0)})
QUICK = RetryPolicy(attempts=3, base_s=0.01)
ASK = ChatRequest("k", (Message("user", "What is 2 + 3?"),), n=2, temperature=0.7, max_tokens=50, seed=5)

Got = dict[int | str, ChatResponse | Failure]


def client(
    server: OpenAIServer, model: str = VLLM, *, timeout_s: float = 20.0, **settings: Any
) -> RemoteClient:
    """Return a client for single requests."""
    settings = {"retries": QUICK, "prices": PRICED, "seed": 1, **settings}
    return RemoteClient(Endpoint(model, server.url, timeout_s), **settings)


def ask(
    server: OpenAIServer, request: ChatRequest = ASK, model: str = VLLM, **settings: Any
) -> ChatResponse | Failure:
    """Return what becomes of one request to the server, which is started for it."""

    async def main() -> ChatResponse | Failure:
        async with server, client(server, model, **settings) as remote:
            return await remote.complete(request)

    return asyncio.run(main())


def unused_url() -> str:
    """Return the address of a server that is no longer there."""

    async def find() -> str:
        async with OpenAIServer() as server:
            return server.url

    return asyncio.run(find())


def batch_client(server: OpenAIServer, model: str = OPENAI, **settings: Any) -> BatchClient:
    """Return a client for batch jobs."""
    return BatchClient(Endpoint(model, server.url, 5.0), **{"retries": QUICK, "prices": PRICED, **settings})


def answered(result: ChatResponse | Failure) -> ChatResponse:
    """Return an answer that has to be one."""
    assert isinstance(result, ChatResponse), result
    return result


def failed(result: ChatResponse | Failure) -> Failure:
    """Return a failure that has to be one."""
    assert isinstance(result, Failure), result
    return result
