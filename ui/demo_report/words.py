"""How the report says a number: shares, differences, intervals, and what an interval allows to be said."""

from collections.abc import Sequence

from evaluator.reports.comparing import MethodComparison

MINUS = "\N{MINUS SIGN}"


def percent(share: float | None) -> str:
    """Return a share as `12.3%`."""
    return "-" if share is None else f"{100 * share:.1f}%"


def points(difference: float) -> str:
    """Return a difference of shares as `+1.2`, in percentage points."""
    return f"{100 * difference:+.1f}".replace("-", MINUS)


def span(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return an interval of shares in percent, `[1.2, 3.4]`."""
    if low is None or high is None:
        return "-"
    return f"[{points(low)}, {points(high)}]" if signed else f"[{100 * low:.1f}, {100 * high:.1f}]"


def number(value: float | None) -> str:
    """Return a number with one decimal, thousands apart."""
    return "-" if value is None else f"{value:,.1f}"


def joined(words: Sequence[str]) -> str:
    """Return words as `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def verdict(found: MethodComparison) -> str:
    """Say at which k one side is ahead as far as the 95% intervals can tell, and where they cannot."""
    [part] = found.parts
    ahead: dict[str, list[str]] = {found.label_a: [], found.label_b: [], "": []}
    for point in part.comparison.points:
        low, high = point.interval.low, point.interval.high
        known = low is not None and high is not None
        if known and low > 0:
            ahead[found.label_a].append(str(point.k))
        elif known and high < 0:
            ahead[found.label_b].append(str(point.k))
        else:
            ahead[""].append(str(point.k))
    said = [f"**{name}** is ahead at k = {joined(ks)}" for name, ks in ahead.items() if name and ks]
    if not said:
        return "the intervals tell no difference at any k"
    if ahead[""]:
        said.append(f"the interval contains 0 at k = {joined(ahead[''])}")
    return "; ".join(said)
