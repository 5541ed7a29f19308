"""The replay buffer: dynamic sampling with an end, and the same groups in every run."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from service.errors import InputError
from trainer_adapter.verl.plugin.settings import SETTINGS_KEY

_Reasons = tuple[set[str], set[str], set[str], Counter[float]]


class NeighborReplayBuffer(ReplayBuffer):  # type: ignore[misc]
    """verl's synchronous buffer, which would refill for ever and in the order of arrival.

    Args:
        waves: whether groups are looked at only once none is under way, and taken by their names; so that
            what is drawn does not depend on who finishes first.
        max_prompts: the most questions a step may draw, those of the first batch included.
    """

    def __init__(
        self, *, waves: bool, max_prompts: int, refill_fn: Callable[[int], int], **kwargs: Any
    ) -> None:
        super().__init__(refill_fn=self._refill, **kwargs)
        self._submit, self._waves, self._max_prompts = refill_fn, waves, max_prompts
        self._step, self._wanted, self._drawn = 0, 0, 0
        self.all_right = self.all_wrong = 0

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """Return a batch of `batch_size` questions' responses and verl's metrics.

        Raises:
            InputError: dynamic sampling drew more questions than allowed.
        """
        if partition_id != "val":
            self._step, self._wanted, self._drawn = global_steps, batch_size, batch_size
            self.all_right = self.all_wrong = 0
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        if partition_id != "val" and self.filter_groups_metric is not None:
            metrics["tagrpo/filter/questions_drawn"] = self._drawn
            metrics["tagrpo/filter/all_right"] = self.all_right
            metrics["tagrpo/filter/all_wrong"] = self.all_wrong
        return batch, metrics

    def _refill(self, prompts: int) -> int:
        if self._drawn >= self._max_prompts:
            raise InputError(
                f"step {self._step}: dynamic sampling drew {self._drawn} questions and found fewer than "
                f"{self._wanted} whose answers are neither all right nor all wrong: {self.all_right} groups "
                f"were all right, {self.all_wrong} all wrong. Take questions nearer to the model's ability, "
                f"more responses, or neighbors; raise {SETTINGS_KEY}.max_gen_batches; or use no filter."
            )
        self._drawn += prompts
        return self._submit(prompts)

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, eviction_reasons: _Reasons
    ) -> tuple[set[str], int, int, dict[str, Any]]:
        evicted: tuple[set[str], int, int, dict[str, Any]] = super()._evict_terminal_groups(
            global_steps, partition_id, eviction_reasons
        )
        for correctness, groups in eviction_reasons[3].items():
            if correctness > 0:
                self.all_right += groups
            else:
                self.all_wrong += groups
        return evicted

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        if self._must_wait(partition_id):
            return set(), Counter()
        filtered: tuple[set[str], Counter[float]] = super()._dapo_filtered_keys(partition_id)
        return filtered

    def _sampleable_terminal_keys(self, partition_id: str, eviction_reasons: _Reasons) -> set[str]:
        if self._must_wait(partition_id):
            return set()
        sampleable: set[str] = super()._sampleable_terminal_keys(partition_id, eviction_reasons)
        return sampleable

    def _must_wait(self, partition_id: str) -> bool:
        under_way = self.pending_keys[partition_id] or self.running_keys[partition_id]
        return (
            self._waves
            and self.filter_groups_metric is not None
            and partition_id != "val"
            and bool(under_way)
        )

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        chosen, partition, steps = super()._select_prompt_uids(
            partition_id, sampleable_keys, len(sampleable_keys)
        )
        # The trainer numbers questions as they are drawn; verl's order is that of a set.
        return sorted(chosen, key=lambda uid: (steps.get(uid, 0), uid))[:batch_size], partition, steps
