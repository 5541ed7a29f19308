"""The trainer: verl's synchronous one, with a recipe's groups, advantages, weights and loss."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf, open_dict
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from service.engines.images import image_tokens
from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.skipping import SkipPolicy
from trainer_adapter.methods.step_advantages import step_advantages
from trainer_adapter.record.files import read_metrics
from trainer_adapter.record.metrics import StepBatch, step_metrics
from trainer_adapter.verl.alarms import MARK, Alarms
from trainer_adapter.verl.plugin.agent_loop import DRAW_FIELD, questions_of
from trainer_adapter.verl.plugin.checks import check_config
from trainer_adapter.verl.plugin.importance import Importance, importance, log_probs_of, own_log_probs
from trainer_adapter.verl.plugin.loss import SCALE_FIELD, LossTerms, recipe_loss, scale_rows
from trainer_adapter.verl.plugin.overrides import CORRECTNESS
from trainer_adapter.verl.plugin.responses import StepResponses, read_responses
from trainer_adapter.verl.plugin.settings import recipe_of, settings_of
from trainer_adapter.verl.plugin.steps.advantages import hand_over
from trainer_adapter.verl.plugin.steps.dynamic import NeighborReplayBuffer
from trainer_adapter.verl.plugin.steps.recording import open_record
from trainer_adapter.verl.plugin.steps.replaying import ReplayStep
from trainer_adapter.verl.plugin.steps.updates import order_updates, place_of
from trainer_adapter.verl.step_texts import record_step, step_batch
from trainer_adapter.verl.transfer import check_connection, read_rows, write_fields

_LOG = logging.getLogger("tagrpo.trainer")
_SHORT = "step %d: question %s has %d of %d responses; the others failed (see the rollout log)"
_LOST = "step %d: %d of %d questions have no response; all of their requests failed (see the rollout log)"

_DRAWN = ("input_ids", "position_ids", "prompts", "responses", "response_mask", "loss_mask")
_COMPUTED = ("old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights", SCALE_FIELD)
"""Fields that the workers of a text model read."""


class NeighborTrainer(PPOTrainerSync):  # type: ignore[misc]
    """Train the recipe in the config."""

    def __init__(self, config: Any) -> None:
        check_connection()
        plain: Any = OmegaConf.to_container(config, resolve=True)
        self.recipe, self.settings = recipe_of(plain), settings_of(plain)
        check_config(plain, self.recipe, self.settings)
        self._drawn: Counter[str] = Counter()
        self._drawn_in, self._questions = -1, 0
        self._skipping = SkipPolicy(self.settings.draw_again, self.settings.seed or 0)
        self._replaying = ReplayStep(
            steps=self.settings.replay_steps,
            most=config.data.train_batch_size,
            threshold=self.settings.replay_threshold,
        )
        self._alarms = Alarms()
        with open_dict(config):
            # Any other name would select the asynchronous replay buffer (`trainer_base.py:153`).
            config.trainer.v1.trainer_mode = "sync"
            self._choose_buffer(config)
        super().__init__(config)
        self._record = open_record(plain, self.recipe, self.settings)

    def _choose_buffer(self, config: Any) -> None:
        sampler, batch_size = config.trainer.v1.sampler, config.data.train_batch_size
        sampler.custom_sampler = {
            "path": f"pkg://{NeighborReplayBuffer.__module__}",
            "name": NeighborReplayBuffer.__name__,
        }
        sampler.sampler_kwargs = {
            "waves": self.settings.waves,
            "max_prompts": self.settings.max_gen_batches * batch_size,
            "poll_interval": self.settings.poll_interval_s,
            "filter_groups_metric": CORRECTNESS if self.recipe.drops_dead_groups else None,
            "train_batch_size": batch_size,
            "gen_batch_size": 1,  # of what replaces a group
            "max_inflight_gen_batches": config.algorithm.filter_groups.get("max_inflight_gen_batches", 1),
        }

    def on_init_end(self) -> None:
        self._update_weights(super().on_init_end)

    def on_step_end(self) -> None:
        self._update_weights(super().on_step_end)

    def _update_weights(self, update: Callable[[], None]) -> None:
        """Have verl send the weights within a time; if the engine fails, it waits for ever.

        It runs in a thread that is left behind then, so that the process has to end soon after.
        """
        outcome: Future[None] = Future()

        def run() -> None:
            try:
                update()
                outcome.set_result(None)
            except BaseException as error:
                outcome.set_exception(error)

        limit_s = self.settings.weight_update_limit_s
        threading.Thread(target=run, daemon=True, name="weight update").start()
        if not wait([outcome], limit_s).done:
            raise TimeoutError(
                f"step {self.global_steps}: the rollout engine did not load the new weights within "
                f"{limit_s:g} s. See its error in the log above"
            )
        outcome.result()

    def on_train_begin(self) -> None:
        super().on_train_begin()
        actor = self.config.actor_rollout_ref.actor
        terms = LossTerms(self.recipe.loss, self.config.data.max_response_length, actor.entropy_coeff)
        self.actor_rollout_wg.set_loss_fn(partial(recipe_loss, terms=terms))
        self._resume(self.global_steps - 1)

    def _resume(self, step: int) -> None:
        """Restore the state of the step whose checkpoint verl has loaded, if any."""
        if step:
            trainer = self.config.trainer
            named = trainer.resume_from_path if trainer.resume_mode == "resume_path" else None
            folder = Path(named) if named else self._checkpoint(step)
            self._skipping.load(folder)
            self._replaying.load(folder)
            if self._record is not None:  # the first step's entropy is that of the first start
                for earlier, metrics in read_metrics(self._record.folder)[0].items():
                    if earlier <= step:
                        self._alarms.look(earlier, metrics)

    def _fetch_one_gen_batch(self) -> Any:
        """Name the questions in drawing order; verl makes up random names."""
        batch = super()._fetch_one_gen_batch()
        if self._drawn_in != self.global_steps:
            self._drawn, self._drawn_in = Counter(), self.global_steps
        if self.recipe.filter == "predicted":
            most = self.settings.max_gen_batches * self.config.data.train_batch_size
            for _ in range(most):  # if all would be skipped, none is
                if not self._skipping.skips(questions_of(batch)[0], self.global_steps):
                    break
                batch = super()._fetch_one_gen_batch()
        names, draws = [], []
        for identity in questions_of(batch):
            draws.append(self._drawn[identity])
            self._drawn[identity] += 1
            names.append(f"{self.global_steps}-{self._questions:09d}")
            if self.recipe.filter == "predicted":
                self._skipping.draw(names[-1], identity)
            self._questions += 1
        for field, values in (("uid", names), (DRAW_FIELD, draws)):
            batch[field] = NonTensorStack.from_list([NonTensorData(value) for value in values])
        return batch

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **kwargs: Any) -> Any:
        """Sort rows into a fixed order, since responses arrive in a random one."""
        batch.reorder(sorted(range(len(batch.keys)), key=lambda row: place_of(batch.keys[row])))
        sizes = Counter(key.rsplit("_", 2)[0] for key in batch.keys)
        if self.recipe.filter == "predicted":
            self._skipping.count_step(self.replay_buffer.dead, sizes.keys(), self.global_steps)
            metrics["tagrpo/filter/skipped"] = self._skipping.skipped
        whole = self.recipe.rollouts
        short = {uid: size for uid, size in sizes.items() if size < whole}
        drawn = self.config.data.train_batch_size - int(metrics.get("tagrpo/filter/missing", 0))
        lost = max(0, drawn - len(sizes))
        metrics["tagrpo/groups/short"] = len(short) + lost
        metrics["tagrpo/groups/missing_responses"] = sum(
            whole - size for size in (*short.values(), *[0] * lost)
        )
        if lost:
            _LOG.warning(_LOST, self.global_steps, lost, drawn)
        for uid, size in sorted(short.items()):
            _LOG.warning(_SHORT, self.global_steps, uid, size, whole)
        return self._make_updates(batch, list(batch.keys), metrics, **kwargs)

    def _make_updates(self, batch: Any, keys: list[str], metrics: dict[str, Any], **kwargs: Any) -> Any:
        """Let verl fill and balance a batch, then restore whole questions per update, in key order."""
        batch = super()._balance_batch(batch, metrics, **kwargs)
        metrics.update(order_updates(batch, keys, mini_batch=self._mini_batch, ranks=self._ranks))
        return self._for_workers(batch)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, Any]) -> Any:
        """Train a step, and wait until its rollouts are on the disk, also if it fails."""
        try:
            return super().step(metrics, timing_raw)
        finally:
            if self._record is not None:
                self._record.flush()

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Compute advantages and weights over the whole step, and let verl write them."""
        responses = self._read(batch)
        mask_BT = responses.mask_AT[responses.real_A]
        groups_B = responses.groups(self.recipe)
        weighed = self._importance(batch, responses)
        made = step_advantages(
            self.recipe,
            responses.scores_B,
            responses.correct_B,
            mask_BT,
            responses.tensors_BT["old_log_probs"],
            groups_B,
            max_length=self.config.data.max_response_length,
            foreign_B=responses.numbers("foreign") > 0,
            log_ratio_B=weighed.log_ratio_B,
            overlong_buffer=self.settings.overlong_buffer,
            generator=torch.Generator().manual_seed(
                (self.settings.seed or 0) * 1_000_003 + self.global_steps
            ),
        )
        advantages_AT = torch.zeros(responses.mask_AT.shape, dtype=torch.float32)
        advantages_AT[responses.real_A] = made.advantages_BT.float()
        hand_over(advantages_AT)
        batch = super()._compute_advantage(batch, metrics)
        staged = self.recipe.rollouts // 2 if self.recipe.sampling == "rescue" else None
        step = step_batch(self.global_steps, responses, groups_B, made, weighed, first_stage=staged)
        self._observe(responses, step, metrics)
        if self.recipe.filter == "replay":
            return self._replay(batch, responses, weighed.weights_BT, metrics)
        return self._write_for_loss(batch, responses, weighed.weights_BT)

    def _read(self, batch: Any) -> StepResponses:
        ends = {self.tokenizer.eos_token_id} - {None}
        longest = self.config.data.max_response_length
        return read_responses(batch, end_ids=frozenset(ends), max_length=longest)

    def _replay(
        self, batch: Any, responses: StepResponses, weights_BT: Tensor | None, metrics: dict[str, Any]
    ) -> Any:
        """Train on mixed groups of earlier steps instead of groups without a gradient."""
        read = _DRAWN if self.processor is None else (*_DRAWN, "multi_modal_inputs")
        replayed, counted = self._replaying.replay(
            batch,
            responses,
            weights_BT,
            step=self.global_steps,
            size=self.recipe.rollouts,
            log_probs=lambda rows: self._log_probs(
                batch, [{name: row[name] for name in read} for row in rows]
            ),
        )
        metrics.update(counted)
        if replayed is not None:
            # A replacement takes the group's place, and so its update.
            pairs = zip(batch.keys, replayed.batch.keys, strict=True)
            drawn = [key for _, key in sorted(pairs, key=lambda pair: place_of(pair[0]))]
            batch = self._make_updates(replayed.batch, drawn, metrics)
            responses = self._read(batch)
            weights_BT = replayed.weights_of(batch, responses)
        return self._write_for_loss(batch, responses, weights_BT)

    def _save_checkpoint(self) -> None:
        """Save after the record: steps up to a checkpoint are never trained again.

        Metrics of the whole step follow after the checkpoint, and a kill may come before.
        """
        if self._record is not None:
            self._record.write_metrics(self.global_steps, self._metrics)
        # Before verl marks the checkpoint as complete.
        if self.recipe.filter == "predicted":
            self._skipping.save(self._checkpoint(self.global_steps))
        if self.recipe.filter == "replay":
            self._replaying.save(self._checkpoint(self.global_steps))
        super()._save_checkpoint()

    def _checkpoint(self, step: int) -> Path:
        """Return the folder of a step's checkpoint."""
        return Path(self.config.trainer.default_local_dir, f"global_step_{step}")

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        for alarm in self._alarms.look(self.global_steps, metrics):
            _LOG.warning("%s: %s", MARK, alarm)
        if self._record is not None:
            for failure in self._record.failures:
                _LOG.warning("%s: %s; training continues", MARK, failure)
            self._record.failures.clear()
            self._record.write_metrics(self.global_steps, metrics)

    def _for_workers(self, batch: Any) -> Any:
        """List the fields that a text model needs; verl also sends workers prompts and grades."""
        rollout = self.config.actor_rollout_ref.rollout
        if self.processor is not None or rollout.enable_rollout_routing_replay:
            return batch
        if batch.fields is None:  # as it comes from the replay buffer, with the draws
            batch.fields = list(_DRAWN)
        else:
            batch.fields = [name for name in batch.fields if name in (*_DRAWN, *_COMPUTED)]
        return batch

    def _importance(self, batch: Any, responses: StepResponses) -> Importance:
        own_BT = None
        if self.settings.corrects_engine:
            own_BT = own_log_probs(batch, responses, self.processor, partial(self._log_probs, batch))
        return importance(responses, self.recipe, self.settings, own_BT)

    def _log_probs(self, batch: Any, samples: Sequence[dict[str, Any]]) -> list[Tensor]:
        rollout, workers = self.config.actor_rollout_ref.rollout, self.actor_rollout_wg
        rows = 1 if rollout.log_prob_use_dynamic_bsz else int(rollout.log_prob_micro_batch_size_per_gpu)
        return log_probs_of(
            samples, batch, workers, ranks=self._ranks, temperature=rollout.temperature, micro_batch=rows
        )

    @property
    def _mini_batch(self) -> int:
        ours = self.config.actor_rollout_ref
        return int(ours.actor.ppo_mini_batch_size * ours.rollout.n)

    @property
    def _ranks(self) -> int:
        return int(max(self.actor_rollout_wg._dispatch_info["actor"])) + 1

    def _write_for_loss(self, batch: Any, responses: StepResponses, weights_BT: Tensor | None) -> Any:
        kl_A = responses.real_A.clone()
        if self.settings.kl_on == "question":
            kl_A[responses.real_A] = responses.numbers("variant") == 0
        scales_A4 = scale_rows(responses.mask_AT, kl_A, mini_batch=self._mini_batch, ranks=self._ranks)
        fields = TensorDict({SCALE_FIELD: scales_A4}, batch_size=len(batch))
        if weights_BT is not None:
            weights_AT = torch.zeros(responses.mask_AT.shape, dtype=torch.float32)
            weights_AT[responses.real_A] = weights_BT
            lengths = read_rows(batch, ["response_mask"])["response_mask"].offsets().diff().tolist()
            rows = [weights_AT[row, :length] for row, length in enumerate(lengths)]
            fields["rollout_is_weights"] = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        return self._for_workers(write_fields(batch, fields))

    def _observe(self, responses: StepResponses, step: StepBatch, metrics: dict[str, Any]) -> None:
        """Inspect a step before the policy is updated."""
        metrics.update(step_metrics(step))
        self._metrics = metrics
        metrics["tagrpo/grader/timeouts"] = sum(
            graded.get("reason") == "timeout" for graded in responses.graded
        )
        if self._record is not None:
            if self.settings.record_share < 1:
                metrics["tagrpo/record/share"] = self.settings.record_share
            record_step(
                self._record,
                responses,
                step,
                self.tokenizer,
                with_tokens=self.settings.record_tokens,
                share=self.settings.record_share,
                image_ids=image_tokens(getattr(self.processor, "config", None)),
            )
