"""Grading on a Ray cluster of several nodes: the same grades, lost nodes and graders, what is refused."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluator.grading import GradeCase, Grader, GradeValue
from evaluator.grading.workers.cluster import ClusterGraders
from service.errors import InputError, PrerequisiteError

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
CASES = [
    GradeCase(f"So it is \\boxed{{{answer}}}.", gold)
    for answer, gold in [("2", "2"), ("x+1", "1+x"), ("\\sin^2 x", "1-\\cos^2 x"), ("3", "4"), ("", "1")]
]


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """Start a head that grades nothing and a node of one CPU, as `ray start` does on two hosts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join([str(SUPPORT.parents[1]), str(SUPPORT), *sys.path]))
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        made.add_node(num_cpus=1)
        yield made
        made.shutdown()


def test_grades_are_those_of_one_machine_whoever_comes_and_goes(ray_cluster: Any) -> None:
    with Grader(workers=1) as grader:
        alone = grader.grade_many(CASES)
    other = None
    seen = []
    with ClusterGraders(ray_cluster.address, workers=4) as graders:  # more than a node has CPUs
        for number, grades in graders.grade_parts((number, CASES) for number in range(40)):
            assert grades == alone
            seen.append(number)
            if len(seen) == 3:
                other = ray_cluster.add_node(num_cpus=1)
            if len(seen) == 20:
                ray_cluster.remove_node(other)
        assert list(graders.grade_parts(iter([]))) == []
    assert sorted(seen) == list(range(40))


def test_a_part_that_ends_its_graders_is_unknown_and_the_others_are_graded(ray_cluster: Any) -> None:
    sys.path.append(str(SUPPORT))
    try:
        parts = [(text, [GradeCase(text, "right")] * 2) for text in ("right", "kill", "wrong", "right again")]
        with ClusterGraders(ray_cluster.address, own="lethal_grader:grade") as graders:
            values = {
                key: {grade.value for grade in grades} for key, grades in graders.grade_parts(iter(parts))
            }
    finally:
        sys.path.remove(str(SUPPORT))
    assert values == {
        "right": {GradeValue.CORRECT},
        "kill": {GradeValue.UNKNOWN},
        "wrong": {GradeValue.WRONG},
        "right again": {GradeValue.WRONG},
    }


def test_bad_input_of_a_case_is_told(ray_cluster: Any) -> None:
    with (
        ClusterGraders(ray_cluster.address) as graders,
        pytest.raises(InputError, match="tolerance"),
    ):
        list(graders.grade_parts(iter([(0, [GradeCase("\\boxed{1}", "1", "tolerance", "much")])])))


def test_another_version_on_a_node_is_refused(ray_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.grading.workers.cluster.GRADER_VERSION", "another")
    with (
        ClusterGraders(ray_cluster.address) as graders,
        pytest.raises(InputError, match="install the same packages on all of them"),
    ):
        list(graders.grade_parts(iter([(0, CASES)])))


def test_no_cluster_is_one_line() -> None:
    with pytest.raises(PrerequisiteError, match=r"no Ray cluster can be reached.*ray start --head"):
        ClusterGraders("127.0.0.1:1")
