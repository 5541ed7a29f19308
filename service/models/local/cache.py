"""Keys and values of many rows in one buffer: rows come and go, their newest tokens end in one column.

    columns   0    lo                  hi
    row 0     .    p p p p p r r r r r r|
    row 1     .    . . . . p p p p r r r|      a row's tokens stand in columns start..hi
    row 2     .    . . . . . . . . p p r|

All rows write the column `hi` in a step, so a step copies nothing else, and what lies left of the longest row
is not computed. A row that leaves gives its place to the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from transformers.cache_utils import Cache, DynamicLayer

Prefix: TypeAlias = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of some tokens, one pair a layer, each of shape (heads, tokens, size)."""

_CHUNK = 64


@dataclass(frozen=True)
class Room:
    """How large the buffer may be: rows, and rows times columns. One row may always be as long as it must."""

    rows: int
    places: int

    def fits(self, rows: int, columns: int) -> bool:
        """Return whether so many rows of so many columns may be there."""
        return rows <= 1 or (rows <= self.rows and rows * columns <= self.places)


class _Layer(DynamicLayer):  # type: ignore[misc]
    """One layer's buffer, of shape (rows, heads, columns, size); the window lo..hi of it is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.lo = self.hi = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, end = key_states.shape[0], self.hi + key_states.shape[2]
        self.keys[:rows, :, self.hi : end] = key_states
        self.values[:rows, :, self.hi : end] = value_states
        return self.keys[:rows, :, self.lo : end], self.values[:rows, :, self.lo : end]

    def get_seq_length(self) -> int:
        return self.hi - self.lo

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.hi - self.lo + query_length, 0

    def resize(
        self, keys: torch.Tensor, values: torch.Tensor, rows: int, columns: int, used: int, hi: int
    ) -> None:
        """Take a buffer of another size for the like of `keys` and `values`.

        The first `used` rows keep their window, which now ends at column `hi`.
        """
        by = hi - self.hi
        for name, like in (("keys", keys), ("values", values)):
            # zeros: what a masked place holds is multiplied by 0, so it must be finite
            made = like.new_zeros((rows, like.shape[0], columns, like.shape[2]))
            if used:
                made[:used, :, self.lo + by : hi] = getattr(self, name)[:used, :, self.lo : self.hi]
            setattr(self, name, made)
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def move(self, used: int, hi: int) -> None:
        """Move the window of the first `used` rows so that it ends at column `hi`."""
        by = hi - self.hi
        for part in (self.keys, self.values):
            part[:used, :, self.lo + by : hi] = part[:used, :, self.lo : self.hi].clone()

    def put(self, row: slice, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write tokens that end at `hi` into rows."""
        self.keys[row, :, start : self.hi] = keys
        self.values[row, :, start : self.hi] = values


class RowCache:
    """A cache of rows for decoding one token a step; `past` is what a model of transformers is given.

    After an error (out of memory) call `clear`; the rows are lost.
    """

    def __init__(self) -> None:
        self._layers: list[_Layer] = []
        self._rows = self._columns = 0  # of the buffer
        self._hi = 0
        self.past = Cache(layers=self._layers)
        self.starts: list[int] = []  # of the rows in use

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def width(self) -> int:
        """How many columns a step computes, without the new one."""
        return self._hi - min(self.starts) if self.starts else 0

    @property
    def places(self) -> int:
        """Rows times columns of the buffer."""
        return self._rows * self._columns

    def lengths(self) -> list[int]:
        """Return the number of tokens of each row, which is the next token's position."""
        return [self._hi - start for start in self.starts]

    def mask(self, device: torch.device) -> torch.Tensor | None:
        """Return the 2D mask (rows, width + 1) of the next step; None where nothing is to be masked."""
        lo = min(self.starts)
        if lo == max(self.starts):
            return None
        columns = torch.arange(lo, self._hi + 1, device=device)
        return (columns[None, :] >= torch.tensor(self.starts, device=device)[:, None]).long()

    def append(self, prefix: Prefix, rows: int, room: Room) -> None:
        """Add rows that begin with the same tokens."""
        while len(self._layers) < len(prefix):
            self._layers.append(_Layer())
        length = prefix[0][0].shape[1]
        self._reserve(rows, length, prefix, room)
        first, start = len(self), self._hi - length
        for layer, (keys, values) in zip(self._layers, prefix, strict=True):
            layer.put(slice(first, first + rows), start, keys, values)
        self.starts += [start] * rows
        self._set_window()

    def grow(self, room: Room) -> None:
        """See to it that there is a column for the next tokens."""
        if self._hi >= self._columns:
            self._reserve(0, 0, [(layer.keys[0], layer.values[0]) for layer in self._layers], room)

    def advance(self) -> None:
        """Count the column that the model has just written."""
        self._hi += 1
        self._set_window()

    def drop(self, row: int) -> None:
        """Take a row out; the last row takes its place."""
        last = len(self) - 1
        if row != last:
            start = self.starts[row] = self.starts[last]
            for layer in self._layers:
                window = (last, slice(None), slice(start, self._hi))
                layer.put(slice(row, row + 1), start, layer.keys[window], layer.values[window])
        self.starts.pop()
        self._set_window()

    def clear(self) -> None:
        """Take all rows out and give the memory back."""
        self._layers.clear()
        self.starts.clear()
        self._rows = self._columns = self._hi = 0

    def _reserve(self, rows: int, length: int, like: Prefix, room: Room) -> None:
        """See to it that `rows` more rows of `length` tokens fit, and one more column for all."""
        used, width = len(self), max(self.width, length)
        if not used:
            self._hi = 0
        if used + rows > self._rows or width >= self._columns:
            if width >= self._columns:
                self._columns = -(-(width * 5 // 4 + 1) // _CHUNK) * _CHUNK
            self._rows = max(used + rows, min(room.rows, room.places // self._columns))
            for layer, (keys, values) in zip(self._layers, like, strict=True):
                layer.resize(keys, values, self._rows, self._columns, used, width)
        elif self._hi < length or self._hi >= self._columns:
            for layer in self._layers:
                layer.move(used, width)
        else:
            return
        self.starts = [start + width - self._hi for start in self.starts]
        self._hi = width
        self._set_window()

    def _set_window(self) -> None:
        lo = min(self.starts, default=self._hi)
        for layer in self._layers:
            layer.lo, layer.hi = lo, self._hi
