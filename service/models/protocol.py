"""What a sampler is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from service.models.work import SamplingWork
from service.runs.filling import Filled

Report = Callable[[int, str], None]
"""Told how many samples have come since the last call, and a few words (speed, cost) to show."""


class Sampler(Protocol):
    """Draws the samples of an eval run. Three rooms hold one each: remote, vllm, local.

    A sampler fills cells of `SamplingWork`: it leases requests, draws their responses and stores them at
    once, so that a kill loses at most what was in flight.
    """

    def describe(self) -> Mapping[str, Any]:
        """Return what shapes its responses beside model, prompt and sampling: it is part of the run's key.

        Always: `sampler` (remote, vllm, local). Engines add their versions, the weights' revision or
        fingerprint, dtype, device kind, the chat template's hash (None where the model has none).

        Raises:
            PrerequisiteError: the engine is not installed, the model cannot be found or reached.
        """
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of the responses so far: raw text for want of a chat template, ..."""
        ...

    def fill(self, work: SamplingWork, report: Report) -> Filled:
        """Draw until no cell of the run is empty or it has to stop; see `Filled.stopped`."""
        ...
