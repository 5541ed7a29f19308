"""What a log of verl says: the step it reached, and why it failed."""

import re
from collections.abc import Iterator
from pathlib import Path

_END = 400_000
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(r"^\((?:[\w.:<>]+ )?pid=\d+(?:, ip=[\d.]+)?\)\s?")
_STEP = re.compile(r"\bstep:(\d+) - ")
_TOTAL = re.compile(r"\bTotal training steps: (\d+)")
_ERROR = re.compile(r"^(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout)(?:\(\w+\))?(?::.*)?$")
_OURS = re.compile(r"(?:InputError|PrerequisiteError): ")

HINTS: tuple[tuple[str, str], ...] = (
    (
        "CUDA out of memory",
        (
            "the GPU's memory does not do: lower actor_rollout_ref.actor.ppo_max_token_len_per_gpu or "
            "actor_rollout_ref.rollout.gpu_memory_utilization, or look at `tagrpo train plan`"
        ),
    ),
    (
        "No available memory for the cache blocks",
        "vLLM has no room for its cache: raise actor_rollout_ref.rollout.gpu_memory_utilization",
    ),
    ("available GPUs 0", "Ray sees fewer GPUs than were asked for"),
    ("gated repo", "the model wants your consent on the Hub and HF_TOKEN in the environment"),
    ("No space left on device", "the disk is full"),
    ("AF_UNIX path", "Ray's folder has too long a name; set RAY_TMPDIR to a short one"),
)
"""Words of a log, and what they mean."""


def step_of(line: str) -> int | None:
    """Return the step whose metrics a line of the log shows; None where it shows none."""
    found = _STEP.search(line)
    return int(found[1]) if found else None


def total_steps_of(line: str) -> int | None:
    """Return how many steps a training has, where a line of its log says so."""
    found = _TOTAL.search(line)
    return int(found[1]) if found else None


def last_step(log: Path) -> int | None:
    """Return the last step whose metrics the log shows; None where there is none."""
    found = [int(step) for line in _lines(log) for step in _STEP.findall(line)]
    return found[-1] if found else None


def last_errors(log: Path, limit: int = 5) -> list[str]:
    """Return the last error lines of a log, oldest first, without the marks of Ray and each once.

    Where no line looks like an error, the last lines that say anything.
    """
    lines = list(_lines(log))
    errors = [line.strip() for line in lines if _ERROR.match(line.strip()) or _OURS.search(line)]
    chosen = errors or [line.strip() for line in lines if line.strip()]
    return list(dict.fromkeys(reversed(chosen)))[:limit][::-1]


def hints(log: Path) -> list[str]:
    """Return what the known error messages in a log mean."""
    text = "\n".join(_lines(log))
    return [meaning for words, meaning in HINTS if words in text]


def _lines(log: Path) -> Iterator[str]:
    """Yield the lines at the end of a log without colours and without Ray's `(worker pid=1)`."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _END))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return
    for line in text.replace("\r", "\n").split("\n"):
        yield _PREFIX.sub("", _ANSI.sub("", line))
