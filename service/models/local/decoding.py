"""Decoding in one moving batch: rows that end leave it at once, waiting ones take their places.

What it buys, in seconds of CPU (one thread) on the demo's policy with the same samples: against `generate` in
whole batches 1.7 times less for an evaluation (64 rows at a time) and 1.8 times less for the 512 responses of
a step of training. Batches that only shrink are about as good there, where responses are 9 to 33 tokens long;
with responses of hundreds of tokens their last rows decode alone for most of the time.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from service.errors import PrerequisiteError
from service.models.local.cache import Prefix, Room, RowCache
from service.models.local.choosing import choose_tokens
from service.models.local.images import read_positions
from service.models.local.probing import accepted_arguments, extra_arguments
from service.models.local.rows import TOO_LARGE, Choosing, PromptImages, Row, halved

_PREFILL_TOKENS = 4096
_REFILL_SHARE = 8  # places are filled again when one in so many is free


@dataclass(eq=False)
class _Group:
    """Rows that begin with the same tokens and images, which the model reads once."""

    ids: tuple[int, ...]
    rows: list[Row]
    images: PromptImages | None = None
    offset: int = 0
    prefix: Prefix | None = None
    logits: torch.Tensor | None = field(default=None, repr=False)


class MovingBatch:
    """Decodes rows with a model whose layers all attend to a cache of keys and values.

    A prompt is read once for all its rows. `room` bounds the batch: rows, and rows times the longest one's
    tokens; where that is exceeded, or a GPU's memory, the youngest rows wait and are read again later.
    """

    def __init__(self, model: Any, choosing: Choosing, room: Room) -> None:
        self._model = model
        self._choosing = choosing
        self._room = room
        self._device = model.device
        self._accepted = accepted_arguments(model)
        self._groups: list[_Group] = []  # by length, the longest last
        self._rows: list[Row] = []  # in the order of the cache
        self._cache = RowCache()
        self._done: list[Row] = []
        self._ended, self._ended_tokens = 0, 0
        self._prefill_tokens = _PREFILL_TOKENS
        self._joining = 0
        self.notices: list[str] = []

    @property
    def places(self) -> int:
        return self._room.rows

    @property
    def waiting(self) -> int:
        return sum(len(group.rows) for group in self._groups)

    @property
    def running(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[Row]) -> None:
        alike: dict[tuple[str | None, tuple[int, ...]], list[Row]] = {}
        for row in rows:
            alike.setdefault((_key(row.images), (*row.prompt, *row.tokens)), []).append(row)
        for (key, ids), same in alike.items():
            known = (each for each in self._groups if each.ids == ids and _key(each.images) == key)
            group = next(known, None)
            if group is not None:
                group.rows += same
            else:
                insort(self._groups, _Group(ids, same, same[0].images), key=lambda group: len(group.ids))

    def step(self) -> list[Row]:
        """Fill free places and decode one token of every row; return the finished ones.

        Raises:
            PrerequisiteError: not even one row fits into the GPU's memory.
        """
        with torch.inference_mode():
            try:
                self._admit()
                if self._rows:
                    self._decode()
            except torch.OutOfMemoryError as error:
                self._shrink(error)
        finished, self._done = self._done, []
        self._ended += len(finished)
        self._ended_tokens += sum(len(row.tokens) for row in finished)
        return finished

    def _admit(self) -> None:
        free = self._room.rows - len(self._rows)
        if self._rows and free * _REFILL_SHARE < self._room.rows:
            return
        while self._groups:
            group = self._groups[-1]
            number = self._how_many(group)
            if number < 1:
                return
            self._joining = number
            if group.prefix is None:
                self._prefill()
            self._start(group, number)
            self._joining = 0

    def _how_many(self, group: _Group) -> int:
        """Return how many rows of a group may join: those that, grown to the usual length, still fit."""
        running = len(self._rows)
        asked = group.rows[0].max_tokens
        usual = min(asked, self._ended_tokens // self._ended) if self._ended else asked // 2
        width = max(self._cache.width, len(group.ids) + usual) + 1
        total = min(self._room.rows, self._room.places // width)
        if not running:
            total = max(total, 1)
        return min(len(group.rows), total - running)

    def _prefill(self) -> None:
        """Read the tokens of the last group, and of others of just that length that start with it.

        One with images is read alone.
        """
        if self._groups[-1].images is not None:
            self._prefill_with_images(self._groups[-1], self._groups[-1].images)
            return
        length = len(self._groups[-1].ids)
        most = max(self._prefill_tokens // length, 1)
        free = self._room.rows - len(self._rows)
        batch: list[_Group] = []
        for group in reversed(self._groups):
            if len(group.ids) != length or len(batch) == most or free <= 0 or group.images is not None:
                break
            if group.prefix is None:
                batch.append(group)
            free -= len(group.rows)
        past = DynamicCache()  # it keeps every token, also of layers that look at a window only
        positions = torch.arange(length, device=self._device).expand(len(batch), -1)
        out = self._model(
            input_ids=torch.tensor([group.ids for group in batch], device=self._device),
            past_key_values=past,
            use_cache=True,
            **extra_arguments(self._accepted, positions),
        )
        for place, group in enumerate(batch):
            group.prefix = [(layer.keys[place].clone(), layer.values[place].clone()) for layer in past.layers]
            group.logits = out.logits[place, -1:].clone()

    def _prefill_with_images(self, group: _Group, images: PromptImages) -> None:
        past, ids = DynamicCache(), torch.tensor([group.ids], device=self._device)
        seen = {name: value.to(self._device) for name, value in images.load().items()}
        positions = read_positions(self._model, ids, seen)
        out = self._model(
            input_ids=ids,
            past_key_values=past,
            use_cache=True,
            **{name: value for name, value in seen.items() if value.shape[:2] != ids.shape},
            **extra_arguments(self._accepted, positions),
        )
        group.offset = int(positions.max()) + 1 - len(group.ids)
        group.prefix = [(layer.keys[0].clone(), layer.values[0].clone()) for layer in past.layers]
        group.logits = out.logits[0, -1:].clone()

    def _start(self, group: _Group, number: int) -> None:
        """Draw the first tokens of so many rows of a group; those that go on join the batch."""
        assert group.prefix is not None
        assert group.logits is not None
        rows = group.rows[:number]
        for row in rows:
            row.offset = group.offset
        self._choose(group.logits.expand(len(rows), -1), rows)
        # Only now: where memory does not do for the choice, they still wait.
        group.rows = group.rows[number:]
        if not group.rows:
            self._groups.remove(group)
        going_on = [row for row in rows if row.stop_reason is None]
        self._done += [row for row in rows if row.stop_reason is not None]
        self._rows += going_on
        if going_on:
            self._cache.append(group.prefix, len(going_on), self._room)

    def _decode(self) -> None:
        self._give_way()
        self._cache.grow(self._room)
        lengths = zip(self._cache.lengths(), self._rows, strict=True)
        positions = torch.tensor([length + row.offset for length, row in lengths], device=self._device)[
            :, None
        ]
        out = self._model(
            input_ids=torch.tensor([[row.tokens[-1]] for row in self._rows], device=self._device),
            attention_mask=self._cache.mask(self._device),
            past_key_values=self._cache.past,
            use_cache=True,
            **extra_arguments(self._accepted, positions),
        )
        self._choose(out.logits[:, -1], self._rows)
        self._cache.advance()
        for place in range(len(self._rows) - 1, -1, -1):
            if self._rows[place].stop_reason is not None:
                self._done.append(self._take_out(place))

    def _choose(self, logits: torch.Tensor, rows: Sequence[Row]) -> None:
        how = self._choosing
        logits = how.allowed(logits)
        uniforms = [row.uniforms.at(len(row.tokens)) for row in rows] if how.temperature else []
        tokens = choose_tokens(logits, uniforms, temperature=how.temperature, top_p=how.top_p)
        for row, token in zip(rows, tokens, strict=True):
            row.add(token, how.stop_ids)

    def _take_out(self, place: int) -> Row:
        row = self._rows[place]
        self._cache.drop(place)
        self._rows[place] = self._rows[-1]
        self._rows.pop()
        return row

    def _give_way(self) -> None:
        """Let the youngest rows wait while the batch has outgrown its room."""
        while not self._room.fits(len(self._rows), self._cache.width + 1):
            youngest = min(range(len(self._rows)), key=lambda place: len(self._rows[place].tokens))
            self.add([self._take_out(youngest)])

    def _shrink(self, error: torch.OutOfMemoryError) -> None:
        """Go on with half the batch: all its rows wait, and are read again."""
        rows = max(len(self._rows) + self._joining, 1)
        places = min(self._room.places, rows * (self._cache.width + 1)) if self._rows else self._room.places
        self._joining = 0
        if self._room.rows == 1 and self._prefill_tokens == 1:
            raise PrerequisiteError(TOO_LARGE) from error
        half = max(min(self._room.rows, rows) // 2, 1)
        self._room = Room(half, max(places // 2, 1))
        self._prefill_tokens = 1 if half == 1 else max(self._prefill_tokens // 2, 1)
        self._cache.clear()
        for group in self._groups:
            group.prefix = group.logits = None
        waiting, self._rows = self._rows, []
        self.add(waiting)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        self.notices.append(halved(rows, half))


def _key(images: PromptImages | None) -> str | None:
    return None if images is None else images.key
