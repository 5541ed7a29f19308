"""Replay in verl's batch: mixed groups of earlier steps, kept on the driver and in checkpoints."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from trainer_adapter.methods.groups import Tensor
from trainer_adapter.methods.replaying import MixedGroup, MixedGroups, replay_weights
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.transfer import add_rows, read_rows, remove_rows, with_rows

_MIXED_GROUPS = "tagrpo_mixed_groups.pt"
_IMAGES = "multi_modal_inputs"


class _Replayed(NamedTuple):
    """A response from verl's queue after its advantage was computed.

    `weights_T` are its importance weights in the step that drew it.
    """

    key: str
    tag: Mapping[str, Any]
    fields: dict[str, Any]
    weights_T: Tensor


_Group = tuple[str, list[str]]
"""A question, and the keys of its responses in a step."""


class ReplayedBatch(NamedTuple):
    """verl's handle on a step's responses, including replayed ones, and the weights of each by its key."""

    batch: Any
    weights: Mapping[str, Tensor]

    def weights_of(self, batch: Any, responses: StepResponses) -> Tensor:
        """Return the weights of the real rows of `batch`, shape BT, 0 at padding."""
        weights_BT = torch.zeros(len(responses.about), responses.mask_AT.shape[-1])
        for row, key in enumerate(_real_keys(batch)):
            weights_BT[row, : len(self.weights[key])] = self.weights[key]
        return weights_BT


class ReplayStep:
    """Replace groups without a gradient by mixed groups of earlier steps.

    A replayed group keeps the advantages, token weights and reference log-probs of the step that drew it; its
    old log-probs are recomputed.
    """

    def __init__(self, *, steps: int, most: int, threshold: float) -> None:
        self._memory, self._threshold = MixedGroups(steps, most), threshold

    def replay(
        self,
        batch: Any,
        responses: StepResponses,
        weights_BT: Tensor | None,
        *,
        step: int,
        size: int,
        log_probs: Callable[[Sequence[dict[str, Any]]], Sequence[Tensor]],
    ) -> tuple[ReplayedBatch | None, dict[str, float]]:
        """Return the batch with replayed groups, None if there are none, and metrics.

        The mixed groups of `batch` are stored for later steps; replaced groups leave verl's queue. A group
        with fewer than `size` responses is neither replaced nor stored, so that batches keep their size.

        Args:
            weights_BT: importance weights of the step's responses; None if all are 1.
            log_probs: computes the log-probs of rows of verl's queue under the policy of this step.
        """
        drawn = _weights(batch, responses, weights_BT)
        mixed, dead = _groups(batch, responses)
        replaced = [keys for _, keys in dead if len(keys) == size]
        chosen = self._memory.choose(len(replaced), step, {question for question, _ in mixed})
        kept = float(len(self._memory))
        self._keep(batch, [(question, keys) for question, keys in mixed if len(keys) == size], step, drawn)
        metrics = {
            "tagrpo/replay/kept": kept,
            "tagrpo/replay/groups": float(len(chosen)),
            "tagrpo/replay/missing": float(len(dead) - len(chosen)),
        }
        if not chosen:
            return None, metrics
        again: list[_Replayed] = [row for group in chosen for row in group.rows]
        gone = [key for keys in replaced[: len(chosen)] for key in keys]
        old = log_probs([row.fields for row in again])
        ratios = [
            replay_weights(old_T, row.fields["old_log_probs"], self._threshold)
            for old_T, row in zip(old, again, strict=True)
        ]
        fields = [{**row.fields, "old_log_probs": old_T} for row, old_T in zip(again, old, strict=True)]
        remove_rows(batch, gone)
        add_rows(batch, [row.key for row in again], fields, [row.tag for row in again])
        of_tokens = torch.cat(ratios).double()
        metrics["tagrpo/replay/age"] = sum(step - group.step for group in chosen) / len(chosen)
        metrics["tagrpo/replay/weight_mean"] = float(of_tokens.mean())
        metrics["tagrpo/replay/ess"] = float(of_tokens.sum() ** 2 / of_tokens.square().sum() / len(of_tokens))
        replayed = {row.key: row.weights_T * ratio_T for row, ratio_T in zip(again, ratios, strict=True)}
        taken = dict(zip(gone, again, strict=True))
        keys = [taken[key].key if key in taken else key for key in batch.keys]
        tags = [
            dict(taken[key].tag) if key in taken else tag
            for key, tag in zip(batch.keys, batch.tags, strict=True)
        ]
        return ReplayedBatch(with_rows(batch, keys, tags), drawn | replayed), metrics

    def _keep(self, batch: Any, groups: Sequence[_Group], step: int, weights: Mapping[str, Tensor]) -> None:
        """Remove the rows of these groups from verl's queue, which drops them at the end of the step."""
        keys = [key for _, of_group in groups for key in of_group]
        if not keys:
            return
        tags = dict(zip(batch.keys, batch.tags, strict=True))
        data = read_rows(batch, keys=keys)
        columns = {name: _values(column, len(keys)) for name, column in data.items()}
        if _IMAGES in columns:
            columns[_IMAGES] = _sharing(columns[_IMAGES])
        rows = {
            key: _Replayed(
                key, tags[key], {name: column[row] for name, column in columns.items()}, weights[key]
            )
            for row, key in enumerate(keys)
        }
        self._memory.keep(
            MixedGroup(question, step, [rows[key] for key in of_group]) for question, of_group in groups
        )

    def save(self, folder: Path) -> None:
        """Write the stored groups into the folder of a checkpoint; remove those of removed checkpoints."""
        for earlier in folder.parent.glob(f"global_step_*/{_MIXED_GROUPS}"):
            if not (earlier.parent / "actor").exists():
                earlier.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        groups = self._memory.all()
        kept = [(group.question_id, group.step, [tuple(row) for row in group.rows]) for group in groups]
        torch.save(kept, folder / _MIXED_GROUPS)

    def load(self, folder: Path) -> None:
        """Restore the groups of a checkpoint; a checkpoint without groups restores none."""
        if (folder / _MIXED_GROUPS).is_file():
            kept = torch.load(folder / _MIXED_GROUPS, weights_only=False)
            self._memory.keep(
                MixedGroup(question, step, [_Replayed(*row) for row in rows]) for question, step, rows in kept
            )


def _groups(batch: Any, responses: StepResponses) -> tuple[list[_Group], list[_Group]]:
    """Return the mixed groups of a step and the others, in the order in which their questions were drawn."""
    rows: dict[str, list[int]] = {}
    keys = _real_keys(batch)
    for row, key in enumerate(keys):
        rows.setdefault(key.rsplit("_", 2)[0], []).append(row)
    mixed: list[_Group] = []
    dead: list[_Group] = []
    for _, of_group in sorted(rows.items()):
        group = str(responses.about[of_group[0]]["question_id"]), [keys[row] for row in of_group]
        (mixed if len(set(responses.correct_B[of_group].tolist())) > 1 else dead).append(group)
    return mixed, dead


def _weights(batch: Any, responses: StepResponses, weights_BT: Tensor | None) -> dict[str, Tensor]:
    """Return the importance weights of the tokens of each response by its key."""
    mask_BT = responses.mask_AT[responses.real_A] > 0
    held_BT = torch.ones(mask_BT.shape) if weights_BT is None else weights_BT
    return {
        key: weights_T[mask_T]
        for key, weights_T, mask_T in zip(_real_keys(batch), held_BT, mask_BT, strict=True)
    }


def _real_keys(batch: Any) -> list[str]:
    return [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]


def _values(column: Any, rows: int) -> list[Any]:
    """Return a column of verl's queue by row; tensors are copied, being views of the whole column."""
    if isinstance(column, torch.Tensor):
        return [each.clone() for each in column.unbind()]
    return [getattr(value, "data", value) for value in (column[row] for row in range(rows))]


def _sharing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the images of rows; a tensor equal to the previous row's, as in a group, is stored once."""
    shared = rows[:1]
    for row in rows[1:]:
        before = shared[-1]
        same = {name for name, value in row.items() if name in before and torch.equal(value, before[name])}
        shared.append({name: before[name] if name in same else value for name, value in row.items()})
    return shared
