"""The chart of a rate that grows with reviews."""

from rephraser.reviews.rates import GrowingRate
from ui.charts.review_rates import false_accept_chart, rate_rows

POINTS = [
    GrowingRate(1, 0, 0.0, 0.0, 0.975),
    GrowingRate(2, 1, 0.5, 0.013, 0.987),
    GrowingRate(2, 0, 0.0, 0.0, 0.842),
]


def test_the_last_point_of_each_number_is_drawn_and_all_are_downloaded():
    spec = false_accept_chart(POINTS).to_dict()
    band = spec["layer"][0]
    assert [(row["reviewed"], row["rejected"]) for row in band["data"]["values"]] == [(1, 0), (2, 0)]
    assert "0.0%, 95% interval 0.0% to 84.2%, from 2 candidates" in spec["title"]["subtitle"]
    assert [row["reviewed"] for row in rate_rows(POINTS)] == [1, 2, 2]
