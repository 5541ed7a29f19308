"""How fast an engine draws, in words."""

import time
from collections import deque
from collections.abc import Callable

_WINDOW_S = 30.0


class Speed:
    """Counts samples and tokens; `words` gives their rates over the last half minute or since the start."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int, int]] = deque([(clock(), 0, 0)])
        self._samples = self._tokens = 0

    def add(self, samples: int, tokens: int) -> None:
        """Count what was drawn."""
        self._samples += samples
        self._tokens += tokens
        now = self._clock()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._samples, self._tokens))
        while len(self._marks) > 1 and now - self._marks[1][0] > _WINDOW_S:
            self._marks.popleft()

    def words(self) -> str:
        """Return as in `12.5 samples/s, 3,210 tokens/s`."""
        since, samples, tokens = self._marks[0]
        seconds = max(self._clock() - since, 1e-9)
        per_s = (self._samples - samples) / seconds, (self._tokens - tokens) / seconds
        return f"{per_s[0]:.1f} samples/s, {per_s[1]:,.0f} tokens/s"
