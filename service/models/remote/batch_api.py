"""The pages of OpenAI-style servers for files and batch jobs.

Through the openai package, which litellm is built on: litellm's own functions for batch jobs make a client
for each call that nobody closes, and download the results of a finished job once more to price it.
"""

from typing import Any

import openai

from service.errors import PrerequisiteError
from service.models.remote.types import Endpoint

PAGE = 100


class BatchApi:
    """Files and batch jobs at one address. Close it after use."""

    def __init__(self, endpoint: Endpoint, provider: str, key: str) -> None:
        """Prepare; nothing is sent.

        Raises:
            PrerequisiteError: the provider has its own kind of batch jobs, or none.
        """
        if endpoint.api_base is None and provider != "openai":
            raise PrerequisiteError(
                f"batch jobs for {endpoint.model}: {provider} does not offer them in OpenAI's way; leave "
                "--batch out, or give --api-base of a server that does."
            )
        self._client = openai.AsyncOpenAI(
            api_key=key, base_url=endpoint.api_base, timeout=endpoint.timeout_s, max_retries=0
        )

    async def upload(self, name: str, content: bytes) -> str:
        """Store the file of a job; return its id."""
        return (await self._client.files.create(file=(name, content), purpose="batch")).id

    async def create(self, file_id: str, metadata: dict[str, str]) -> Any:
        """Start a job of chat completions; return OpenAI's batch object."""
        return await self._client.batches.create(
            completion_window="24h",
            endpoint="/v1/chat/completions",
            input_file_id=file_id,
            metadata=metadata,
        )

    async def read(self, job_id: str) -> Any:
        """Return OpenAI's batch object."""
        return await self._client.batches.retrieve(job_id)

    async def page(self, after: str | None) -> Any:
        """Return a page of batch objects, newest first, after the one with this id."""
        return await self._client.batches.list(after=after or openai.omit, limit=PAGE)

    async def download(self, file_id: str) -> bytes:
        """Return the content of a file."""
        return (await self._client.files.content(file_id)).content

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
