"""Grading on a Ray cluster: a grader on each node, with its own processes and limits, fed by one driver."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evaluator.grading.grader import Grader
from evaluator.grading.types import CRASHED, GRADER_VERSION, Grade, GradeCase
from evaluator.grading.workers.own import own_version
from service.errors import InputError, PrerequisiteError
from service.ray_cluster import join_cluster, leave_cluster

PARTS_AHEAD = 2
"""Of a node: one that it grades, one that waits there."""

TRIES = 3
"""Graders that a part may lose before its cases are unknown ("crashed")."""

_LOOK_S = 5.0
"""How often the cluster is asked for nodes that came or went."""

_PAUSE_S = 0.2
_START_S = 120.0
"""How long the cluster may have no node that grades."""

Key = TypeVar("Key")


class _NodeGrader:
    """What runs on a node."""

    def __init__(self, workers: int, own: str | None) -> None:
        self.grader = Grader(workers=workers, own=own)

    def version(self) -> str:
        return self.grader.version

    def grade(self, cases: list[GradeCase]) -> list[Grade]:
        return self.grader.grade_many(cases)


@dataclass
class _Part(Generic[Key]):
    """Cases that are graded together, and how many nodes were lost over them."""

    key: Key
    cases: list[GradeCase]
    lost: int = 0


@dataclass
class _Node:
    """A node's grader. By reference what is awaited of it: its version (None), then parts."""

    actor: Any
    awaited: dict[Any, _Part[Any] | None]
    ready: bool = False


class ClusterGraders:
    """Graders on all nodes of a Ray cluster; a context manager.

    Nodes may come and go: one that joins is given work, what a lost one had in hand goes to another. Each
    needs the same environment as the driver; one whose grader is of another version is refused.

    Args:
        address: of the cluster: `auto`, or HOST:PORT of its head.
        workers: processes of each node at most (default: 8), and no more than Ray has CPUs there.
        own: the user's grader, as in `Grader`.

    Raises:
        PrerequisiteError: Ray is not installed, or there is no such cluster.
    """

    def __init__(self, address: str, workers: int | None = None, own: str | None = None) -> None:
        self._ray = join_cluster(address, "grading on several nodes")
        self._workers, self._own = workers, own
        self.version = own_version(own) if own else GRADER_VERSION
        self._nodes: dict[str, _Node] = {}
        self._looked = -_LOOK_S

    def __enter__(self) -> "ClusterGraders":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the graders and leave the cluster; what they had in hand is not graded."""
        for node in self._nodes.values():
            self._ray.kill(node.actor)
        self._nodes.clear()
        leave_cluster(self._ray)

    def grade_parts(self, parts: Iterator[tuple[Key, list[GradeCase]]]) -> Iterator[tuple[Key, list[Grade]]]:
        """Yield the grades of each part as they come; a part is drawn when a node is free for it.

        Raises:
            InputError: a tolerance that cannot be read, or a node with another version of the grader.
            PrerequisiteError: for minutes there was no node that grades.
        """
        source = (_Part(key, cases) for key, cases in parts)
        again: deque[_Part[Key]] = deque()
        if (first := next(source, None)) is None:
            return
        again.append(first)
        last_seen = time.monotonic()
        while True:
            again.extend(self._look())
            for node in self._nodes.values():
                while node.ready and len(node.awaited) < PARTS_AHEAD:
                    part = again.popleft() if again else next(source, None)
                    if part is None:
                        break
                    node.awaited[node.actor.grade.remote(part.cases)] = part
            ready = [node for node in self._nodes.values() if node.ready]
            if ready and not any(node.awaited for node in ready):
                return
            if ready:
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > _START_S:
                raise PrerequisiteError(
                    f"for {_START_S:.0f} s, no node of the Ray cluster had free CPUs for grading. Finished "
                    "grades are stored; run the same command again to resume."
                )
            for node, reference in self._finished():
                part = node.awaited.pop(reference)
                try:
                    result = self._ray.get(reference)
                except self._ray.exceptions.RayTaskError as error:
                    raise (error.cause if isinstance(error.cause, InputError) else error) from None
                except self._ray.exceptions.RayError:
                    node.awaited[reference] = part
                    again.extend(self._drop(node))
                    break
                if part is not None:
                    yield part.key, result
                elif result != self.version:
                    raise InputError(
                        f"a node of the cluster grades with {result}, but this one with {self.version}. "
                        "Install the same packages on all nodes."
                    )
                else:
                    node.ready = True
            for part in [each for each in again if each.lost >= TRIES]:
                again.remove(part)
                yield part.key, [CRASHED.grade for _ in part.cases]

    def _finished(self) -> list[tuple[_Node, Any]]:
        """Wait a little for what is awaited; return what came."""
        awaited = {reference: node for node in self._nodes.values() for reference in node.awaited}
        if not awaited:
            time.sleep(_PAUSE_S)
            return []
        finished, _ = self._ray.wait(list(awaited), num_returns=1, timeout=_LOOK_S)
        return [(awaited[reference], reference) for reference in finished]

    def _look(self) -> list[_Part[Any]]:
        """Give every node of the cluster a grader; return the parts that lost ones had in hand."""
        if self._nodes and time.monotonic() - self._looked < _LOOK_S:
            return []
        self._looked = time.monotonic()
        alive = {node["NodeID"]: node["Resources"] for node in self._ray.nodes() if node["Alive"]}
        gone = [node for node_id, node in self._nodes.items() if node_id not in alive]
        parts = [part for node in gone for part in self._drop(node)]
        for node_id, resources in alive.items():
            cpus = int(resources.get("CPU", 0))
            if cpus and node_id not in self._nodes:
                self._nodes[node_id] = self._start(node_id, min(cpus, self._workers or 8))
        return parts

    def _start(self, node_id: str, workers: int) -> _Node:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node_id, soft=False)
        made = self._ray.remote(_NodeGrader).options(num_cpus=workers, scheduling_strategy=there)
        actor = made.remote(workers, self._own)
        return _Node(actor, {actor.version.remote(): None})

    def _drop(self, node: _Node) -> list[_Part[Any]]:
        """Forget a node's grader; return what it had in hand."""
        self._nodes = {node_id: each for node_id, each in self._nodes.items() if each is not node}
        self._ray.kill(node.actor)
        parts = [part for part in node.awaited.values() if part is not None]
        # What waited behind the first was not the cause.
        for part in parts[:1]:
            part.lost += 1
        return parts
