"""Where a paper and its public code differ, formulas are offered as both."""

from typing import Literal, TypeAlias

Variant: TypeAlias = Literal["paper", "repo"]
"""`paper` is the formula as printed (the default), `repo` what the public code computes."""
