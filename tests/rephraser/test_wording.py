import pytest

from rephraser.checks import CheckOptions, check_candidate
from rephraser.checks.wording import MIN_DISTANCE, choose_apart, distance, likeness, wording

QUESTION = "Nora bakes 24 rolls and gives 9 of them to her aunt. How many rolls are left on the tray?"
SWAPPED = "Nora bakes 24 rolls and gives 9 of them to her aunt. How many rolls remain on the tray?"
OTHER = "After handing 9 rolls to an aunt, what number stays on Nora's tray, if 24 came out of the oven?"


def test_likeness_is_the_share_of_words_in_common_in_order() -> None:
    assert likeness("a b c d", "a b c e") == 0.75
    assert likeness("a b c d", "d c b a") == 0.25
    assert likeness("A b.", "a, B!") == 1.0
    assert likeness("", "...") == 1.0
    assert distance("a b", "c d") == 1.0


@pytest.mark.parametrize(
    ("candidate", "siblings", "finding"),
    [
        (SWAPPED, (), "too_like_original"),
        (OTHER.replace("handing", "passing"), (OTHER,), "too_like_sibling"),
        (OTHER, (), None),
    ],
)
def test_what_is_too_like_is_refused_with_the_distance(
    candidate: str, siblings: tuple[str, ...], finding: str | None
) -> None:
    options = CheckOptions(min_distance=MIN_DISTANCE)
    found = check_candidate(QUESTION, candidate, siblings=siblings, options=options)
    like = [one for one in found if one.name.startswith("too_like")]
    assert [one.name for one in like] == ([] if finding is None else [finding])
    assert all("at least 15%" in one.detail for one in like)
    assert not any(one.name.startswith("too_like") for one in check_candidate(QUESTION, candidate))


def apart(question: str, texts: list[str], n: int | None = None, least: float = 0.0) -> list[int]:
    candidates = [wording(text) for text in texts]
    return choose_apart(wording(question), candidates, [()] * len(texts), n, least)[0]


def test_the_next_one_is_furthest_from_all_that_is_chosen() -> None:
    # 2 is furthest from the question; 1 is nearly 2, so 0 comes next although it is nearer to the question
    assert apart("a b c d", ["a b x y", "p q r a", "p q r s"], n=2) == [2, 0]
    assert apart("a b c d", ["a b x y", "p q r a", "p q r s"]) == [2, 0, 1]
