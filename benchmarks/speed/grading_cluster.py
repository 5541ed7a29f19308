"""Speed of grading on a Ray cluster of 1, 2 and 4 local nodes of one process, against as many without Ray.

All grade the same responses, which none has seen, in parts of 100. Where there are fewer CPUs than nodes the
nodes share them: then the ratio to the processes without Ray, not the growth, says what Ray costs.

    python -m benchmarks.speed.grading_cluster [--rows 2000 --nodes 1,2,4]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Sequence

from benchmarks.harness import ROOT, add_data
from evaluator.grading import GradeCase, Grader
from evaluator.grading.workers.cluster import ClusterGraders

FILE = "rho_responses.jsonl"
PART = 100
WARM_UP = [GradeCase(r"\boxed{\sin(x)+\sin(x)}", r"2\sin(x)")]


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--rows", type=int, default=2000, help="responses, drawn at random (seed 0)")
    parser.add_argument("--nodes", default="1,2,4")
    args = parser.parse_args()
    with (args.data / FILE).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = random.Random(0).sample(rows, min(args.rows, len(rows)))
    cases = [GradeCase(row["response"], row["answer"]) for row in rows]
    parts = [cases[start : start + PART] for start in range(0, len(cases), PART)]
    rounds = [_round(parts, int(nodes)) for nodes in args.nodes.split(",")]
    print(json.dumps({"responses": len(cases), "cpus": os.cpu_count(), "rounds": rounds}))


def _round(parts: Sequence[list[GradeCase]], nodes: int) -> dict[str, float]:
    """Return responses per second of so many processes, without Ray and on as many nodes of Ray."""
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    from ray.cluster_utils import Cluster

    with Grader(workers=nodes) as grader:
        alone = _rate(grader, parts)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        with ClusterGraders(cluster.address) as graders:
            on_nodes = _rate(graders, parts, warm_up=4 * nodes)
    finally:
        cluster.shutdown()
    return {
        "nodes": nodes,
        "pool_per_s": round(alone, 1),
        "ray_per_s": round(on_nodes, 1),
        "ray_to_pool": round(on_nodes / alone, 3),
    }


def _rate(grader: Grader | ClusterGraders, parts: Sequence[list[GradeCase]], warm_up: int = 1) -> float:
    def numbered(wanted: Sequence[list[GradeCase]]) -> Iterator[tuple[int, list[GradeCase]]]:
        return iter(enumerate(wanted))

    for _ in grader.grade_parts(numbered([WARM_UP] * warm_up)):
        pass
    began = time.perf_counter()
    graded = sum(len(grades) for _, grades in grader.grade_parts(numbered(parts)))
    return graded / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
