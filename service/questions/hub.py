"""Reads a data set of the Hugging Face Hub, pinned to the commit that was read."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError, first_line
from service.questions.files import KINDS, Source, number_rows

PREFIX = "hf:"
ROWS_AT_ONCE = 100
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[\w.-]+/[\w.-]+")


def is_id(source: str) -> bool:
    """Whether a source that is no file reads like a Hub id: `org/name`, or anything after `hf:`."""
    if source.startswith(PREFIX):
        return True
    return bool(_ID.fullmatch(source)) and not source.lower().endswith(tuple(KINDS)) and source[0] not in "./"


def open_dataset(source: str, *, configs: Sequence[str], split: str | None, revision: str | None) -> Source:
    """Load a split (default `train`) of the named configurations, one after the other.

    The Hub's commit is looked up first and the data loaded at it, so that what is recorded is what was
    read. Without a network a data set that `datasets` keeps in its cache is still read, and the commit is
    that of the cache (null where it does not tell).
    """
    name = source.removeprefix(PREFIX)
    split = split or "train"
    commit, outage = _commit(name, revision)
    wanted: list[str | None] = [*configs] or [None]
    with _offline() if outage else nullcontext():
        parts = [_load(name, config, split, commit or revision, outage) for config in wanted]
    if outage:
        commit = _cached_commit(parts)
        if revision is not None and (commit is None or not commit.startswith(revision)):
            raise PrerequisiteError(
                f"{name}: the Hub is unreachable ({outage}), and the cached commit {commit or 'unknown'} "
                f'may differ from the revision "{revision}". Try again later.'
            )
    return Source(
        name=f"{name}[{split}]",
        stem=name.split("/")[-1],
        columns=tuple(dict.fromkeys(column for part in parts for column in part.column_names)),
        read=lambda wanted: number_rows(f"{name}[{split}]", _batches(parts, wanted)),
        origin={
            "source": name,
            "format": "hub",
            "configs": list(configs),
            "split": split,
            "revision": revision,
            "commit": commit,
        },
    )


def fetch_files(source: str, names: Sequence[str], revision: str | None) -> Path:
    """Return the folder in the Hub's cache that holds these files of a data set, as they are there."""
    from huggingface_hub import snapshot_download

    name = source.removeprefix(PREFIX)
    commit, outage = _commit(name, revision)
    try:
        folder = snapshot_download(
            name,
            repo_type="dataset",
            revision=commit or revision,
            allow_patterns=list(names),
            local_files_only=bool(outage),
        )
    except Exception as error:
        reason = outage or f"{type(error).__name__}: {first_line(error)}"
        raise PrerequisiteError(
            f"{name}: there is no such file, and the Hub dataset cannot be loaded ({reason}). Check the "
            "network and HF_ENDPOINT, or give a local file."
        ) from error
    return Path(folder)


def _commit(name: str, revision: str | None) -> tuple[str | None, str]:
    """Return the commit that a revision means now; or None, and why the Hub could not be asked."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        commit = huggingface_hub.HfApi().dataset_info(name, revision=revision, timeout=20).sha
        return commit, ""
    except errors.RevisionNotFoundError as error:
        raise InputError(f'{name}: the Hub has no revision "{revision}" of this dataset.') from error
    except errors.GatedRepoError as error:
        raise PrerequisiteError(
            f"{name}: request access on the dataset's Hub page, then log in with `hf auth login` or set "
            "HF_TOKEN."
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise InputError(
            f"{name}: there is no such file, and no such dataset on the Hub. If it is private, log in with "
            "`hf auth login` or set HF_TOKEN."
        ) from error
    except Exception as error:
        # No network, or an outage: the cache may still have the data set.
        return None, f"{type(error).__name__}: {first_line(error)}"


@contextmanager
def _offline() -> Iterator[None]:
    """Let `datasets` look into its cache only: without a network it would try for half a minute first."""
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _load(name: str, config: str | None, split: str, revision: str | None, outage: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(name, config, split=split, revision=revision)
    except Exception as error:
        if outage:
            raise PrerequisiteError(
                f"{name}: there is no such file, the Hub cannot be reached ({outage}), and the dataset is "
                "not in the cache. Check the network and HF_ENDPOINT, or give a local file."
            ) from error
        if isinstance(error, ValueError):
            # Names of configurations and splits: the message of `datasets` lists those there are.
            raise InputError(f"{name}: {first_line(error)} (see --config and --split)") from error
        raise PrerequisiteError(
            f"{name}: the Hub dataset cannot be loaded ({type(error).__name__}: {first_line(error)})."
        ) from error


def _cached_commit(parts: Sequence[Any]) -> str | None:
    """The commit in the paths of the cache, where all parts agree on one."""
    files = [Path(file["filename"]) for part in parts for file in part.cache_files]
    commits = {step for file in files for step in file.parts if _COMMIT.fullmatch(step)}
    return commits.pop() if len(commits) == 1 else None


def _batches(parts: Sequence[Any], wanted: Sequence[str] | None) -> Iterator[Any]:
    for part in parts:
        present = [column for column in part.column_names if wanted is None or column in wanted]
        # As Arrow has them: images as their bytes, which `datasets` would decode, whatever they hold.
        yield from part.select_columns(present).with_format("arrow").iter(ROWS_AT_ONCE)
