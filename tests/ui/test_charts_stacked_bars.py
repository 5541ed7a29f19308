"""Stacked bars: parts in order, sums at the ends, empty parts left out."""

from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars

ROWS = [
    {"name": "rename", "part": "rejected", "count": 1},
    {"name": "rename", "part": "accepted", "count": 2},
    {"name": "rename", "part": "accepted", "count": 1},
    {"name": "format", "part": "undecided", "count": 0},
]


def drawn(rows):
    chart = stacked_bars(rows, title="T", colours=VERDICT_COLOURS, unit="candidates")
    return chart.to_dict()


def test_parts_are_added_and_stand_in_the_order_of_their_colours():
    bars, ends = drawn(ROWS)["layer"]
    assert [(row["part"], row["count"], row["share"]) for row in bars["data"]["values"]] == [
        ("rejected", 1, 0.25),
        ("accepted", 3, 0.75),
    ]
    scale = bars["encoding"]["color"]["scale"]
    assert scale["domain"] == ["accepted", "rejected"]  # nothing is undecided or unverified
    assert scale["range"] == [VERDICT_COLOURS["accepted"], VERDICT_COLOURS["rejected"]]
    assert ends["data"]["values"] == [{"name": "rename", "sum": 4}, {"name": "format", "sum": 0}]
