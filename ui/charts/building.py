"""Specifications of charts for pages: built without Altair's checks, which cost half of the time."""

from collections.abc import Callable
from typing import Any

__all__ = ["build_spec"]


def build_spec(make: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """Return the Vega-Lite specification of the chart that `make` returns.

    Altair compares every part of a chart with the schema of Vega-Lite, which takes half of the 60 ms that a
    chart takes to build. The charts' tests do that; a page need not do it at every click. The switch is one
    of the whole process: where two threads build at a time it may stay off, which changes no specification.
    """
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        spec: dict[str, Any] = make(*arguments, **options).to_dict(validate=False)
    return spec
