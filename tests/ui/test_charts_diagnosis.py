"""How hard neighbors are, and how far apart responses: charts of the rows that the diagnostics give."""

from typing import Any

from ui.charts.densities import density_chart, density_panel
from ui.charts.difficulty import difficulty_chart
from ui.charts.theme import PALETTE


def neighbor(correct: int, original: int, flag: str | None = None, **changes: Any) -> dict[str, Any]:
    row = {"group_id": "q_1", "correct": correct, "known": 8, "original_correct": original}
    return row | {"original_known": 8, "flag": flag} | changes


def values(layer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(layer["data"]["values"])


def test_difficulty_shows_equal_places_as_one_larger_circle() -> None:
    rows = [
        neighbor(4, 2),
        neighbor(4, 2),
        neighbor(8, 0, "too easy"),
        neighbor(0, 8, "too hard", group_id="q_2"),
    ]
    spec = difficulty_chart(rows).to_dict()
    diagonal, circles = spec["layer"]
    assert [(row["original"], row["neighbor"]) for row in values(diagonal)] == [(0, 0), (1, 1)]
    places = {(row["original"], row["neighbor"]): row for row in values(circles)}
    assert places[0.25, 0.5]["neighbors"] == 2
    assert places[0.25, 0.5]["area"] == 2 * places[0, 1]["area"]
    assert places[1, 0]["flag"] == "too hard"
    assert circles["encoding"]["color"]["scale"]["range"] == [PALETTE[0], PALETTE[1], PALETTE[3]]
    assert spec["title"]["subtitle"] == [
        "4 neighbors of 2 questions",
        "Mean difference +12.5 points",
        "above the dashed line: easier than the original, below: harder",
        "1 flagged too easy, 1 flagged too hard",
    ]


def test_difficulty_without_flags_names_the_sides_only() -> None:
    spec = difficulty_chart([neighbor(2, 4), neighbor(1, 1)]).to_dict()
    assert spec["title"]["subtitle"][1:] == [
        "Mean difference −12.5 points",
        "above the dashed line: easier than the original, below: harder",
    ]


def test_densities_are_overlaid_by_series_with_a_panel_a_checkpoint() -> None:
    points = [
        {"checkpoint": checkpoint, "series": series, "distance": x / 10, "density": height * x * (10 - x)}
        for checkpoint in ("step 0", "step 200")
        for series, height in (("original", 1.0), ("neighbors", 2.0))
        for x in range(11)
    ]
    spec = density_chart(points).to_dict()
    assert [panel["title"]["text"] for panel in spec["concat"]] == ["step 0", "step 200"]
    area, line, names = spec["concat"][0]["layer"]
    assert area["encoding"]["y"]["stack"] is None
    assert line["encoding"]["x"]["scale"]["domain"] == [0, 1]
    assert line["encoding"]["y"]["scale"]["domain"] == [0, 50]
    assert [row["text"] for row in values(names)] == ["neighbors", "original"]
    pixels = [row["pixel"] for row in values(names)]
    assert pixels[1] - pixels[0] >= 13
    assert len(values(line)) == 22


def test_a_panel_of_one_checkpoint_is_as_wide_as_its_place():
    points = [
        {"checkpoint": "base", "series": name, "distance": x / 4, "density": 1.0 - x / 4}
        for name in ("original, G", "neighbors, N*G")
        for x in range(5)
    ]
    spec = density_panel(points, title="Diversity").to_dict()
    assert spec["width"] == "container"
    assert spec["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["original, G", "neighbors, N*G"]
