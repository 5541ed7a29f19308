"""Zero-gradient questions: all responses of the group get the same reward, so advantages are 0.

Shown is the share of questions whose responses in a group of some shape (`shapes`) all get the same reward.
"""

import numpy as np

from evaluator.signal.groups import (
    CheckpointGroups,
    Floats,
    GroupCounts,
    PartTables,
    Row,
    count_groups,
    difference_estimate,
    share_estimate,
)
from evaluator.signal.shapes import (
    JOINT_GROUP,
    MATCHED_GROUP,
    NEIGHBORS_GROUP,
    ORIGINAL_GROUP,
    GroupShape,
    ends,
    paper_shapes,
)
from service.errors import InputError


def zero_gradient(checkpoint: CheckpointGroups, g: int, n: int) -> PartTables:
    """Return the shares of equal rewards for G responses a prompt and N neighbors a question.

    If a prompt has more than G responses, the value of a question is the exact chance over random subsets of
    G (see `ends`). Visits of a question are averaged before questions are. All rows but the last are over the
    same questions: those with G known grades for the original and for at least N neighbors. `MATCHED_GROUP`
    is over those of them that have (N+1)G for the original. `bound_low` and `bound_high` are the share
    whatever the unknown grades are.
    """
    if g < 2:
        raise InputError(f"--g is {g}. A group needs at least 2 responses to have an advantage.")
    if not checkpoint.groups:
        raise InputError(f"{checkpoint.label}: the data contains no responses.")
    counts = count_groups(checkpoint.groups)
    shapes = {shape.name: shape for shape in paper_shapes(g, n)}
    values = {
        name: shape.counted(*ends(counts.correct, counts.wrong, shape.g)) for name, shape in shapes.items()
    }
    # The joint figure needs every prompt that any of the others needs.
    usable = ~np.isnan(values[JOINT_GROUP if n else ORIGINAL_GROUP])
    if not usable.any():
        raise InputError(_too_few(checkpoint.label, counts, g, n))
    values = {name: np.where(usable, value, np.nan) for name, value in values.items()}
    values = {name: value for name, value in values.items() if not np.isnan(value).all()}
    shares: list[Row] = []
    for name, value in values.items():
        shape, estimate = shapes[name], share_estimate(_by_question(counts, value))
        prompts = slice(0 if shape.original else 1, None if shape.n else 1)
        unknown = int(counts.unknown[:, prompts].sum())
        low, high = unknown_bounds(counts, shape) if unknown else (None, None)
        shares.append(
            {
                "group": name,
                "responses": shape.responses,
                "share": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "questions": estimate.questions,
                "left_out": counts.questions - estimate.questions,
                "unknown": unknown,
                "bound_low": low,
                "bound_high": high,
            }
        )
    gaps: list[Row] = []
    for name, minus in (
        (NEIGHBORS_GROUP, ORIGINAL_GROUP),
        (JOINT_GROUP, ORIGINAL_GROUP),
        (JOINT_GROUP, MATCHED_GROUP),
    ):
        if name in values and minus in values:
            gap = difference_estimate(_by_question(counts, values[name] - values[minus]))
            interval = {"low": gap.low, "high": gap.high, "questions": gap.questions}
            gaps.append({"group": name, "minus": minus, "difference": gap.value, **interval})
    notes = []
    used = len(np.unique(counts.question[usable]))
    if used < counts.questions:
        what = f"G={g} known grades for the original" + (f" and for {n} neighbors" if n else "")
        notes.append(
            f"{checkpoint.label}: {counts.questions - used} of {counts.questions} questions are excluded, "
            f"because they have fewer than {what}"
        )
    if n and MATCHED_GROUP not in values:
        most = int(counts.known[:, 0].max())
        notes.append(
            f'{checkpoint.label}: "{MATCHED_GROUP}" needs {(n + 1) * g} responses to an original, but there '
            f"are at most {most}: `tagrpo diagnose --only forecast` predicts it"
        )
    return {"zero_gradient": shares, "zero_gradient_gaps": gaps}, notes


def unknown_bounds(counts: GroupCounts, shape: GroupShape) -> tuple[float, float]:
    """Return the lowest and the highest share of a group over all ways the unknown grades may turn out."""
    most_right, least_wrong = ends(counts.correct + counts.unknown, counts.wrong, shape.g)
    least_right, most_wrong = ends(counts.correct, counts.wrong + counts.unknown, shape.g)
    low, high = shape.counted(least_right, least_wrong), shape.counted(most_right, most_wrong)
    return float(_by_question(counts, low).mean()), float(_by_question(counts, high).mean())


def _by_question(counts: GroupCounts, values: Floats) -> Floats:
    """Return the mean of each question over its visits that have a value."""
    there = ~np.isnan(values)
    return counts.rows(there).by_question(values[there])


def _too_few(label: str, counts: GroupCounts, g: int, n: int) -> str:
    original = int(counts.known[:, 0].max())
    text = f"{label}: no question has G={g} known grades for its original"
    if n:
        text += f" and for {n} neighbors"
    have = int(((counts.known[:, 1:] >= g).sum(axis=1)).max()) if counts.neighbors else 0
    return (
        f"{text} (at most {original} for an original, {have} neighbors with {g}). Give a smaller --g or "
        "--n, or sample more responses."
    )
