"""Runs in the database: created once, found by name or id, keyed by all result-shaping settings."""

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import count, islice
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from service.database import in_parts, utc_now
from service.errors import InputError, NotFoundError, suggest
from service.hashing import content_hash, content_id
from service.runs.tables import RunConfigRow, RunQuestionRow, RunRow

_PACKAGES = (
    *("tagrpo", "litellm", "math-verify", "latex2sympy2_extended", "sympy", "datasets", "sqlalchemy"),
    *("torch", "transformers", "vllm"),
)
_NAME = re.compile(r"[^\W_][\w.-]{0,99}")
_LONGEST_SHOWN = 160


@dataclass(frozen=True)
class Run:
    """A run as stored."""

    id: str
    name: str
    kind: str
    spec: dict[str, Any]
    versions: dict[str, Any]
    created_at: str
    finished_at: str | None


def check_name(name: str) -> str:
    """Return `name` where it may name a run, set or tag; raise `InputError` otherwise."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a valid name. Use at most 100 letters, digits, '.', '_' and '-', and start "
            "with a letter or digit."
        )
    return name


def default_name(stem: str) -> str:
    """Return a file's name as the name of a run or set: other characters become "-"."""
    return re.sub(r"[^\w.-]+", "-", stem).strip("-._")[:100]


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that shape results."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def open_run(
    session: Session,
    *,
    name: str,
    kind: str,
    spec: Mapping[str, Any],
    question_ids: Sequence[str],
    versions: Mapping[str, Any] | None = None,
) -> tuple[Run, int | None]:
    """Return the run with this name, and how many questions it had before; None if it is new.

    One that holds the first of these questions gets the others too: a trial grows, and what it has stays.
    `question_ids` may be empty: an eval run's problems have their own table, and their hash is in `spec`.
    """
    row, before = session.scalar(select(RunRow).where(RunRow.name == check_name(name))), None
    if row is None:
        row = RunRow(
            id=_run_id(session, name, kind, spec, question_ids),
            name=name,
            kind=kind,
            spec=dict(spec),
            versions=dict(package_versions() if versions is None else versions),
            created_at=utc_now(),
        )
        session.add(row)
        session.flush()
        session.refresh(row)  # with the spec as JSON keeps it
    else:
        # Not by the id, which a renamed run keeps.
        same = content_hash("spec", row.spec) == content_hash("spec", dict(spec)) and row.kind == kind
        there = run_question_ids(session, row.id)
        before = len(there)
        if not same or there != list(question_ids)[:before]:
            raise InputError(_difference(session, row, spec, question_ids))
    for part in in_parts(islice(enumerate(question_ids), before or 0, None)):
        rows = [{"run_id": row.id, "position": place, "question_id": each} for place, each in part]
        session.execute(insert(RunQuestionRow), rows)
    return as_run(row), before


_KINDS = {None: "", "propose": "rephrasing ", "eval": "eval ", "judge": "judging ", "train": "training "}
_LISTS = {kind: f"`tagrpo runs list{f' --kind {kind}' if kind else ''}`" for kind in _KINDS}


def find_run(session: Session, reference: str | None, kind: str | None = None) -> Run:
    """Return the only run of `matching_runs`; without a reference, the only one of this kind."""
    if reference is None:
        matching, which = list_runs(session, kind), "there are several runs"
    else:
        matching, which = matching_runs(session, reference, kind), f"{reference} matches several runs"
    if not matching:
        raise InputError(f"there are no {_KINDS[kind]}runs yet. {_LISTS[kind]} shows how to start one.")
    if len(matching) > 1:
        raise InputError(f"{which}. Choose one: {', '.join(sorted(run.name for run in matching))}.")
    return matching[0]


def matching_runs(session: Session, reference: str, kind: str | None = None) -> list[Run]:
    """Return the run (of a kind) with this name or beginning of an id, otherwise all named REFERENCE.*."""
    row = session.scalar(select(RunRow).where((RunRow.name == reference) | (RunRow.id == reference)))
    if row is not None and kind in (None, row.kind):
        return [as_run(row)]
    of_kind = list_runs(session, kind)
    matching = [run for run in of_kind if reference.startswith("run_") and run.id.startswith(reference)]
    if len(matching) != 1:
        matching = [run for run in of_kind if run.name.startswith(f"{reference}.")]
    if matching:
        return sorted(matching, key=lambda run: run.name)
    if row is not None:
        raise InputError(
            f"run {row.name!r} is of kind {row.kind}, not {kind}. `tagrpo runs list --kind {kind}` lists the "
            "runs that you can name."
        )
    names = [run.name for run in of_kind]
    others = suggest(reference, names, "" if names else f"This database has none. See {_LISTS[kind]}.")
    raise NotFoundError(f"there is no {_KINDS[kind]}run {reference!r}. {others}")


def list_runs(session: Session, kind: str | None = None) -> list[Run]:
    """Return all runs, or those of a kind, oldest first."""
    of_kind = () if kind is None else (RunRow.kind == kind,)
    rows = session.scalars(select(RunRow).where(*of_kind).order_by(RunRow.created_at, RunRow.id))
    return [as_run(row) for row in rows]


def run_question_ids(session: Session, run_id: str) -> list[str]:
    """Return the ids of the run's questions in order."""
    query = select(RunQuestionRow.question_id).where(RunQuestionRow.run_id == run_id)
    return list(session.scalars(query.order_by(RunQuestionRow.position)))


def finish_run(session: Session, run_id: str, *, finished: bool) -> None:
    """Note when the run was done, unless it has been since then, or that it is open again."""
    finished_at = func.coalesce(RunRow.finished_at, utc_now()) if finished else None
    session.execute(update(RunRow).where(RunRow.id == run_id).values(finished_at=finished_at))


def rename_run(session: Session, run: Run, name: str) -> None:
    """Rename the run; its id and references to it stay."""
    if session.scalar(select(RunRow.id).where(RunRow.name == check_name(name))) is not None:
        raise InputError(f"a run {name!r} already exists. Choose another name or remove that run.")
    session.execute(update(RunRow).where(RunRow.id == run.id).values(name=name))


def keep_config(session: Session, run_id: str, config: Mapping[str, Any]) -> None:
    """Keep the config of a run, in place of an earlier one."""
    session.merge(RunConfigRow(run_id=run_id, folder=os.getcwd(), config=dict(config)))


def as_run(row: RunRow) -> Run:
    """Return a stored run as a value."""
    return Run(row.id, row.name, row.kind, row.spec, row.versions, row.created_at, row.finished_at)


def _run_id(
    session: Session, name: str, kind: str, spec: Mapping[str, Any], question_ids: Sequence[str]
) -> str:
    """Return the id of a new run; one that was renamed may have that of its first name."""
    questions_hash = content_hash("questions", list(question_ids))
    content: dict[str, Any] = {"name": name, "kind": kind, "spec": dict(spec), "questions": questions_hash}
    ids = (content_id("run", {**content, "copy": copy} if copy else content) for copy in count())
    return next(each for each in ids if session.get(RunRow, each) is None)


def changed_settings(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the settings in which two specs differ, as `key (1 stored, 2 given)`."""
    return [*differing_settings({"stored": stored, "given": given}).values()]


def differing_settings(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the settings in which specs differ, by key; the name of each spec follows its value."""
    flat = {name: dict(_settings(spec)) for name, spec in specs.items()}
    differing = {}
    for key in sorted({key for settings in flat.values() for key in settings}):
        first, *others = ([settings[key]] if key in settings else [] for settings in flat.values())
        if any(other != first for other in others):
            values = (f"{_shorten(settings, key)} {name}" for name, settings in flat.items())
            differing[key] = f"{key} ({', '.join(values)})"
    return differing


def _difference(session: Session, row: RunRow, spec: Mapping[str, Any], question_ids: Sequence[str]) -> str:
    changed = changed_settings(row.spec, spec)
    if not changed:
        there, now = len(run_question_ids(session, row.id)), len(question_ids)
        changed = [f"its questions ({there:,} stored, {now:,} given)" if there != now else "its questions"]
        if now < there:
            changed[0] += "; a larger --limit can extend a run, but a smaller one cannot shrink it"
    return (
        f"run {row.name!r} exists with other settings: {'; '.join(changed)}. Choose another --name, or "
        "repeat the stored settings to continue the run."
    )


def _settings(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single settings of a spec by path; ids and hashes, which only follow from them, are left."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in {"id", "hash"}:
                yield from _settings(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value, start=1):
            yield from _settings(inner, f"{path}.{number}")
    else:
        yield path, list(value) if isinstance(value, tuple) else value


def _shorten(settings: Mapping[str, Any], key: str) -> str:
    text = repr(settings[key]) if key in settings else "not set"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
