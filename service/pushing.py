"""Pushing an exported folder to the Hub. The token is read from the environment only."""

import os
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError

TOKEN_VARIABLE = "HF_TOKEN"


def check_push(repository: str) -> None:
    """Refuse a push that cannot succeed, before anything is written.

    Raises:
        PrerequisiteError: no token in the environment.
        InputError: not a repository's name.
    """
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise InputError(f"--push {repository}: not a valid repository name (OWNER/NAME): {error}") from error
    if not os.environ.get(TOKEN_VARIABLE):
        raise PrerequisiteError(
            f"pushing to the Hub needs a token with write access in the environment variable "
            f"{TOKEN_VARIABLE} (make one at https://huggingface.co/settings/tokens)."
        )


def push_folder(folder: Path, repository: str, *, message: str, private: bool) -> str:
    """Upload an exported folder as one commit; data files of an earlier version are removed in it.

    Returns:
        The address of the repository.

    Raises:
        PrerequisiteError: the Hub cannot be reached or refuses; the message never holds the token.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    token = os.environ[TOKEN_VARIABLE]
    api: Any = HfApi(token=token)
    try:
        address = api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(
            folder_path=str(folder),
            repo_id=repository,
            repo_type="dataset",
            commit_message=message,
            delete_patterns=["data/*"],
        )
    except HfHubHTTPError as error:
        raise PrerequisiteError(_explain(repository, folder, error, token, "the Hub refused")) from error
    except (httpx.HTTPError, OSError) as error:
        raise PrerequisiteError(
            _explain(repository, folder, error, token, "the Hub cannot be reached")
        ) from error
    return str(address)


def _explain(repository: str, folder: Path, error: Exception, token: str, what: str) -> str:
    reason = " ".join(str(error).split()).replace(token, f"${TOKEN_VARIABLE}")
    return (
        f"--push {repository}: {what} ({reason}). The export in {folder} is complete; to push it later "
        "run the same command with --overwrite."
    )
