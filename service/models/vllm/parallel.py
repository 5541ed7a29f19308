"""Engines of vLLM side by side, each on GPUs of its own: an actor of Ray each, fed by one driver."""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.errors import InputError, PrerequisiteError
from service.models.offline import FinishedOrder, Order, Speed
from service.models.settings import SamplingSettings
from service.models.vllm.engine import (
    ENDING_S,
    Engine,
    EngineDiedError,
    find_device,
    find_vllm,
)
from service.ray_cluster import join_cluster, leave_cluster

TRIES = 3
"""Engines that an order may lose before it fails, and a node while they start before it is left alone."""

SEQUENCES = 1024
"""Responses that an engine has in hand: vLLM draws at most as many at a time, and 256 on small GPUs."""

_LEAST_ORDERS = 16
_TURN_S = 0.5
"""How long an engine draws before it is given more."""

_WAIT_S = 1.0
_LOOK_S = 5.0
"""How often the cluster is asked for nodes that came or went."""

STALL_S = 300.0
"""How long a turn of an engine may take, which draws for `_TURN_S` of it."""

_FREE_S = 300.0
_START_S = 900.0
"""How long there may be no engine that draws: weights are loaded meanwhile."""


class _Drawer:
    """What runs on a node: an engine, which draws in turns of `_TURN_S`."""

    def start(self, model: str, options: dict[str, Any]) -> tuple[int, dict[str, str]]:
        """Load the weights; return the context and the device."""
        self._engine = Engine(model, **options)
        self._orders = 0
        return self._engine.context, _find_device()

    def draw(self, orders: list[Order], sampling: SamplingSettings) -> list[FinishedOrder]:
        """Take these orders too; return what ended within a turn."""
        if orders:
            self._engine.submit(orders, sampling)
            self._orders += len(orders)
        until, finished = time.monotonic() + _TURN_S, list[FinishedOrder]()
        while self._orders > len(finished) and time.monotonic() < until:
            finished += self._engine.step()
        self._orders -= len(finished)
        return finished

    def abort(self) -> None:
        """Give up what is in flight."""
        self._engine.abort()
        self._orders = 0

    def close(self) -> None:
        """End the engine's processes."""
        self._engine.close()


def look_at_device(ray: Any, gpus: int) -> dict[str, str]:
    """Return vLLM's version, kind and name of a device of the cluster, as vLLM there sees it.

    Raises:
        PrerequisiteError: no node has so many GPUs, or none is free, or there is no vLLM.
    """
    most = max((int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
    if most < gpus:
        raise PrerequisiteError(
            f"an engine needs {gpus} GPUs on one node, but no node of Ray has more than {most}."
        )
    try:
        device: dict[str, str] = ray.get(
            ray.remote(_find_device).options(num_gpus=gpus, num_cpus=0).remote(), timeout=_FREE_S
        )
    except ray.exceptions.GetTimeoutError:
        raise PrerequisiteError(f"for {_FREE_S:.0f} s no GPU of the Ray cluster was free.") from None
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, PrerequisiteError) else error) from None
    return device


def _find_device() -> dict[str, str]:
    return {"vllm": find_vllm().__version__, **find_device()}


@dataclass(eq=False)
class _Node:
    """An engine: where it runs, what it has in hand, and the call of it that is awaited."""

    actor: Any
    place: str
    call: Any
    is_ready: bool = False
    called: float = 0.0
    orders: dict[int, Order] = field(default_factory=dict)
    speed: Speed = field(default_factory=Speed)


class ParallelEngines:
    """Engines on the GPUs of a cluster, as one: see `service.models.offline.OfflineEngine`.

    Nodes may come and go: one that joins is given engines, what a lost engine had in hand goes to others, and
    another is started in its place. Which engine draws an order has no part in its seeds.

    Args:
        ray: the module, connected.
        model: as `Engine` takes it; every node has to find it under this name.
        options: of `vllm.LLM`.
        gpus_each: GPUs of an engine.
        most: of engines in all; None takes all GPUs of the cluster.
        device: what `look_at_device` found: a node with another one is refused, as its numbers are others.

    Raises:
        PrerequisiteError: no engine starts; the message of the last one is passed on.
        InputError: a node with another device or vLLM.
    """

    name = "vLLM"

    def __init__(
        self,
        ray: Any,
        model: str,
        options: Mapping[str, Any],
        *,
        gpus_each: int,
        most: int | None,
        device: Mapping[str, str],
    ) -> None:
        self._ray, self._model, self._options = ray, model, dict(options)
        self._gpus_each, self._most, self._device = gpus_each, most, dict(device)
        self._nodes: list[_Node] = []
        self._queued: deque[Order] = deque()
        self._sampling: SamplingSettings | None = None
        self._most_orders = _LEAST_ORDERS  # of an engine
        self._lost: Counter[int] = Counter()  # engines by order
        self._failed: Counter[str] = Counter()  # starts by place
        self._reason, self._looked, self._seen = "", -_LOOK_S, time.monotonic()
        self.context = 0
        try:
            while not self._ready():
                self._look()
                if not self._nodes:
                    raise PrerequisiteError(self._reason or "the Ray cluster has no GPUs.")
                self._await([])
        except BaseException:
            self.close()
            raise

    @property
    def at_work(self) -> str:
        """What is being drawn, in words."""
        count = sum(len(node.orders) for node in self._nodes) + len(self._queued)
        speeds = [f"{node.speed.tokens_per_s():,.0f}" for node in self._ready()]
        engines = f"{len(speeds)} engine{'s' if len(speeds) != 1 else ''}"
        return f"{count} requests in flight on {engines} of {', '.join(speeds)} tokens/s"

    def wanted(self, samples_per_order: int) -> int:
        """Return how many orders they would take now."""
        self._most_orders = max(_LEAST_ORDERS, SEQUENCES // samples_per_order)
        held = sum(len(node.orders) for node in self._nodes) + len(self._queued)
        room = max(1, len(self._ready())) * self._most_orders
        return room - held if held <= 3 * room // 4 else 0

    def submit(self, orders: Sequence[Order], sampling: SamplingSettings) -> None:
        """Queue orders for whichever engine has least to do."""
        self._queued.extend(orders)
        self._sampling = sampling

    def step(self) -> list[FinishedOrder]:
        """Hand out what is queued and wait for a moment; return the orders that ended.

        Raises:
            InputError: vLLM refuses a request.
            EngineDiedError: for minutes there was no engine.
        """
        self._look()
        self._hand_out()
        finished: list[FinishedOrder] = []
        self._await(finished)
        if self._ready():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _START_S:
            raise EngineDiedError(f"for {_START_S:.0f} s none drew; the last one said: {self._reason}")
        return finished

    def abort(self) -> None:
        """Give up what is in flight; a turn that is drawn goes on to its end."""
        self._queued.clear()
        for node in self._nodes:
            if node.orders:
                node.orders.clear()
                node.actor.abort.remote()

    def close(self) -> None:
        """End all engines and leave the cluster."""
        ended = [node.actor.close.remote() for node in self._nodes if node.is_ready]
        if ended:
            self._ray.wait(ended, num_returns=len(ended), timeout=2 * ENDING_S)
        for node in self._nodes:
            self._ray.kill(node.actor)
        self._nodes.clear()
        leave_cluster(self._ray)

    def _ready(self) -> list[_Node]:
        return [node for node in self._nodes if node.is_ready]

    def _hand_out(self) -> None:
        """Give queued orders to engines that wait for a turn, the one with least to do first."""
        ready = sorted(self._ready(), key=lambda node: len(node.orders))
        share = -(-len(self._queued) // max(1, len(ready)))
        for node in ready:
            if node.call is not None:
                continue
            room = min(share, self._most_orders - len(node.orders), len(self._queued))
            orders = [self._queued.popleft() for _ in range(room)]
            node.orders |= {order.number: order for order in orders}
            if node.orders:
                node.call, node.called = node.actor.draw.remote(orders, self._sampling), time.monotonic()

    def _await(self, finished: list[FinishedOrder]) -> None:
        """Wait for a moment for the calls of the engines; add the orders that ended."""
        calls = {node.call: node for node in self._nodes if node.call is not None}
        if not calls:
            time.sleep(_WAIT_S / 10)
            return
        self._ray.wait(list(calls), num_returns=1, timeout=_WAIT_S)
        came, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        for node in self._ready():
            if node.call is not None and node.call not in came and time.monotonic() - node.called > STALL_S:
                self._drop(node, f"an engine was silent for {STALL_S:.0f} s", finished)
        for call in came:
            node = calls[call]
            try:
                result = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, InputError):
                    raise error.cause from None
                if not isinstance(error.cause, PrerequisiteError | EngineDiedError):
                    raise
                beside = any(each.is_ready for each in self._nodes if each.place == node.place)
                if isinstance(error.cause, PrerequisiteError) and not beside:
                    self._failed[node.place] = TRIES
                self._drop(node, str(error.cause), finished)
            except self._ray.exceptions.RayError as error:
                self._drop(node, str(error).strip().splitlines()[0], finished)
            else:
                node.call = None
                self._take(node, result, finished)

    def _take(self, node: _Node, result: Any, finished: list[FinishedOrder]) -> None:
        if node.is_ready:
            ended = [order for order in result if node.orders.pop(order.number, None) is not None]
            for order in ended:
                tokens = sum(response.completion_tokens or 0 for response in order.responses)
                node.speed.add(len(order.responses), tokens)
            finished += ended
            return
        context, device = result
        if device != self._device:
            raise InputError(
                f"a node of the cluster has {_words(device)}, another {_words(self._device)}: a run is drawn "
                "by one kind. Say --gpus so that fewer nodes are needed, or give Ray nodes of one kind."
            )
        node.is_ready = True
        self.context = context
        del self._failed[node.place]  # another that did not start there is tried again

    def _look(self) -> None:
        """Start the engines that the cluster's nodes have room for; one that is gone fails its next call."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        alive = {each["NodeID"]: each["Resources"] for each in self._ray.nodes() if each["Alive"]}
        there = Counter(node.place for node in self._nodes)
        for place, resources in alive.items():
            room = int(resources.get("GPU", 0)) // self._gpus_each - there[place]
            if self._failed[place] >= TRIES:
                continue
            for _ in range(room):
                if self._most is None or len(self._nodes) < self._most:
                    self._nodes.append(self._start(place))

    def _start(self, place: str) -> _Node:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(place, soft=False)
        made = self._ray.remote(_Drawer).options(
            num_gpus=self._gpus_each, num_cpus=0, scheduling_strategy=there
        )
        actor = made.remote()
        return _Node(actor, place, actor.start.remote(self._model, self._options))

    def _drop(self, node: _Node, reason: str, finished: list[FinishedOrder]) -> None:
        """Forget an engine that is gone; what it had in hand is drawn by another, or fails after `TRIES`."""
        self._nodes.remove(node)
        self._ray.kill(node.actor)
        self._reason = reason
        if not node.is_ready:
            self._failed[node.place] += 1
        for number, order in node.orders.items():
            self._lost[number] += 1
            if self._lost[number] >= TRIES:
                finished.append(FinishedOrder(number, failure="engine"))
            else:
                self._queued.append(order)


def _words(device: Mapping[str, str]) -> str:
    return f"{device.get('gpu', device['device'])} with vLLM {device['vllm']}"


def start_cluster(address: str | None, gpus: int | None) -> Any:
    """Return Ray, connected to the cluster at `address`, or to one of this machine with so many GPUs.

    On a machine without any, where vLLM draws on CPUs, they are so many engines on the same cores.

    Raises:
        InputError: this machine has fewer GPUs.
        PrerequisiteError: there is no such cluster, no Ray or no vLLM.
    """
    purpose = "drawing with several engines"
    if address is not None:
        return join_cluster(address, purpose)
    find_vllm()
    if find_device()["device"] != "cpu":
        from vllm.platforms import current_platform

        there = int(current_platform.device_count())
        if gpus is not None and gpus > there:
            raise InputError(f"--gpus {gpus}: this machine has {there}.")
    return join_cluster(None, purpose, num_gpus=gpus)
