"""Charts on pages: the same rows are built into a specification once."""

from ui.charts.stacked_bars import stacked_bars
from ui.pages.widgets import charts

ROWS = [{"name": "format", "part": "accepted", "count": 3}]
OPTIONS = {"title": "Candidates", "colours": {"accepted": "#123456"}, "unit": "candidates"}


def test_a_chart_is_built_once_for_its_rows_and_options(monkeypatch):
    monkeypatch.setattr(charts, "_built", charts.Results())
    built = []

    def make(data, **options):
        built.append(len(data))
        return stacked_bars(data, **options)

    first = charts.cached_chart(make, ROWS, **OPTIONS)
    assert first == charts.cached_chart(make, ROWS, **OPTIONS) == stacked_bars(ROWS, **OPTIONS).to_dict()
    assert built == [1]
    assert charts.cached_chart(make, [*ROWS, {**ROWS[0], "name": "rename"}], **OPTIONS) != first
    assert charts.cached_chart(make, ROWS, **{**OPTIONS, "unit": "neighbors"}) != first
    assert built == [1, 2, 1]
