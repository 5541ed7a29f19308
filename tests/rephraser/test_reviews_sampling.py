import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephraser.reviews.sampling import STRATA, allocate, draw

SIZES = st.fixed_dictionaries({name: st.integers(0, 40) for name in STRATA})


@pytest.mark.parametrize(
    ("sizes", "places", "given_"),
    [
        ({"accepted": 900, "rejected": 90, "undecided": 50}, 50, (20, 20, 0, 10)),
        ({"accepted": 900, "rejected": 90}, 50, (25, 25, 0, 0)),
        ({"accepted": 900, "rejected": 90}, 51, (26, 25, 0, 0)),
        ({"rejected": 90, "unverified": 500}, 40, (0, 20, 20, 0)),
        ({"accepted": 900, "rejected": 3, "undecided": 50}, 50, (31, 3, 0, 16)),
        ({"accepted": 4, "rejected": 3}, 50, (4, 3, 0, 0)),
        ({"accepted": 9, "rejected": 9, "unverified": 9, "undecided": 9}, 4, (1, 1, 1, 1)),
        ({}, 5, (0, 0, 0, 0)),
    ],
)
def test_places_by_stratum(sizes: dict[str, int], places: int, given_: tuple[int, ...]) -> None:
    found = allocate(sizes, places)
    assert (found["accepted"], found["rejected"], found["unverified"], found["undecided"]) == given_


@given(SIZES, st.integers(1, 60), st.integers(0, 5))
def test_a_draw_follows_its_allocation_whatever_the_order(
    sizes: dict[str, int], size: int, seed: int
) -> None:
    strata = {name: [f"c_{name}_{index}" for index in range(count)] for name, count in sizes.items()}
    turned = {name: ids[::-1] for name, ids in reversed(strata.items())}

    drawn = draw(strata, size=size, seed=seed)

    assert drawn == draw(turned, size=size, seed=seed)
    assert len({member.candidate_id for member in drawn}) == len(drawn)
    statuses = [member.status for member in drawn]
    assert {name: statuses.count(name) for name in STRATA} == allocate(sizes, size)
    assert all(member.candidate_id in strata[member.status] for member in drawn)
    assert all(member.stratum_size == sizes[member.status] for member in drawn)
