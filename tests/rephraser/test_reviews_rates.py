import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephraser.reviews.audit import STRATA, AuditMember, allocate, cohens_kappa, draw, error_rates
from rephraser.reviews.store import DecisionWord
from rephraser.tables import ReviewRow

WORDS: dict[str, DecisionWord] = {"a": "accepted", "r": "rejected"}


def members(status: str, count: int, size: int) -> list[AuditMember]:
    return [AuditMember(f"{status}{index}", status, size) for index in range(count)]


def decide(status: str, letters: str, reviewer: str = "ada", first_id: int = 0) -> list[ReviewRow]:
    """One decision a letter, on members 0, 1, ... of a stratum; "." leaves one out."""
    return [
        ReviewRow(
            id=first_id + index,
            candidate_id=f"{status}{index}",
            reviewer=reviewer,
            decision=WORDS[letter],
        )
        for index, letter in enumerate(letters)
        if letter != "."
    ]


def test_rates_by_hand() -> None:
    drawn = members("accepted", 10, 900) + members("rejected", 5, 90) + members("undecided", 2, 10)
    reviews = decide("accepted", "raaaaaaaaa") + decide("rejected", "rrrra") + decide("undecided", "ar")

    rates = error_rates(drawn, reviews)

    assert (rates["drawn"], rates["reviewed"], rates["open"], rates["complete"]) == (17, 17, 0, True)
    accept, reject = rates["false_accept"], rates["false_reject"]
    assert (accept["count"], accept["reviewed"], accept["share"]) == (1, 10, 0.1)
    assert (accept["low"], accept["high"]) == pytest.approx((0.002529, 0.445016), abs=1e-6)
    assert (reject["count"], reject["reviewed"], reject["share"]) == (1, 5, 0.2)
    assert (reject["low"], reject["high"]) == pytest.approx((0.005051, 0.716418), abs=1e-6)
    assert [(s["status"], s["size"], s["drawn"], s["rejected"]["count"]) for s in rates["strata"]] == [
        ("accepted", 900, 10, 1),
        ("rejected", 90, 5, 4),
        ("undecided", 10, 2, 1),
    ]
    # Only accepted ones may be published, so this is the false-accept rate.
    assert rates["broken"]["statuses"] == {"accepted": 900}
    assert (rates["broken"]["share"], rates["broken"]["low"], rates["broken"]["high"]) == (
        rates["false_accept"]["share"],
        rates["false_accept"]["low"],
        rates["false_accept"]["high"],
    )


def test_the_broken_share_weighs_strata_by_their_sizes() -> None:
    drawn = members("accepted", 4, 300) + members("unverified", 4, 100) + members("rejected", 4, 50)

    rates = error_rates(drawn, decide("accepted", "aaaa") + decide("unverified", "rraa"))

    assert rates["broken"]["statuses"] == {"accepted": 300, "unverified": 100}
    assert rates["broken"]["share"] == pytest.approx(0.25 * 0.5)
    # Exact 97.5% intervals: 0 of 4 reaches 1 - .0125^(1/4) = .665630; 2 of 4 goes from .047121 to .952879.
    assert rates["broken"]["low"] == pytest.approx(0.25 * 0.047121, abs=1e-5)
    assert rates["broken"]["high"] == pytest.approx(0.75 * 0.665630 + 0.25 * 0.952879, abs=1e-5)


@pytest.mark.parametrize(
    ("pairs", "kappa"),
    [
        # 2 by 2 table 20, 5, 10, 15: observed .7, by chance .5 * .6 + .5 * .4 = .5.
        ("aa" * 20 + "ar" * 5 + "ra" * 10 + "rr" * 15, 0.4),
        ("aa" * 3 + "rr" * 2, 1.0),
        ("ar" * 2 + "ra" * 2, -1.0),
        ("aa" * 9 + "ar", 0.0),
        ("aa" * 5, None),
    ],
)
def test_kappa(pairs: str, kappa: float | None) -> None:
    found = cohens_kappa([(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)])
    assert found == (None if kappa is None else pytest.approx(kappa))


SIZES = st.fixed_dictionaries({name: st.integers(0, 40) for name in STRATA})


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
