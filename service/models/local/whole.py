"""Decoding batch by batch with the model's own `generate`, where a model keeps more than keys and values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria
from transformers.generation import StoppingCriteriaList

from service.errors import PrerequisiteError
from service.models.local.choosing import choose_tokens
from service.models.local.rows import TOO_LARGE, Choosing, Row, halved

_CALM = 8
"""Batches that have to fit before a larger one is tried again; twice as many after each try that failed."""


class WholeBatches:
    """Decodes batches of rows with prompts of one length; the longest response holds up its batch.

    Where memory ran out a batch has half the rows, and grows again: other prompts are shorter, and what else
    took memory may have ended. A model may get the images of several prompts one after the other.

    Tokens are chosen as in `MovingBatch`, each row by its own seed, so that the samples are the same.
    """

    def __init__(
        self, model: Any, choosing: Choosing, rows: int, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._model = model
        self._choosing = choosing
        self._asked = self._most = rows
        self._calm, self._patience, self._grown = 0, _CALM, False
        self._is_stopped = is_stopped
        self._waiting: list[Row] = []
        name = type(model).__name__
        notice = (
            f"{name} keeps more than keys and values, or takes images in a way of its own: it draws prompts "
            "of one length together, slower."
        )
        self.notices = [notice]

    @property
    def places(self) -> int:
        return self._most

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return 0

    def add(self, rows: Sequence[Row]) -> None:
        self._waiting = sorted([*self._waiting, *rows], key=lambda row: len(row.prompt))

    def step(self) -> list[Row]:
        """Decode one batch to its end; where stopped on the way, its unfinished rows are waiting again.

        Raises:
            PrerequisiteError: not even one row fits into the GPU's memory.
        """
        if not self._waiting:
            return []
        last = self._waiting[-1]
        rows: list[Row] = []
        while self._waiting and len(rows) < self._most:
            row = self._waiting[-1]
            if len(row.prompt) != len(last.prompt) or (row.images is None) != (last.images is None):
                break
            rows.append(self._waiting.pop())
        step = _Step(rows, self._choosing)
        ids = torch.tensor([row.prompt for row in rows], device=self._model.device)
        any_stop = min(self._choosing.stop_ids, default=0)
        ran_out = False
        try:
            with torch.inference_mode():
                self._model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    **self._seen(rows),
                    generation_config=GenerationConfig(
                        max_new_tokens=max(row.max_tokens for row in rows),
                        do_sample=False,
                        pad_token_id=any_stop,
                    ),
                    logits_processor=LogitsProcessorList([step]),
                    stopping_criteria=StoppingCriteriaList([_AllDone(rows, self._is_stopped)]),
                )
        except torch.OutOfMemoryError as error:
            if len(rows) == 1:
                raise PrerequisiteError(TOO_LARGE) from error
            ran_out = True
        if ran_out:  # the error is gone, and with it the tensors of its frames
            self._halve(len(rows))
        else:
            self._grow(len(rows))
        finished = [row for row in rows if row.stop_reason is not None]
        for row in rows:
            if row.stop_reason is None:
                row.tokens.clear()
                self.add([Row(row.prompt, row.max_tokens, row.seed, row.owner, row.place, row.images)])
        return finished

    def _halve(self, rows: int) -> None:
        if self._grown:
            self._patience *= 2
        self._most, self._calm, self._grown = rows // 2, 0, False
        self.notices.append(halved(rows, self._most))
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _grow(self, rows: int) -> None:
        if rows < self._most or self._most == self._asked:
            return
        self._calm += 1
        if self._calm == self._patience:
            self._most, self._calm, self._grown = min(2 * self._most, self._asked), 0, True

    def _seen(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Return what the model is given of the rows' images; those of one prompt are read once."""
        of_prompts: dict[str, Mapping[str, torch.Tensor]] = {}
        for row in rows:
            if row.images is not None and row.images.key not in of_prompts:
                of_prompts[row.images.key] = row.images.load()
        of_rows = [of_prompts[row.images.key] for row in rows if row.images is not None]
        names = of_rows[0] if of_rows else ()
        return {name: torch.cat([seen[name] for seen in of_rows]).to(self._model.device) for name in names}


class _Step(LogitsProcessor):  # type: ignore[misc]
    """Chooses the next tokens of a batch and leaves `generate` nothing else to choose."""

    def __init__(self, rows: Sequence[Row], choosing: Choosing) -> None:
        self._rows = rows
        self._choosing = choosing

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        how = self._choosing
        going_on = [place for place, row in enumerate(self._rows) if row.stop_reason is None]
        rows = [self._rows[place] for place in going_on]
        uniforms = [row.uniforms.at(len(row.tokens)) for row in rows] if how.temperature else []
        allowed = how.allowed(scores[going_on])
        tokens = choose_tokens(allowed, uniforms, temperature=how.temperature, top_p=how.top_p)
        forced = torch.full_like(scores, -torch.inf)
        forced[:, 0] = 0  # what follows in rows that have ended is not looked at
        for place, row, token in zip(going_on, rows, tokens, strict=True):
            row.add(token, how.stop_ids)
            forced[place, 0] = -torch.inf
            forced[place, token] = 0
        return forced


class _AllDone(StoppingCriteria):  # type: ignore[misc]
    def __init__(self, rows: Sequence[Row], is_stopped: Callable[[], bool]) -> None:
        self._rows = rows
        self._is_stopped = is_stopped

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        done = self._is_stopped() or all(row.stop_reason is not None for row in self._rows)
        return torch.full((input_ids.shape[0],), done, dtype=torch.bool, device=input_ids.device)
