"""Dynamic sampling with a limit, and with the same groups in every run."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from trainer_adapter.verl.plugin.settings import SETTINGS_KEY
from trainer_adapter.verl.transfer import remove_rows, wait_for_responses, with_rows

_LOG = logging.getLogger("tagrpo.trainer")
_SURPLUS = "training/filter_groups/discarded_surplus_samples"


class NeighborReplayBuffer(ReplayBuffer):  # type: ignore[misc]
    """verl's synchronous buffer, without endless refills and dependence on arrival order.

    verl draws questions again, up to `max_prompts` a step. Then the step uses the available groups with a
    gradient or, if there are none, groups without. With `waves` groups are inspected only when none is in
    flight, so that draws do not depend on the order of arrival. `dead` names the groups without a gradient
    that the last step drew.
    """

    def __init__(
        self, *, sampler_kwargs: Mapping[str, Any], refill_fn: Callable[[int], int], **kwargs: Any
    ) -> None:
        given = dict(sampler_kwargs)
        self._submit, self._waves, self._max_prompts = refill_fn, given.pop("waves"), given.pop("max_prompts")
        self._look_every_s = given["poll_interval"]
        super().__init__(refill_fn=self._refill, sampler_kwargs={}, **given, **kwargs)
        self._filters = given["filter_groups_metric"] is not None
        self._step, self._wanted, self._drawn, self._dropped = 0, 0, 0, 0
        self._kept: dict[str, float] = {}
        self.all_right = self.all_wrong = 0
        self.dead: set[str] = set()

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """Return a batch of `batch_size` questions' responses, or fewer at the limit, and verl's metrics."""
        if partition_id == "val":
            validation: tuple[Any, dict[str, Any]] = super().sample(global_steps, partition_id, batch_size)
            return validation
        self._step, self._wanted, self._drawn, self._dropped = global_steps, batch_size, batch_size, 0
        self.all_right = self.all_wrong = 0
        self.dead = set()
        self._kept = {}
        self._wait()
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        if not self._filters:
            return batch, metrics
        self._count(Counter(self._kept.values()))
        taken = {_uid(key) for key in batch.keys}
        dead = taken & self._kept.keys()
        if dead:
            batch = self._without(batch, dead, taken)
        metrics["tagrpo/filter/questions_drawn"] = self._drawn
        metrics["tagrpo/filter/all_right"] = self.all_right
        metrics["tagrpo/filter/all_wrong"] = self.all_wrong
        metrics["tagrpo/filter/surplus"] = metrics.get(_SURPLUS, 0) - len(self._kept.keys() - taken)
        metrics["tagrpo/filter/missing"] = len(dead)
        return batch, metrics

    def _without(self, batch: Any, dead: set[str], taken: set[str]) -> Any:
        """Return the batch without groups that have no gradient, unless it has no others."""
        alive = [row for row, key in enumerate(batch.keys) if _uid(key) not in dead]
        _LOG.warning(
            "step %d: dynamic sampling used %d questions and found %d of %d mixed groups (%d all-right, %d "
            "all-wrong); the step trains on %s. Use questions closer to the model's ability, more "
            "responses, or neighbors; or raise %s.max_gen_batches",
            *(self._step, self._drawn, len(taken - dead), self._wanted, self.all_right, self.all_wrong),
            "those" if alive else "groups without a gradient",
            SETTINGS_KEY,
        )
        if not alive:
            return batch
        gone = [key for key in batch.keys if _uid(key) in dead]
        remove_rows(batch, gone)
        return with_rows(batch, [batch.keys[row] for row in alive], [batch.tags[row] for row in alive])

    def _refill(self, prompts: int) -> int:
        allowed = min(prompts, self._max_prompts - self._drawn)
        if allowed <= 0:
            return 0
        self._drawn += allowed
        submitted = self._submit(allowed)
        self._wait()
        return submitted

    def _wait(self) -> None:
        if self._waves and self._filters:
            wait_for_responses("train", self._look_every_s)

    def _count(self, groups: Counter[float]) -> None:
        for correctness, number in groups.items():
            if correctness > 0:
                self.all_right += number
            else:
                self.all_wrong += number

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        """Return the groups without a gradient to drop: as many as others can still be drawn for."""
        dead, counts = super()._dapo_filtered_keys(partition_id)
        if not dead:
            self._kept = {}
            return dead, counts
        replaceable = self._max_prompts - self._dropped - self._wanted
        rewards = self._dapo_classification_cache[partition_id]
        ordered = sorted(dead)
        gone = ordered[: max(0, replaceable)]
        self._kept = {uid: rewards[uid] for uid in ordered[len(gone) :]}
        self.dead |= dead
        self._dropped += len(gone)
        counts = Counter(rewards[uid] for uid in gone)
        self._count(counts)
        return set(gone), counts

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        chosen, partition, steps = super()._select_prompt_uids(
            partition_id, sampleable_keys, len(sampleable_keys)
        )
        # The trainer numbers questions in drawing order; verl's order is that of a set.
        ordered = sorted(chosen, key=lambda uid: (uid in self._kept, steps.get(uid, 0), uid))
        return ordered[:batch_size], partition, steps


def _uid(key: str) -> str:
    return key.split("_")[0]
