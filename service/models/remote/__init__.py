"""The one path of every paid or remote model call. Importing it imports no litellm."""

from service.models.remote.batch import BatchClient, BatchStatus
from service.models.remote.budget import Budget, Reservation
from service.models.remote.client import RemoteClient
from service.models.remote.limit import AdaptiveLimit, LimitSettings
from service.models.remote.prices import Price, PriceTable
from service.models.remote.redaction import redact
from service.models.remote.retries import RetryPolicy
from service.models.remote.types import (
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
