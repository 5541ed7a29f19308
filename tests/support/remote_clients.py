"""Clients of the test server with a price, quick retries and a fixed seed."""

from typing import Any

from openai_server import OpenAIServer

from service.models.remote import (
    BatchClient,
    ChatResponse,
    Endpoint,
    Failure,
    Price,
    PriceTable,
    RemoteClient,
    RetryPolicy,
)

VLLM, OPENAI = "hosted_vllm/test-model", "openai/test-model"
PRICED = PriceTable({VLLM: Price(100.0, 200.0), OPENAI: Price(100.0, 200.0)})
QUICK = RetryPolicy(attempts=3, base_s=0.01)

Got = dict[int | str, ChatResponse | Failure]


def client(
    server: OpenAIServer, model: str = VLLM, *, timeout_s: float = 20.0, **settings: Any
) -> RemoteClient:
    """Return a client for single requests."""
    settings = {"retries": QUICK, "prices": PRICED, "seed": 1, **settings}
    return RemoteClient(Endpoint(model, server.url, timeout_s), **settings)


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
