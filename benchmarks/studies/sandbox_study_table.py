"""The tables of `docs/studies/recipes.md` and its picture, from the study's CSV or the plain loop's.

Intervals are for new seeds and new questions of the same kind together: the variance of either recipe's mean
over seeds and that of their difference over questions (seeds averaged first) are added, with Satterthwaite's
degrees of freedom. What seeds differ by is in the second too, so that they are rather too wide.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from benchmarks.harness import ROOT, interval
from benchmarks.studies.sandbox_study import BASE, Point, read_summary
from benchmarks.studies.sandbox_study_plan import TUNING
from benchmarks.studies.sandbox_world import SAMPLES
from evaluator.passk.counts import values_over_k
from ui.charts.building import apply_theme, data_of
from ui.charts.saving import save_chart
from ui.charts.theme import PALETTE

DATA = ROOT / "docs" / "data" / "sandbox-study.csv"
PLAIN = DATA.with_name("sandbox-plain.csv")
SHOWN = (1, 8, 32)
COMPARED = ("grpo", "grpo_1")
"""With whom the others of a world are compared."""

Rows = Mapping[Point, Mapping[str, Any]]
Group = tuple[str, str, float, int]
"""World, recipe, rate, steps."""


def grouped(rows: Rows, *, tuning: bool) -> dict[Group, list[Mapping[str, Any]]]:
    """Return the rows of each recipe, seed by seed: those that rates are chosen from, or all others."""
    groups: dict[Group, list[Mapping[str, Any]]] = defaultdict(list)
    for point in sorted(rows):
        if (point.seed in TUNING) == tuning:
            groups[point.world, point.recipe, point.rate, point.steps].append(rows[point])
    return dict(groups)


def values(rows: Sequence[Mapping[str, Any]], k: int) -> Any:
    """Return pass@k of each seed and question [S, M]."""
    correct = np.array([[int(count) for count in row["correct"].split()] for row in rows])
    totals = np.full(correct.shape[1], SAMPLES)
    return np.array([values_over_k(totals, each, (k,))[0] for each in correct])


def difference(ours: Any, theirs: Any) -> tuple[float, float, float]:
    """Return the mean of ours [S, M] minus theirs [T, M] with its interval; NaN where either has one seed."""
    by_question = ours.mean(0) - theirs.mean(0)
    mean = float(by_question.mean())
    if min(len(ours), len(theirs)) < 2:
        return mean, math.nan, math.nan
    return interval(mean, (ours.mean(1), theirs.mean(1), by_question))


def rates_table(rows: Rows) -> list[str]:
    """Return the lines of a Markdown table: pass@1 of the tuning seeds at each rate."""
    groups = grouped(rows, tuning=True)
    if not groups:
        return []
    rates = sorted({rate for _, _, rate, _ in groups})
    lines = [_line("world", "recipe", *(f"{rate:g}" for rate in rates)), _line(*["---"] * (2 + len(rates)))]
    for world, recipe in sorted({(world, recipe) for world, recipe, _, _ in groups}):
        scores = []
        for rate in rates:
            tuned = [each for who, each in groups.items() if who[:3] == (world, recipe, rate)]
            scores.append(", ".join(_share(float(row["pass@1"])) for each in tuned for row in each))
        lines.append(_line(world, recipe, *scores))
    return lines


def table(rows: Rows, compared: Sequence[str] = COMPARED) -> list[str]:
    """Return the lines of a Markdown table: one a world, number of steps and recipe."""
    groups = grouped(rows, tuning=False)
    head = ["world", "responses", "recipe", "rate", "seeds", "groups without gradient", "minutes"]
    head += [f"pass@{k}" for k in SHOWN] + [f"pass@{k} minus {compared[0]}" for k in SHOWN]
    lines = [_line(*head), _line(*["---"] * len(head))]
    order = sorted(groups, key=lambda who: (who[0], who[3], who[1] not in compared, who[1], who[2]))
    for who in order:
        world, recipe, rate, steps = who
        others = [each for each in groups if (each[0], each[3]) == (world, steps) and each[1] in compared]
        theirs = groups[others[0]] if others and recipe not in compared else None
        rows_of = groups[who]
        about = ["", recipe, *[""] * 4]
        if recipe != BASE:
            drawn, dead = f"{_mean(rows_of, 'drawn') / 1000:.1f}k", _share(_mean(rows_of, "dead"), 2)
            about = [drawn, recipe, f"{rate:g}", str(len(rows_of)), dead, _minutes(rows_of)]
        scores = [_spread(values(rows_of, k).mean(1)) for k in SHOWN]
        gains = ["" if theirs is None else _points(rows_of, theirs, k) for k in SHOWN]
        lines.append(_line(world, *about, *scores, *gains))
    return lines


def curves(rows: Rows) -> Any:
    """Return the chart of pass@1 over the sampled responses by world, mean and deviation over seeds.

    Recipes with two seeds or more; each starts from the world's policy.
    """
    groups = grouped(rows, tuning=False)
    bases = {who[0]: values(each, 1).mean() for who, each in groups.items() if who[1] == BASE}
    data: list[dict[str, Any]] = []
    rates = {who[:3] for who, each in groups.items() if who[1] != BASE and len(each) > 1}
    for (world, recipe, rate, _), each in groups.items():
        if recipe == BASE or len(each) < 2:
            continue
        several = len([who for who in rates if who[:2] == (world, recipe)]) > 1
        scores = values(each, 1).mean(1)
        end = _mean(each, "drawn"), float(scores.mean()), float(scores.std(ddof=1))
        for drawn, mean, spread in ((0.0, bases[world], 0.0), end):
            place = {"world": f"World {world}", "recipe": f"{recipe} at {rate:g}" if several else recipe}
            band = {"low": mean - spread, "high": mean + spread}
            data.append({**place, "responses": drawn, "pass": mean, **band})
    names = sorted({row["recipe"] for row in data})
    scale = alt.Scale(domain=names, range=PALETTE[: len(names)])
    axis = alt.Axis(format="~s", tickCount=5)
    base = alt.Chart().encode(
        x=alt.X("responses:Q", title="sampled responses", axis=axis, scale=alt.Scale(nice=False)),
        color=alt.Color("recipe:N", title=None, scale=scale, legend=alt.Legend(symbolOpacity=1)),
    )
    share = alt.Y("pass:Q", title="pass@1, held-out questions", scale=alt.Scale(zero=False))
    layers = (
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=""), y2="high:Q"),
        base.mark_line(point=True).encode(y=share),
    )
    panels = alt.layer(*layers, data=data_of(data)).properties(width=230, height=220)
    return apply_theme(panels.facet(column=alt.Column("world:N", title=None)))


def _points(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], k: int) -> str:
    mean, low, high = (100 * value for value in difference(values(ours, k), values(theirs, k)))
    return f"{mean:+.1f}" if math.isnan(low) else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return statistics.fmean(float(row[name]) for row in rows)


def _minutes(rows: Sequence[Mapping[str, Any]]) -> str:
    timed = [float(row["minutes"]) for row in rows if row["minutes"]]
    return f"{statistics.median(timed):.0f}" if timed else ""


def _spread(scores: Any) -> str:
    mean = _share(float(np.mean(scores)))
    return mean if len(scores) < 2 else f"{mean} ± {_share(float(np.std(scores, ddof=1)))}"


def _share(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def _line(*texts: str) -> str:
    return f"| {' | '.join(texts)} |" if set(texts) != {"---"} else f"|{'---|' * len(texts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("csv", type=Path, nargs="?", default=DATA)
    parser.add_argument("--to", help=f"the recipe that others are compared with; {COMPARED[0]} without it")
    parser.add_argument("--world", help="that world alone, such as A640")
    parser.add_argument("--chart", type=Path, help="write pass@1 over responses to this .svg or .png too")
    given = parser.parse_args()
    rows = {
        point: row for point, row in read_summary(given.csv).items() if given.world in (None, point.world)
    }
    print("\n".join([*rates_table(rows), "", *table(rows, [given.to] if given.to else COMPARED)]))
    if given.chart:
        save_chart(curves(rows), given.chart)
    print(json.dumps({"rows": len(rows), "worlds": sorted({point.world for point in rows})}))


if __name__ == "__main__":
    main()
