"""Units: kilometers may become km, but not miles."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding, fatal, warning
from rephraser.checks.text import CURRENCY, Question

_UNITS: dict[str, dict[str, str]] = {
    "length": {
        "kilometer": r"kilomet(?:er|re)s?|km|kph|kmph|km/h|kmh", "meter": r"met(?:er|re)s?|m/s",
        "centimeter": r"centimet(?:er|re)s?|cm", "millimeter": r"millimet(?:er|re)s?|mm",
        "mile": r"miles?|mph|mi", "foot": r"foot|feet|ft|footage", "inch": r"inch(?:es)?",
        "yard": r"yards?|yds?", "light year": r"light-?years?",
    },
    "mass": {
        "kilogram": r"kilograms?|kilos?|kgs?", "gram": r"grams?", "milligram": r"milligrams?|mg",
        "pound": r"pounds?|lbs?", "ounce": r"ounces?|oz", "ton": r"tons?|tonnes?",
    },
    "volume": {
        "liter": r"lit(?:er|re)s?", "milliliter": r"millilit(?:er|re)s?|ml", "gallon": r"gallons?|gal",
        "quart": r"quarts?", "pint": r"pints?", "tablespoon": r"tablespoons?|tbsp",
        "teaspoon": r"teaspoons?|tsp",
    },
    "time": {
        "second": r"seconds|secs?", "minute": r"minutes?|mins?", "hour": r"hours?|hrs?|hourly|mph|kph|kmph",
        "day": r"days?|daily", "week": r"weeks?|weekly|fortnights?", "month": r"months?|monthly",
        "year": r"years?|yrs?|yearly|annual(?:ly)?",
    },
    "money": {
        "dollar": rf"dollars?|{CURRENCY}|bucks?", "cent": r"cents?|¢|penny|pennies", "euro": r"euros?|€",
        "pound sterling": r"£|pence",
    },
    "angle": {"degree": r"degrees?|°", "radian": r"radians?"},
    "temperature": {"celsius": r"celsius", "fahrenheit": r"fahrenheit", "kelvin": r"kelvins?"},
}  # fmt: skip
_KIND = {unit: kind for kind, units in _UNITS.items() for unit in units}
_NAMES = [unit for units in _UNITS.values() for unit in units]
_PATTERNS = [pattern for units in _UNITS.values() for pattern in units.values()]
_SCAN = re.compile("|".join(rf"(?P<u{i}>(?<![a-z])(?:{p})(?![a-z]))" for i, p in enumerate(_PATTERNS)))
_COMPOUND = {"mph": ("mile", "hour"), "kph": ("kilometer", "hour"), "kmph": ("kilometer", "hour"),
             "km/h": ("kilometer", "hour"), "kmh": ("kilometer", "hour"), "m/s": ("meter", "second"),
             "¢": ("cent",), "pennies": ("cent",)}  # fmt: skip
_BESIDE_NUMBER = {
    "meter": r"m", "gram": r"g", "second": r"s", "inch": r"in\.", "liter": r"l", "hour": r"h",
    "minute": r"min",
}  # fmt: skip
_BESIDE = re.compile(
    r"\d[ -]?(?:" + "|".join(f"(?P<b{i}>{p})" for i, p in enumerate(_BESIDE_NUMBER.values())) + r")(?![a-z])"
)
_VAGUE = {"time", "money"}


def unit_names(question: Question) -> frozenset[str]:
    """The units a question names, by their singular English names."""
    text = question.reading.replace("\\circ", "°").replace("^\\circ", "°")
    for segment in question.segments:
        if segment.is_formula and (
            "circ" in segment.text or "degree" in segment.text or "\\$" in segment.text
        ):
            text += " ° " if "circ" in segment.text or "degree" in segment.text else f" {CURRENCY} "
    found: set[str] = set()
    for match in _SCAN.finditer(text):
        word = match.group(0)
        found.update(_COMPOUND.get(word, (_NAMES[int((match.lastgroup or "u0")[1:])],)))
    for match in _BESIDE.finditer(text):
        found.add(list(_BESIDE_NUMBER)[int((match.lastgroup or "b0")[1:])])
    return frozenset(found)


def check_units(original: frozenset[str], candidate: frozenset[str]) -> list[Finding]:
    """Findings unit_changed (fatal: one unit gave way to another of its kind) and unit_missing (warning)."""
    findings: list[Finding] = []
    lost, gained = sorted(original - candidate), sorted(candidate - original)
    for unit in lost:
        others = [u for u in gained if _KIND[u] == _KIND[unit]]
        if others:
            # A day, a night, an hour: words of time and money are reworded together with their numbers,
            # and the numbers are checked on their own.
            severity = (
                warning if _KIND[unit] in _VAGUE and not _exchanged(original, candidate, unit) else fatal
            )
            findings.append(severity("unit_changed", f"the unit {unit} of the original became {others[0]}"))
        else:
            findings.append(warning("unit_missing", f"the unit {unit} of the original is missing"))
    return findings


def _exchanged(original: frozenset[str], candidate: frozenset[str], unit: str) -> bool:
    kind = _KIND[unit]
    before = {u for u in original if _KIND[u] == kind}
    after = {u for u in candidate if _KIND[u] == kind}
    return not before & after and {"day", "second"}.isdisjoint(before | after)
