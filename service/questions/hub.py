"""Reads a data set of the Hugging Face Hub, pinned to the commit that was read."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path

from service.errors import InputError, PrerequisiteError, first_line
from service.questions.files import KINDS, Rows, Source, number_rows, open_file

PREFIX = "hf:"
ROWS_AT_ONCE = 100
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[\w.-]+/[\w.-]+")


def is_id(source: str) -> bool:
    """Whether a source that is no file reads like a Hub id: `org/name`, or anything after `hf:`."""
    if source.startswith(PREFIX):
        return True
    return bool(_ID.fullmatch(source)) and not source.lower().endswith(tuple(KINDS)) and source[0] not in "./"


def open_source(
    source: str, configs: Sequence[str] = (), split: str | None = None, revision: str | None = None
) -> Source:
    """Open a file, or a data set of the Hub if no such file exists and the name reads like an id."""
    path = Path(source)
    if not path.exists() and is_id(source):
        return open_dataset(source, configs=configs, split=split, revision=revision)
    if configs or split or revision:
        raise InputError(f"{source}: --config, --split and --revision apply to Hub datasets only.")
    return open_file(path, " or a Hub dataset id like org/name")


def open_dataset(source: str, *, configs: Sequence[str], split: str | None, revision: str | None) -> Source:
    """Load a split (default `train`) of the named configurations, one after the other.

    The Hub's commit is looked up first and the data loaded at it, so that what is recorded is what was
    read. Without a network a data set that `datasets` keeps in its cache is still read, and the commit is
    that of the cache (null if it does not tell).
    """
    import datasets

    name, split = source.removeprefix(PREFIX), split or "train"
    commit, outage = _commit(name, revision)
    wanted: list[str | None] = [*configs] or [None]
    try:
        with _offline() if outage else nullcontext():
            at = commit or revision
            parts = [datasets.load_dataset(name, each, split=split, revision=at) for each in wanted]
    except Exception as error:
        if isinstance(error, ValueError) and not outage:
            # Names of configurations and splits: the message of `datasets` lists those there are.
            raise InputError(f"{name}: {first_line(error)} (see --config and --split)") from error
        raise _unavailable(name, error, outage) from error
    if outage:
        # The cache has the commit in its paths.
        files = [Path(file["filename"]) for part in parts for file in part.cache_files]
        commits = {step for file in files for step in file.parts if _COMMIT.fullmatch(step)}
        commit = commits.pop() if len(commits) == 1 else None
        if revision is not None and (commit is None or not commit.startswith(revision)):
            raise PrerequisiteError(
                f"{name}: the Hub is unreachable ({outage}), and the cached commit {commit or 'unknown'} "
                f'may differ from the revision "{revision}". Try again later.'
            )

    def read(names: Sequence[str] | None) -> Rows:
        batches = (
            # As Arrow has them: images as their bytes, which `datasets` would decode, whatever they hold.
            part.select_columns([each for each in part.column_names if names is None or each in names])
            .with_format("arrow")
            .iter(ROWS_AT_ONCE)
            for part in parts
        )
        return number_rows(f"{name}[{split}]", chain.from_iterable(batches))

    columns = tuple(dict.fromkeys(column for part in parts for column in part.column_names))
    read_from = {"source": name, "format": "hub", "configs": [*configs], "split": split}
    origin = {**read_from, "revision": revision, "commit": commit}
    return Source(f"{name}[{split}]", name.split("/")[-1], columns, read, origin)


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
        raise _unavailable(name, error, outage) from error
    return Path(folder)


def _unavailable(name: str, error: Exception, outage: str) -> PrerequisiteError:
    reason = outage or f"{type(error).__name__}: {first_line(error)}"
    return PrerequisiteError(
        f"{name}: there is no such file, and the Hub dataset cannot be loaded or is not in the "
        f"cache ({reason}). Check the network and HF_ENDPOINT, or give a local file."
    )


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
