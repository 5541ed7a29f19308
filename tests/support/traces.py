"""What a response of the sandbox's policy says of itself."""

from sandbox.traces import STRATEGIES


def strategy_of(response: str) -> int | None:
    """Return the strategy that a response names first; None where it names none."""
    return next((i for i, name in enumerate(STRATEGIES) if response.startswith(name)), None)
