"""What litellm says a model supports, without asking the model."""

from collections.abc import Mapping
from typing import Any

from service.errors import PrerequisiteError
from service.models.remote.types import Endpoint


def enforces_schema(endpoint: Endpoint) -> bool:
    """Return whether every answer of this endpoint keeps to the schema it is given; nothing is sent.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    from service.models.remote.backend import open_backend

    return open_backend(endpoint).enforces_schema


def supports_n(endpoint: Endpoint) -> bool:
    """Return whether several answers can be asked for in one request; nothing is sent.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    from service.models.remote.backend import open_backend

    return open_backend(endpoint).sends("n")


def check_abilities(endpoint: Endpoint, *, raw_text: bool, extra: Mapping[str, Any]) -> None:
    """See that raw text, and fields of a server's own, would reach this endpoint; nothing is sent.

    Raises:
        PrerequisiteError: they would not, or litellm does not understand the model's spelling.
    """
    from service.models.remote.backend import open_backend

    backend = open_backend(endpoint)
    if raw_text and not backend.takes_raw_text:
        raise PrerequisiteError(
            f"{endpoint.model}: raw text cannot be continued at {backend.provider}, it takes chats only; "
            "give a chat prompt, or a server with /completions as hosted_vllm/NAME with --api-base."
        )
    if extra and not backend.takes_extra:
        names = ", ".join(sorted(extra))
        raise PrerequisiteError(
            f"{endpoint.model}: {backend.provider} takes no {names}; that belongs to servers of one's own, "
            "as hosted_vllm/NAME with --api-base. Without it: --chat-template-kwargs '{}'."
        )
