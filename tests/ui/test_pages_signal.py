"""The page "Training signal": runs beside each other, what was not logged, slow parts."""

import json
from functools import partial

import pytest
from pages import charts, numbers, open_page, said, tables
from seeded_trainings import seeded_trainings
from training_pages import STEPS, trainings

from ui.charts.theme import PALETTE


@pytest.fixture
def filled(built):
    return built(trainings)


opened = partial(open_page, "signal")


def test_runs_stand_beside_each_other_with_their_last_shares_and_keep_their_colours(filled):
    app = opened(filled)
    assert app.multiselect[0].value == ["plain", "joint"]
    table = tables(app)[0]
    assert list(table["run"]) == ["plain", "joint"]
    assert list(table["recipe"]) == ["grpo", "ta_grpo"]
    assert list(table["joint"]) == ["30.0%", "35.0%"]
    assert list(table["last step"]) == [str(STEPS)] * 2
    drawn = charts(app)
    assert len(drawn) == 3
    assert all(PALETTE[0] in chart.spec and PALETTE[1] in chart.spec for chart in drawn)
    # The address chooses runs, whose colours stay.
    app = opened(filled, run="joint", kind="all_wrong")
    assert app.multiselect[0].value == ["joint"]
    assert list(tables(app)[0]["run"]) == ["joint"]
    assert all(PALETTE[1] in chart.spec for chart in charts(app))
    assert app.button_group[-1].value == "all_wrong"


def test_a_pilot_forecasts_what_its_groups_allow(filled):
    app = opened(filled, pilot="plain")
    assert "Forecast from training plain, steps 1 to 5 (8 questions) for G = 4, N = 1: original" in said(app)
    rules = [layer["mark"] for chart in charts(app) for layer in json.loads(chart.spec)["layer"]]
    assert [mark["strokeDash"] for mark in rules if mark["type"] == "rule"] == [[4, 3]] * 3
    assert "dashed: forecast, 95% interval" in charts(app)[0].spec
    assert "no pilot gone" in opened(filled, pilot="gone").warning[0].value


@pytest.mark.parametrize("view", ["zero", "policy", "difficulty"])
def test_a_link_to_what_is_not_there_says_so(filled, view):
    app = opened(filled, view=view, run=["joint", "gone"], of="gone")
    assert ["gone" in note.value for note in app.warning] == [True]
    assert not opened(filled, view=view, run="joint", of="joint").warning


@pytest.mark.parametrize(
    ("view", "number", "word"),
    [
        ("policy", 6, "Entropy"),
        ("anchor", 1, "neighbor 1"),  # a chart for each run with neighbors
        ("covariance", 2, "top 1%"),  # one for each run
    ],
)
def test_the_views_show_what_was_logged(filled, view, number, word):
    app = opened(filled, view=view)
    assert len(charts(app)) == number
    assert any(word in chart.spec for chart in charts(app))
    assert ("Not logged by plain." in said(app)) == (view == "anchor")


@pytest.mark.parametrize(
    ("view", "name", "source", "printed"),
    [
        ("zero", "equal-rewards", "arXiv:2601.22478 v5, Figure 3 and section 5.2", "58.4%"),
        ("covariance", "covariance", "Table 1 and section 2.2", "11.52"),
    ],
)
def test_what_a_paper_prints_stands_below(filled, view, name, source, printed):
    app = opened(filled, view=view)
    assert source not in said(app)
    app.session_state[f"printed-{name}"] = True
    app.run()
    assert source in said(app)
    assert printed in tables(app)[-1].to_numpy()


@pytest.mark.slow
def test_the_audit_is_computed_on_its_button_and_stays(filled):
    app = opened(filled, view="difficulty")
    assert not charts(app)
    app.button(key="difficulty-make").click().run()
    assert not app.exception
    assert len(charts(app)) == 1
    assert numbers(app)["neighbors"] == "8"
    assert numbers(app)["unrelated"].endswith("%")
    assert app.query_params["made"] in ("1", ["1"])


def test_diversity_of_a_stretch_named_by_the_address(filled):
    app = opened(filled, view="diversity", of="plain", made="1", **{"from": "2", "to": "3"})
    assert app.selectbox(key="bound:from").value == 2
    assert next(iter(tables(app)[0]["responses"])).startswith("original")
    assert "8 questions" in said(app)


def test_any_logged_metric_is_a_curve(filled):
    app = opened(filled, view="metrics")
    assert app.multiselect[1].value == ["tagrpo/entropy/mean", "tagrpo/kl/k3/mean"]
    assert "actor/pg_clipfrac" in app.multiselect[1].options
    (chart,) = charts(opened(filled, view="metrics", metric="actor/pg_clipfrac"))
    assert "actor/pg_clipfrac" in chart.spec
    assert not [switch for switch in app.toggle if "Seeds" in switch.label]  # no two runs differ in it alone


def test_seeds_of_one_recipe_are_one_line_with_a_band_that_is_explained(built):
    path = built(seeded_trainings)
    assert len(drawn_lines(opened(path, view="metrics", metric="actor/lr"))) == 4
    app = opened(path, view="metrics", metric="actor/lr", seeds="1")
    lines = drawn_lines(app)
    assert sorted(lines) == ["faster", "ta_grpo, 3 seeds"]
    assert lines["ta_grpo, 3 seeds"] == [
        {"label": "ta_grpo, 3 seeds", "step": 1, "value": 3.0, "low": 1.0, "high": 6.0, "n": 3},
        {"label": "ta_grpo, 3 seeds", "step": 2, "value": 4.0, "low": 2.0, "high": 6.0, "n": 3},
    ]
    (chart,) = charts(app)
    assert "mean of up to 3 seeds; band: lowest to highest" in chart.spec
    assert charts(opened(path, view="policy", seeds="1")) == []  # none of its metrics was logged


def drawn_lines(app):
    """Return the rows of the lines of the only chart, by label."""
    (chart,) = charts(app)
    spec = json.loads(chart.spec)
    rows = next(layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == "line")
    by_label = {}
    for row in rows:
        by_label.setdefault(row["label"], []).append(row)
    return by_label
