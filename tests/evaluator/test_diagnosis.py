"""One diagnosis: what is asked by default, what may be left out, and its rows."""

import pytest

from evaluator.signal.diagnosis import diagnose
from evaluator.signal.groups import CheckpointGroups, GroupTexts, PromptSample, QuestionGroup, ResponseSource
from evaluator.signal.records import diagnosis_record
from service.errors import InputError


def source(samples: int, *, checkpoints: int = 1) -> ResponseSource:
    """Return responses to six originals, with texts to none."""
    groups = tuple(
        QuestionGroup(f"q{q}", (PromptSample(0, q % (samples + 1), samples - q % (samples + 1)),))
        for q in range(6)
    )
    labels = [f"step {step}" for step in range(checkpoints)]
    return ResponseSource(
        "pilot",
        tuple(CheckpointGroups(label, groups) for label in labels),
        lambda _, ids: iter([GroupTexts(id, {}) for id in ids]),
        ("read with care",),
    )


def test_one_part_is_refused_and_among_several_it_is_left_out() -> None:
    with pytest.raises(InputError, match="0 questions have graded responses"):
        diagnose(source(4), ["difficulty"])
    diagnosis = diagnose(source(4, checkpoints=2), ["zero_gradient", "difficulty"])
    assert list(diagnosis.left_out) == ["difficulty"]
    assert len(diagnosis.shares) == 2
    record = diagnosis_record(diagnosis)
    assert record["notes"][0] == "read with care"
    assert record["notes"][-1].startswith("difficulty is left out: step 0: 0 questions")
    assert (len(record["zero_gradient"]), record["difficulty_neighbors"], record["flagged"]) == (2, [], [])
