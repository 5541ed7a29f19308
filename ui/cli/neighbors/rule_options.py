"""Options of the verdict's rule, for `propose` and `judge`, and from them to the rule."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rephraser.verdict import Rule

RuleName = Literal["overlap", "bayes"]
Accept = Annotated[
    float | None,
    typer.Option(
        "--accept",
        help="Accept from this many shared answers on (overlap, 9), or from this posterior (bayes, .99).",
        show_default=False,
    ),
]
Reject = Annotated[
    float | None,
    typer.Option(
        "--reject",
        help="Reject from this many equal new answers on (overlap, 11), or to this posterior (bayes, .01).",
        show_default=False,
    ),
]
FlaggedMore = Annotated[
    int | None,
    typer.Option(
        "--flagged-more",
        min=0,
        help="overlap: shared answers asked for in addition where structure speaks against a candidate (2).",
        show_default=False,
    ),
]
QuestionSamples = Annotated[
    int | None,
    typer.Option(
        "--question-samples",
        min=1,
        help="Answers drawn once for a question (overlap 32, bayes 16).",
        show_default=False,
    ),
]
Looks = Annotated[
    str | None,
    typer.Option(
        "--looks",
        help="Numbers of answers to a candidate at which a verdict may fall, as in 12,16. Thresholds of "
        "overlap that are not given follow in proportion.",
        show_default=False,
    ),
]


def make_rule(
    name: RuleName | None,
    *,
    accept: float | None = None,
    reject: float | None = None,
    flagged_more: int | None = None,
    question_samples: int | None = None,
    looks: str | None = None,
    base: "Rule | None" = None,
) -> "Rule":
    """Return the named rule with what was given changed; without a name `base`, with the same changed.

    Raises:
        InputError: values that the rule refuses.
        typer.BadParameter: a value that the rule does not have, or looks that are no numbers.
    """
    from rephraser.verdict import RULES, BayesRule, OverlapRule

    rule = base
    if rule is None or (name is not None and type(rule) is not RULES[name]):
        rule = RULES[name or "overlap"]()
    sizes = _given(original_samples=question_samples, looks=None if looks is None else _looks(looks))
    if isinstance(rule, BayesRule):
        if flagged_more is not None:
            raise typer.BadParameter("--flagged-more belongs to --rule overlap")
        return replace(rule, **_given(accept=accept, reject=reject), **sizes)
    if sizes:
        rule = OverlapRule.scaled(
            sizes.get("original_samples", rule.original_samples), sizes.get("looks", rule.looks)
        )
    accept_overlap, reject_new = _count("--accept", accept), _count("--reject", reject)
    counts = _given(accept_overlap=accept_overlap, reject_new=reject_new, flagged_overlap=flagged_more)
    return replace(rule, **counts)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _looks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"--looks {text}: give numbers with commas between them, as in 12,16"
        ) from None


def _count(option: str, value: float | None) -> int | None:
    if value is None:
        return None
    if value != int(value):
        raise typer.BadParameter(f"{option} {value}: the overlap rule counts answers; give a whole number")
    return int(value)
