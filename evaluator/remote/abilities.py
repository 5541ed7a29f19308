"""What litellm says a model supports, without asking the model."""

from evaluator.remote.types import Endpoint


def supports_structured_output(endpoint: Endpoint) -> bool:
    """Return whether a request to this endpoint would carry its response schema; nothing is sent.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    from evaluator.remote.backend import open_backend

    return open_backend(endpoint).structured
