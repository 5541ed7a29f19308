"""What litellm says a model supports, without asking the model."""

from evaluator.errors import PrerequisiteError
from evaluator.remote.types import Endpoint


def supports_structured_output(endpoint: Endpoint) -> bool:
    """Return whether a request to this endpoint would carry its response schema; nothing is sent.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    from evaluator.remote import backend

    try:
        return backend.Backend(endpoint).structured
    except Exception as error:
        raise PrerequisiteError(
            f"model {endpoint.model!r} has no provider that litellm knows: spell it as in gpt-4-turbo, "
            "openai/NAME (any server that speaks OpenAI's protocol) or hosted_vllm/NAME."
        ) from error
