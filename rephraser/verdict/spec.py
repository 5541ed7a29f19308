"""Rules as plain data, for the spec of a run and the evidence of a verdict."""

from collections.abc import Mapping
from dataclasses import asdict, fields

from rephraser.verdict.bayes_factor import BayesRule
from rephraser.verdict.judge import RULES, Rule
from rephraser.verdict.overlap import OverlapRule
from service.errors import InputError
from service.hashing import Json


def rule_spec(rule: Rule) -> dict[str, Json]:
    """Return the rule's name under "rule" and each of its fields; JSON keeps it as it is."""
    name = next(name for name, kind in RULES.items() if type(rule) is kind)
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(rule).items()}
    return {"rule": name, **values}


def rule_from_spec(spec: Mapping[str, Json]) -> Rule:
    """Return the rule that `rule_spec` described; fields left out take their defaults.

    Raises:
        InputError: for an unknown rule or field, or values the rule refuses.
    """
    name = spec.get("rule")
    if not isinstance(name, str) or name not in RULES:
        raise InputError(f"verdict rule: {name!r} is not a rule; give one of {', '.join(RULES)}")
    kind = RULES[name]
    known = {field.name for field in fields(kind)}
    if unknown := sorted(set(spec) - known - {"rule"}):
        raise InputError(
            f"verdict rule: {name} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in spec.items() if key != "rule"}
    rule: OverlapRule | BayesRule
    try:
        rule = kind(**values)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"verdict rule: {name} cannot use {values}: {error}") from error
    return rule
