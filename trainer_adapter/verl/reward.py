"""The reward function that verl's reward workers call: the shared grader.

verl takes it as `reward.custom_reward_function.path=pkg://trainer_adapter.verl.reward`, loaded as a module so
that one grader serves all calls of a worker process; `reward_kwargs` has the arguments that verl lacks.
"""

import atexit
import threading
from collections.abc import Mapping
from typing import Any

from evaluator.evals.samples import shorten_answer
from evaluator.grading import AnswerKind, Grade, GradeCase, Grader, GradeValue
from evaluator.grading.extraction import LONGEST_RESPONSE
from evaluator.grading.grader import Desk
from service.engines.checkpoint import open_thought
from trainer_adapter.verl.plugin import ABOUT_FIELD

CUT_OFF_FIELD = "tagrpo_thought_cut_off"
"""In a row's `extra_info`: that its prompt ended on `<think>` and its response at the limit of tokens."""

_SLACK_S = 120.0
"""Beyond the grader's own limits: a worker that starts on a busy machine, a queue of hostile answers."""


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    boxed_only: bool = True,
    format_reward: bool = False,
    workers: int = 1,
    time_limit_s: float = 5.0,
    memory_limit_mb: int = 2048,
    grader: str = "",
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
        workers: processes that do algebra; verl has 8 reward workers, each with its own grader.
        time_limit_s: seconds that a comparison may take before it is unknown.
        memory_limit_mb: memory that a process may take in addition to what it holds at its start.
        grader: a grader of the user's own, `module:function`; it reads responses as they are, boxed or not.
        record: folder of the rollout record, if verl's own trainer trains; "" if tagrpo's does.
    """
    response, about = str(solution_str)[-LONGEST_RESPONSE:], extra_info or {}
    if about.get(CUT_OFF_FIELD) and not grader and "</think>" not in str(solution_str):
        response = open_thought(response)
    case = _case(response, ground_truth, about, boxed_only=boxed_only)
    (grade,) = await _desk(workers, time_limit_s, memory_limit_mb, grader or None).grade([case])
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
_desks: dict[tuple[int, float, int, str | None], Desk] = {}


def _desk(workers: int, time_limit_s: float, memory_limit_mb: int, own: str | None) -> Desk:
    """Return this process's desk; threads that come at the same time get the same."""
    with _lock:
        settings = workers, time_limit_s, memory_limit_mb, own
        if settings not in _desks:
            grader = Grader(workers, time_limit_s, memory_limit_mb, own=own)
            _desks[settings] = Desk(grader, time_limit_s + _SLACK_S)
            atexit.register(_desks[settings].close)
        return _desks[settings]


def _case(response: str, gold: Any, extra: Mapping[str, Any], *, boxed_only: bool) -> GradeCase:
    tolerance = extra.get("tolerance")
    return GradeCase(
        response,
        "" if gold is None else str(gold),
        AnswerKind(extra.get("answer_kind") or AnswerKind.LATEX),
        None if tolerance is None else str(tolerance),
        boxed_only,
    )
