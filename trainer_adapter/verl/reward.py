"""The reward function that verl's reward workers call: the shared grader.

verl takes it as `reward.custom_reward_function.path=pkg://trainer_adapter.verl.reward`, loaded as a module so
that one grader serves all calls of a worker process; `reward_kwargs` has the arguments that verl lacks.
"""

import atexit
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluator.evals.samples import shorten_answer
from evaluator.grading import AnswerKind, Grade, GradeCase, Grader, GradeValue
from evaluator.grading.extraction import LONGEST_RESPONSE, open_thought
from evaluator.grading.grader import Desk
from trainer_adapter.verl.plugin import ABOUT_FIELD

CUT_OFF_FIELD = "tagrpo_thought_cut_off"
"""In a row's `extra_info`: that its prompt ended on `<think>` and its response at the limit of tokens."""

_SLACK_S = 120.0
"""Beyond the grader's own limits: a worker that starts on a busy machine, a queue of hostile answers."""


@dataclass(frozen=True)
class GraderSettings:
    """The grader of a reward worker process."""

    workers: int = 1  # processes that do algebra; verl has 8 reward workers, each with its own grader
    time_limit_s: float = 5.0  # seconds a comparison may take before it is unknown
    memory_limit_mb: int = 2048  # memory a process may take on top of what it holds at its start
    own: str = ""  # a grader of the user's own, `module:function`, in place of the rules; "" for the rules


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    boxed_only: bool = True,
    format_reward: bool = False,
    workers: int = GraderSettings.workers,
    time_limit_s: float = GraderSettings.time_limit_s,
    memory_limit_mb: int = GraderSettings.memory_limit_mb,
    grader: str = GraderSettings.own,
    record: str = "",
    **_: Any,
) -> dict[str, Any]:
    r"""Return the reward of a response, in the form verl keeps as `reward_extra_info`.

    score and acc are 1.0 for a correct answer, else 0.0; no shaping changes acc. unknown is 1.0 if the grader
    could not tell, reason explains the grade, extracted is the answer that was read. A response without an
    answer, or that ends in a thought that its prompt opened, is wrong. Nothing in a response raises or hangs.

    Args:
        ground_truth: the gold answer, bare or in a `\boxed{}`.
        extra_info: of the row; `answer_kind`, `tolerance` and `CUT_OFF_FIELD` are read.
        boxed_only: only an answer in a `\boxed{}` counts, not a sentence that happens to contain the gold.
        format_reward: add 1 to the score and `format` if a response thinks between tags.
        grader: see `GraderSettings`; it reads responses as they are, boxed or not.
        record: folder of the rollout record, if verl's own trainer trains; "" if tagrpo's does.
    """
    response, about = str(solution_str)[-LONGEST_RESPONSE:], extra_info or {}
    if about.get(CUT_OFF_FIELD) and not grader and "</think>" not in str(solution_str):
        response = open_thought(response)
    case = _case(response, ground_truth, about, boxed_only=boxed_only)
    (grade,) = await _desk(GraderSettings(workers, time_limit_s, memory_limit_mb, grader)).grade([case])
    reward = to_reward(grade)
    if format_reward:
        reward["format"] = 1.0 if thinks_between_tags(str(solution_str)) else 0.0
        reward["score"] += reward["format"]
    if record and "uid" in about.get(ABOUT_FIELD, ()):
        from trainer_adapter.verl.plugin.steps.recording import leave_response

        leave_response(record, about[ABOUT_FIELD], str(solution_str), reward)
    return reward


def thinks_between_tags(response: str) -> bool:
    """Return whether a response closes `<think>` once, after opening it at most once.

    Chat templates of reasoning models open it themselves, at the end of the prompt.
    """
    opened, closed = response.count("<think>"), response.count("</think>")
    return (
        closed == 1 and opened <= 1 and (not opened or response.find("<think>") < response.find("</think>"))
    )


def to_reward(grade: Grade) -> dict[str, Any]:
    """Return a grade as verl's reward dictionary; the same keys and types for every grade."""
    correct = 1.0 if grade.value is GradeValue.CORRECT else 0.0
    return {
        "score": correct,
        "acc": correct,
        "unknown": 1.0 if grade.value is GradeValue.UNKNOWN else 0.0,
        "reason": grade.reason,
        "extracted": shorten_answer(grade.extracted) or "",
    }


_lock = threading.Lock()
_shared: tuple[GraderSettings, Desk] | None = None


def _desk(settings: GraderSettings) -> Desk:
    """Return this process's desk; it may be used from several event loops."""
    global _shared
    with _lock:
        if _shared is None:
            limits = settings.workers, settings.time_limit_s, settings.memory_limit_mb
            grader = Grader(*limits, own=settings.own or None)
            _shared = settings, Desk(grader, settings.time_limit_s + _SLACK_S)
            atexit.register(_shared[1].close)
        if _shared[0] != settings:
            raise ValueError(f"this process already grades with {_shared[0]}, not with {settings}")
        return _shared[1]


def close_service() -> None:
    """Stop this process's grader; the next call starts another."""
    global _shared
    with _lock:
        held, _shared = _shared, None
    if held is not None:
        held[1].close()
        atexit.unregister(held[1].close)


def _case(response: str, gold: Any, extra: Mapping[str, Any], *, boxed_only: bool) -> GradeCase:
    tolerance = extra.get("tolerance")
    return GradeCase(
        response,
        "" if gold is None else str(gold),
        AnswerKind(extra.get("answer_kind") or AnswerKind.LATEX),
        None if tolerance is None else str(tolerance),
        boxed_only,
    )
