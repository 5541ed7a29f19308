"""The one path of every paid or remote model call. Importing it imports no litellm."""

from evaluator.remote.batch import BatchClient, BatchStatus
from evaluator.remote.budget import Budget, Reservation
from evaluator.remote.client import RemoteClient
from evaluator.remote.limit import AdaptiveLimit, LimitSettings
from evaluator.remote.prices import Price, PriceTable
from evaluator.remote.redaction import redact
from evaluator.remote.retries import RetryPolicy
from evaluator.remote.types import (
    ChatRequest,
    ChatResponse,
    Choice,
    Endpoint,
    EndpointCheck,
    Failure,
    Message,
    RunOutcome,
)

__all__ = [
    "AdaptiveLimit",
    "BatchClient",
    "BatchStatus",
    "Budget",
    "ChatRequest",
    "ChatResponse",
    "Choice",
    "Endpoint",
    "EndpointCheck",
    "Failure",
    "LimitSettings",
    "Message",
    "Price",
    "PriceTable",
    "RemoteClient",
    "Reservation",
    "RetryPolicy",
    "RunOutcome",
    "redact",
]
