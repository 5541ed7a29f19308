"""Seeds of one recipe as one line."""

from seeded_trainings import seeded_spec

from service.runs.store import Run
from trainer_adapter.record.series import SeedPoint, over_seeds, seed_groups


def make_run(name: str, **changes: object) -> Run:
    spec = {**seeded_spec(name), **changes}
    return Run(
        id=f"r_{name}", name=name, kind="train", spec=spec, versions={}, created_at="", finished_at=None
    )


def names(*runs: Run) -> list[list[str]]:
    return [[run.name for run in group] for group in seed_groups(runs)]


def test_runs_that_differ_in_seed_name_and_machine_are_one_group() -> None:
    assert names(make_run("s0"), make_run("faster"), make_run("seed-1")) == [["s0", "seed-1"], ["faster"]]


def test_another_model_recipe_or_plug_in_is_another_group() -> None:
    others = [{"model": "n"}, {"recipe": {"name": "grpo"}}, {"plug_in": {"seed": 1, "kl_on": "none"}}]
    assert names(make_run("a"), *(make_run(f"b{at}", **more) for at, more in enumerate(others))) == [
        ["a"],
        ["b0"],
        ["b1"],
        ["b2"],
    ]
    assert names(make_run("m"), make_run("n", model="m")) == [
        ["m", "n"]
    ]  # a name within a value tells nothing


def test_the_mean_stands_where_all_seeds_have_a_value() -> None:
    lines = [[(1, 1.0), (2, 2.0), (3, 3.0)], [(1, 3.0), (2, None), (3, 6.0)], [(1, 2.0), (2, 1.0), (3, 0.0)]]
    assert over_seeds(lines) == [SeedPoint(1, 2.0, 1.0, 3.0, 3), SeedPoint(3, 3.0, 0.0, 6.0, 3)]
    assert over_seeds([[(1, 4.0)]]) == [SeedPoint(1, 4.0, 4.0, 4.0, 1)]
    assert over_seeds([]) == []
