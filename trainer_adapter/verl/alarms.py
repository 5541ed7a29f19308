"""Alarms from training metrics: collapse, drift, no reward, an engine with a different policy."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

ENTROPY, KL = "tagrpo/entropy/mean", "tagrpo/kl/k3/mean"
CORRECT, GAP = "tagrpo/correct/mean", "tagrpo/engine/k3"
MISSING = "tagrpo/filter/missing"
WATCHED = (ENTROPY, KL, CORRECT, GAP, MISSING)
"""The metrics that alarms are raised by."""

ENTROPY_LEFT = 0.1
"""Share of the first step's entropy. Chosen: without a remedy 73% is spent in a twelfth of the steps
(arXiv 2505.22617), so that less than a tenth is further than is usual early on."""

MOST_KL = 0.5
"""Nats a token from the reference policy. Chosen: a token is then e^0.5 times as likely on average."""

MOST_GAP = 0.01
"""k3 between engine and trainer, nats a token. Chosen: healthy bf16 runs have about 0.001, and it grows to 1
where training breaks (github.com/sail-sg/Precision-RL, issue 10, on the figure of its paper)."""

MARK = "tagrpo alarm"
"""Begins the line of an alarm in a log."""

_TEXTS = {
    ENTROPY: (
        f"less than {ENTROPY_LEFT:.0%} of the first step's, so the policy explores little; a higher clip "
        "range, CW-GRPO or Clip-Cov preserve more entropy"
    ),
    KL: (
        f"more than {MOST_KL:g} nats per token from the reference policy; lower the learning rate or raise "
        "loss.kl_coef"
    ),
    CORRECT: (
        "no response in this step is correct; check the responses with `tagrpo train rollouts`, and whether "
        "answers are boxed"
    ),
    GAP: (
        "the policy of the rollout engine differs from the trained one; check that both use the same "
        "weights, precision and temperature"
    ),
    MISSING: "dynamic sampling reached its limit, so the step has fewer groups",
}


class Alarm(NamedTuple):
    """Something to look at, with the step at which it began and the value there."""

    step: int
    metric: str
    value: float
    text: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.metric} is {self.value:.3g}: {self.text}"


class Alarms:
    """Raises an alarm at the first step of each stretch of steps that calls for it."""

    def __init__(self) -> None:
        self._first_entropy: float | None = None
        self._on: set[str] = set()

    def look(self, step: int, metrics: Mapping[str, float | None]) -> list[Alarm]:
        """Return the alarms that begin at a step; steps come in their order."""
        values = {name: float(value) for name in WATCHED if (value := metrics.get(name)) is not None}
        if self._first_entropy is None:
            self._first_entropy = values.get(ENTROPY)
        called_for = {name for name, value in values.items() if self._is_wrong(name, value)}
        begun = [name for name in WATCHED if name in called_for - self._on]
        self._on = called_for
        return [Alarm(step, name, values[name], _TEXTS[name]) for name in begun]

    def _is_wrong(self, name: str, value: float) -> bool:
        if name == ENTROPY:
            return value < ENTROPY_LEFT * (self._first_entropy or 0.0)
        if name == CORRECT:
            return value == 0
        return value > {KL: MOST_KL, GAP: MOST_GAP, MISSING: 0.0}[name]


def alarms_of(steps: Iterable[tuple[int, Mapping[str, float | None]]]) -> list[Alarm]:
    """Return all alarms of a training, given the metrics of its steps in their order."""
    alarms = Alarms()
    return [alarm for step, metrics in steps for alarm in alarms.look(step, metrics)]
