"""Diagnosis of the training signal: rollouts, equal rewards, forecast, costs, difficulty, diversity."""

from collections.abc import Sequence
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_rows import write_rows
from numpy.typing import NDArray

from benchmarks.studies.forecast import check_halves, read_visits
from evaluator.signal import rates, shapes
from evaluator.signal.cost import BREAK_EVEN, RESCUE, TokenCosts, cost_report, usd_per_token
from evaluator.signal.difficulty import EVERY_STRATEGY, homogeneity, strategy_shifts
from evaluator.signal.diversity import densities, diversity
from evaluator.signal.groups import CheckpointGroups, GroupCounts, PromptSample, QuestionGroup, count_groups
from evaluator.signal.sources import file_source
from service.errors import InputError


def row(question: str, reward: Any, **more: Any) -> dict[str, Any]:
    return {"question_id": question, "reward": reward, **more}


def test_rows_become_groups_by_question_and_neighbor(tmp_path):
    path = write_rows(
        tmp_path / "r.jsonl",
        row("a", 1, tokens=10),
        row("a", 0, tokens=20),
        row("a", 1, neighbor_id="c_2", strategy="rename"),
        row("a", None, neighbor_id="c_1"),
        row("b", True),
        row("b", "wrong", variant=1, neighbor_id="c_9"),
    )
    read = file_source(path)
    (checkpoint,) = read.checkpoints
    assert (checkpoint.label, read.notes) == ("all", ())
    first, second = checkpoint.groups
    original, renamed, other = first.prompts
    assert (original.correct, original.wrong, original.tokens, original.token_samples) == (1, 1, 30, 2)
    assert (renamed.variant, renamed.source_id, renamed.strategy) == (1, "c_2", "rename")
    assert (other.variant, other.source_id, other.unknown) == (2, "c_1", 1)
    assert [(p.variant, p.correct, p.wrong) for p in second.prompts] == [(0, 1, 0), (1, 0, 1)]


def test_a_folder_as_verl_writes_it(tmp_path):
    for step in (1, 2, 10):
        rows = [
            {"input": f"user\n{question}", "output": "...", "gts": "4", "score": score, "step": step}
            for question, score in product(("2+2?", "1+3?"), (1.0, -1.0))
        ]
        write_rows(tmp_path / f"{step}.jsonl", *rows)
    read = file_source(tmp_path, windows=2)
    assert [checkpoint.label for checkpoint in read.checkpoints] == ["steps 1-2", "step 10"]
    assert "some rows have no question id" in read.notes[0]
    assert len(read.checkpoints[0].groups) == 4
    assert {group.prompts[0].correct for group in read.checkpoints[0].groups} == {1}


def test_shaped_rewards_need_a_threshold(tmp_path):
    path = write_rows(tmp_path / "r.jsonl", row("a", 0.9), row("a", -0.4))
    with pytest.raises(InputError, match=r"r\.jsonl:1: .*0\.9.*--correct-above"):
        file_source(path)
    (prompt,) = file_source(path, threshold=0.5).checkpoints[0].groups[0].prompts
    assert (prompt.correct, prompt.wrong) == (1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('{"reward": 1}', "the row has no question"),
        ('{"question_id": "a"}', "has no reward"),
        ('{"question_id": "a", "reward": "yes"}', "boolean; or .*number; or .*'correct'"),
        ('{"question_id": "a", "reward": 1, "tokens": -1}', '"tokens" is -1'),
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path, line, message):
    path = tmp_path / "r.jsonl"
    path.write_text('{"question_id": "z", "reward": 0}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message) as refused:
        file_source(path)
    assert str(refused.value).startswith(f"{path}:2: ")


def test_contradictions_are_refused(tmp_path):
    rows = [row("a", 1, neighbor_id="c", variant=variant) for variant in (1, 2)]
    with pytest.raises(InputError, match="variant 2 here but 1 in an earlier row"):
        file_source(write_rows(tmp_path / "r.jsonl", *rows))


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        file_source(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"contains no \.jsonl or \.parquet files"):
        file_source(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="contains no rollouts"):
        file_source(tmp_path / "empty.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"question_id": "\xe9"}\n')
    with pytest.raises(InputError, match="not UTF-8"):
        file_source(tmp_path / "latin.jsonl")


def group(name: str, *counts: tuple[int, ...]) -> QuestionGroup:
    """A group by (correct, wrong[, unknown]) of each prompt, the original first."""
    return QuestionGroup(name, tuple(PromptSample(variant, *part) for variant, part in enumerate(counts)))


def equal_by_enumeration(prompts: list[list[int]], g: int) -> float:
    """The share of choices of g of each prompt's rewards in which all rewards are equal."""
    draws = [list(combinations(rewards, g)) for rewards in prompts]
    chosen = [sum(choice, ()) for choice in product(*draws)]
    return float(np.mean([len(set(rewards)) == 1 for rewards in chosen]))


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=5), min_size=2, max_size=3), st.integers(2, 3)
)
def test_a_joint_group_is_counted_exactly(prompts, g):
    correct = np.array([[sum(rewards) for rewards in prompts]])
    wrong = np.array([[len(rewards) - sum(rewards) for rewards in prompts]])
    joint, neighbors = (
        shapes.GroupShape("", len(prompts) - 1, g, original).counted(*shapes.ends(correct, wrong, g))[0]
        for original in (True, False)
    )
    assert joint == pytest.approx(equal_by_enumeration(prompts, g), abs=1e-12)
    assert neighbors == pytest.approx(equal_by_enumeration(prompts[1:], g), abs=1e-12)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3))
def test_unknown_grades_are_bounded(correct, wrong, unknown):
    if correct + wrong + unknown < 2:
        return
    pair = shapes.GroupShape("pair", 0, 2)
    low, high = shapes.unknown_bounds(count_groups([group("a", (correct, wrong, unknown))]), pair)
    for right in range(unknown + 1):
        graded = np.array([[correct + right]]), np.array([[wrong + unknown - right]])
        assert low - 1e-12 <= pair.counted(*shapes.ends(*graded, 2))[0] <= high + 1e-12


def test_rows_of_a_small_run():
    groups = (
        group("a", (2, 0), (2, 0), (2, 0)),  # equal throughout
        group("b", (2, 0), (0, 2), (0, 2)),  # each prompt equal, jointly mixed
        group("c", (0, 2), (1, 1), (0, 2)),
        group("d", (1, 1), (1, 1), (1, 1)),
    )
    tables, notes = shapes.zero_gradient(CheckpointGroups("base", groups), 2, 2)
    shares = tables["zero_gradient"]
    assert {row["group"]: row["share"] for row in shares} == {
        shapes.ORIGINAL_GROUP: 0.75,
        shapes.NEIGHBOR_GROUP: 0.625,
        shapes.NEIGHBORS_GROUP: 0.5,
        shapes.JOINT_GROUP: 0.25,
    }
    assert [(row["group"], row["minus"], row["difference"]) for row in tables["zero_gradient_gaps"]] == [
        (shapes.NEIGHBORS_GROUP, shapes.ORIGINAL_GROUP, -0.25),
        (shapes.JOINT_GROUP, shapes.ORIGINAL_GROUP, -0.5),
    ]
    assert "needs 6 responses" in notes[0]
    assert all(row["questions"] == 4 and row["left_out"] == 0 for row in shares)
    assert all(row["low"] <= row["share"] <= row["high"] for row in shares)


Floats = NDArray[np.float64]


def logistic(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-values))


def draw_rates(rng: np.random.Generator, questions: int, n: int) -> Floats:
    own = np.clip(rng.beta(0.4, 0.5, questions), 1e-12, 1 - 1e-12)
    logits = np.log(own / (1 - own))[:, None]
    moved = -0.2 + 0.7 * rng.standard_normal((questions, n))
    return np.concatenate([own[:, None], logistic(logits + moved)], axis=1)


def sample(rng: np.random.Generator, success: Floats, m: int) -> GroupCounts:
    correct = rng.binomial(m, success)
    return GroupCounts(np.arange(len(success)), correct, m - correct, np.zeros_like(correct))


@pytest.mark.slow
def test_a_forecast_finds_the_shares_of_the_population():
    rng = np.random.default_rng(2)
    population = draw_rates(rng, 100_000, 3)
    fitted = shapes.forecast(sample(rng, draw_rates(rng, 1500, 3), 8), replicates=10)
    assert fitted.model.shift.sd == pytest.approx(0.7, abs=0.12)
    assert fitted.model.shift.mean == pytest.approx(-0.2, abs=0.1)
    for shape in shapes.paper_shapes(8, 3):
        success = population[:, (0 if shape.original else 1) : 1 + shape.n]
        true = ((success**shape.g).prod(axis=1) + ((1 - success) ** shape.g).prod(axis=1)).mean()
        row = fitted.row(shape)
        assert row["share"] == pytest.approx(true, abs=0.03)
        assert row["low"] < row["share"] < row["high"]


def test_a_profile_at_the_pilots_own_g_is_the_interval_of_a_proportion():
    correct = np.repeat([0, 8, 4], [50, 30, 20])
    table = rates.binomial_table(correct, 8 - correct)
    uniform = np.full(len(rates.RATES), 1 / len(rates.RATES))
    chances = shapes.GroupShape("", 0, 8).equal_chances(None)
    low, high = rates.profile_interval(table, np.ones(100), chances, uniform)
    # 80 of 100 by the likelihood ratio, to what rates of the grid can say
    assert low == pytest.approx(0.715, abs=0.01)
    assert high == pytest.approx(0.870, abs=0.01)


def test_neighbors_need_a_pilot_or_an_assumption():
    rng = np.random.default_rng(7)
    counts = sample(rng, draw_rates(rng, 200, 0), 8)
    joint = shapes.GroupShape("joint", 3, 8)
    with pytest.raises(InputError, match="--assume-shift-sd"):
        shapes.forecast(counts, replicates=2).share(joint)
    shifts = [rates.Shift(0.0, sd, 0.0, assumed=True) for sd in (0.01, 1.5)]
    narrow, wide = (shapes.forecast(counts, shift=shift, replicates=2).share(joint) for shift in shifts)
    alone = shapes.forecast(counts, replicates=2).share(shapes.GroupShape("matched", 0, 32))
    assert narrow == pytest.approx(alone, abs=0.01)
    assert wide < narrow - 0.03


@pytest.mark.slow
@pytest.mark.shared
def test_the_forecast_holds_on_a_real_run(data_folder):
    visits = read_visits(data_folder / "grpo_group_log_dsrsub.jsonl")
    for g, m in ((8, 8), (8, 4), (4, 4)):
        predicted, observed = check_halves(visits, g, m=m)
        assert abs(predicted["share"] - observed["value"]) <= 0.03
        predicted, observed = check_halves(visits, g, m=m, at_random=True)
        assert abs(predicted["share"] - observed["value"]) <= 0.01
        assert predicted["low"] <= observed["value"] <= predicted["high"]


def known(
    weights: np.ndarray[tuple[int], np.dtype[np.float64]], shift: rates.Shift | None
) -> shapes.Forecast:
    """A forecast by a known model, whatever its pilot."""
    model, four = rates.RateModel("free", weights, shift=shift), np.full((100, 1), 4)
    return shapes.Forecast(model, (model, model), 1.0, GroupCounts(np.arange(100), four, four, 0 * four))


def point(rate_place: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = np.zeros(len(rates.RATES))
    weights[rate_place] = 1.0
    return weights


def test_the_break_even_g_is_the_smallest_that_does_as_well():
    predicted = known(rates.beta_cells(0.4, 0.5), rates.Shift(0.0, 1.0, 0.0))
    rows, found = cost_report(predicted, 8, 3, TokenCosts(None, None))
    joint = predicted.share(shapes.GroupShape("joint", 3, 8))
    assert predicted.share(shapes.GroupShape("as good", 0, found["g_equal_share"])) <= joint
    assert predicted.share(shapes.GroupShape("worse", 0, found["g_equal_share"] - 1)) > joint
    assert found["g_equal_share"] > found["joint_responses"] == 32
    assert [row["g"] for row in rows if row["method"] == BREAK_EVEN] == [found["g_equal_share"]]
    assert all(row["tokens"] is None and row["usd"] is None for row in rows)


def test_a_rescue_yields_what_a_simulation_of_it_yields():
    weights, shift = 0.3 * point(0) + 0.7 * rates.beta_cells(0.4, 0.8), rates.Shift(-0.3, 1.2, 0.2)
    rows, even = cost_report(known(weights, shift), 8, 3, TokenCosts(100.0, 300.0))
    row = next(row for row in rows if row["method"] == RESCUE)
    rng, questions = np.random.default_rng(5), 100_000
    places = rng.choice(len(rates.RATES), size=questions, p=weights)
    edges = shift.chances().cumsum(axis=1)
    neighbors = np.stack(
        [(edges[places] < rng.random(questions)[:, None]).sum(axis=1) for _ in range(3)], axis=1
    ).clip(max=len(rates.RATES) - 1)
    first = rng.binomial(4, rates.RATES[places])
    dead = first == 0
    of_neighbors = rng.binomial([2, 1, 1], rates.RATES[neighbors]).sum(axis=1)
    right = first + np.where(dead, of_neighbors, rng.binomial(4, rates.RATES[places]))
    assert even["dead"] == pytest.approx(dead.mean(), abs=0.006)
    assert even["revived"] == pytest.approx((of_neighbors[dead] > 0).mean(), abs=0.006)
    assert row["mixed"] == pytest.approx(((right > 0) & (right < 8)).mean(), abs=0.006)
    assert row["tokens"] == pytest.approx((800 + 4 * 200 * dead.mean()) / row["mixed"], rel=0.015)


def test_questions_that_only_neighbors_solve_have_no_break_even():
    weights = 0.5 * point(0) + 0.5 * point(len(rates.RATES) // 2)
    _, even = cost_report(known(weights, rates.Shift(0.0, 0.5, 0.5)), 8, 3, TokenCosts(1.0, 1.0))
    assert even["g_equal_share"] is None
    assert even["needed_share"] is None


def test_prices_need_both_numbers():
    assert usd_per_token(None, None) is None
    assert usd_per_token(3.6, 1000.0) == pytest.approx(1e-6)
    with pytest.raises(InputError, match="both"):
        usd_per_token(2.0, None)


def make_groups(rng: np.random.Generator, questions: int, m: int, *shifts: float) -> list[QuestionGroup]:
    """Return questions with a neighbor for each mean shift, and m responses to each prompt."""
    groups = []
    for number in range(questions):
        logit = 1.5 * rng.standard_normal()
        moved = [0.0, *(shift + 0.5 * rng.standard_normal() for shift in shifts)]
        correct = rng.binomial(m, [1 / (1 + np.exp(-logit - each)) for each in moved]).tolist()
        prompts = [PromptSample(v, c, m - c, 0, f"s{v}" if v else None) for v, c in enumerate(correct)]
        groups.append(QuestionGroup(f"q{number}", tuple(prompts)))
    return groups


def test_the_p_value_is_that_of_the_exact_conditional_distribution():
    correct, known = np.array([[3, 0]]), np.array([[3, 3]])
    # Both extreme tables are as odd.
    weights = {c: comb(3, c) * comb(3, 3 - c) / comb(6, 3) for c in range(4)}
    found = homogeneity(correct, known, draws=20_000)
    assert found["p_value"] == pytest.approx(weights[3] + weights[0], abs=0.01)
    assert found["statistic"] == pytest.approx(2 * 6 * np.log(2))


def test_strategies_that_shift_difficulty_are_found():
    rng = np.random.default_rng(2)
    rows = strategy_shifts(make_groups(rng, 300, 16, -0.8, 0.0, 0.6))
    found = {row["strategy"]: row for row in rows}
    assert rows[0]["strategy"] == EVERY_STRATEGY
    assert rows[0]["adjusted"] is None
    for name, true in (("s1", -0.8), ("s2", 0.0), ("s3", 0.6)):
        row = found[name]
        assert row["logit_shift"] == pytest.approx(true, abs=0.2)
        assert row["low"] < row["logit_shift"] < row["high"]
        assert row["neighbors"] == row["questions"] == 300
    assert found["s1"]["adjusted"] < 0.001
    assert found["s2"]["adjusted"] > 0.05
    assert found["s1"]["rate_value"] < 0 < found["s3"]["rate_value"]


def angles(texts: Sequence[str]) -> Any:
    """Turn angles in degrees into points on the unit circle; "-" has no vector."""
    angles = np.deg2rad([0.0 if text == "-" else float(text) for text in texts])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vectors[[text == "-" for text in texts]] = 0.0
    return vectors


def tables(texts: Any, g: int, n: int) -> Any:
    return diversity("base", texts, angles, g, n)[0]


def distance(first: str, second: str) -> float:
    return float(1 - np.cos(np.deg2rad(float(first) - float(second))))


def mean_distance(pairs: Any) -> float:
    return float(np.mean([distance(*pair) for pair in pairs]))


def test_means_are_those_over_all_pairs():
    texts = own, first, second = ("0", "10", "50"), ("80", "90", "100"), ("5", "200", "31")
    (row,) = tables([("a", dict(enumerate(texts)))], 3, 2)["diversity"]
    assert row["original"] == pytest.approx(mean_distance(combinations(own, 2)))
    assert row["neighbor"] == pytest.approx(
        (mean_distance(combinations(first, 2)) + mean_distance(combinations(second, 2))) / 2
    )
    assert row["neighbors"] == pytest.approx(mean_distance(combinations(first + second, 2)))
    assert row["between"] == pytest.approx(mean_distance(product(own, first + second)))


def test_the_fair_series_has_as_many_pairs_spread_over_the_neighbors():
    texts = {0: ("0", "0", "0"), 1: ("0", "0", "0"), 2: ("90", "90", "90")}
    (row,) = tables([("a", texts)], 3, 2)["diversity"]
    assert row["original"] == 0.0
    assert row["neighbor"] == 0.0
    assert row["matched"] == pytest.approx(2 / 3)  # two of one neighbor, one of the other
    assert row["neighbors"] == pytest.approx(9 / 15)


def test_a_density_integrates_to_one():
    rng = np.random.default_rng(1)
    texts = [(f"q{n}", {0: tuple(map(str, rng.normal(0, 40, 3)))}) for n in range(200)]
    distances = np.array([row["original"] for row in tables(texts, 3, 0)["diversity"]])
    rows = densities({"original": distances}, points=400)
    axis = np.array([row["distance"] for row in rows])
    density = np.array([row["density"] for row in rows])
    assert np.trapezoid(density, axis) == pytest.approx(1.0, abs=0.02)
    assert axis.min() >= 0
    assert axis.max() <= 1
    assert tables([("a", {0: ("1", "1")}), ("b", {0: ("2", "2")})], 2, 0)["diversity_densities"] == []
