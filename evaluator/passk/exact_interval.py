"""Intervals of shares."""


def exact_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a binomial share (Clopper and Pearson, Biometrika 1934).

    low is the share p at which `successes` or more happen with probability (1 - confidence) / 2, high the one
    at which `successes` or fewer do. The interval covers the true share with at least the stated confidence
    for every number of trials; it is never too short, often slightly long.

    Args:
        successes: 0 to trials. At 0 low is 0, at `trials` high is 1, exactly.
        trials: independent draws, at least 1.
        confidence: above 0 and below 1.

    Raises:
        ValueError: no trials, successes outside 0..trials, or a confidence outside (0, 1).
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials are impossible, so there is no interval")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, but is {confidence}")
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high
