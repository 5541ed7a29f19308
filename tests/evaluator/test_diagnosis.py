"""One diagnosis: what is asked by default, what may be left out, and its rows."""

import pytest

from evaluator.signal.diagnosis import DiagnosisSettings, diagnose
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


@pytest.mark.parametrize(("samples", "g"), [(4, 4), (8, 8), (16, 8)])
def test_a_group_is_as_large_as_usual_or_as_the_responses_allow(samples: int, g: int) -> None:
    diagnosis = diagnose(source(samples), ["zero_gradient"])
    assert (diagnosis.g, diagnosis.n) == (g, 0)
    assert diagnose(source(samples), ["zero_gradient"], DiagnosisSettings(g=2)).g == 2


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DiagnosisSettings(n=-1), "Give 0 or more"),
        (DiagnosisSettings(shift_sd=0.7), "--assume-shift-sd needs --n N"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: DiagnosisSettings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        diagnose(source(4), ["forecast"], settings)
