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


@given(SIZES, st.integers(0, 200))
def test_all_places_are_used_and_the_two_rates_get_equal_shares(sizes: dict[str, int], places: int) -> None:
    given_ = allocate(sizes, places)

    assert sum(given_.values()) == min(places, sum(sizes.values()))
    assert all(given_[name] <= sizes[name] for name in STRATA)
    for first, second in (("accepted", "rejected"), ("rejected", "accepted")):
        if given_[first] < sizes[first]:
            assert given_[second] <= given_[first] + 1
    if places >= 4:
        assert all(given_[name] >= 1 for name in STRATA if sizes[name])


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


def test_every_candidate_of_a_stratum_is_as_likely_and_the_order_says_nothing() -> None:
    strata = {"accepted": [f"c_a{i}" for i in range(10)], "rejected": [f"c_r{i}" for i in range(10)]}
    hits = dict.fromkeys(strata["accepted"], 0)
    first_accepted = 0
    for seed in range(600):
        drawn = draw(strata, size=8, seed=seed)
        first_accepted += drawn[0].status == "accepted"
        for member in drawn:
            if member.status == "accepted":
                hits[member.candidate_id] += 1

    # 600 draws with probability 4/10 and 1/2: standard deviations 12 and 12.2, four of them allowed.
    assert all(240 - 48 <= count <= 240 + 48 for count in hits.values())
    assert 300 - 49 <= first_accepted <= 300 + 49
