"""The one path of every paid or remote model call. Importing it imports no litellm."""

from service.models.remote.batch import BatchClient, BatchStatus
from service.models.remote.chat import ChatRequest, ChatResponse, Choice, Endpoint, Failure, Message
from service.models.remote.client import RemoteClient
from service.models.remote.endpoint import EndpointCheck
from service.models.remote.faults import RetryPolicy
from service.models.remote.money import Budget, Price, PriceTable
from service.models.remote.redaction import redact
from service.models.remote.servers.limit import AdaptiveLimit, LimitSettings
from service.models.remote.stream import RunOutcome

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
    "RetryPolicy",
    "RunOutcome",
    "redact",
]
