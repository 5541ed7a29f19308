"""Number words and what they stand for."""

from __future__ import annotations

from fractions import Fraction

UNITS = {w: i for i, w in enumerate(
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen"])}  # fmt: skip
TENS = {
    w: 10 * i
    for i, w in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
ORDINALS = {w: i for i, w in enumerate(
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
    "eighteenth", "nineteenth", "twentieth"], start=1)}  # fmt: skip
ORDINALS |= {"thirtieth": 30, "fortieth": 40, "fiftieth": 50, "hundredth": 100, "thousandth": 1000}
PARTS = {f"{w}s": n for w, n in ORDINALS.items() if n > 2} | {w: n for w, n in ORDINALS.items() if n > 2}
PARTS |= {"half": 2, "halves": 2, "quarter": 4, "quarters": 4}

STATED_WORDS = {
    "twice": 2, "thrice": 3, "double": 2, "doubled": 2, "doubles": 2, "doubling": 2, "triple": 3,
    "tripled": 3,
    "triples": 3, "tripling": 3, "quadruple": 4, "quadrupled": 4, "quadruples": 4, "quintuple": 5,
    "dozen": 12,
    "dozens": 12, "twofold": 2, "threefold": 3, "fourfold": 4, "fivefold": 5, "tenfold": 10,
}  # fmt: skip
OFFERED_WORDS: dict[str, tuple[int | Fraction, ...]] = {
    "pair": (2,), "pairs": (2,), "both": (2,), "couple": (2,), "duo": (2,), "two": (2,), "neither": (2,),
    "either": (2,),
    "trio": (3,), "triplets": (3,), "twins": (2,), "twin": (2,), "quartet": (4,), "bicycle": (2,),
    "bike": (2,),
    "tricycle": (3,), "unicycle": (1,), "squared": (2,), "square": (2, 4), "cubed": (3,), "cube": (3, 6, 12),
    "cubic": (3,), "quadratic": (2,), "halved": (2,), "halves": (2,), "halve": (2,), "halving": (2,),
    "half": (2, 50),
    "week": (7,), "weeks": (7,), "weekly": (7,), "weekday": (5,), "weekdays": (5,), "weekend": (2,),
    "weekends": (2,),
    "workdays": (5,), "workweek": (5,),
    "year": (12, 365, 52), "years": (12, 365, 52), "yearly": (12,), "annual": (12,), "annually": (12,),
    "month": (30,), "monthly": (12,), "months": (12,), "day": (24,), "days": (24,), "daily": (24,),
    "hour": (60,),
    "hours": (60,), "minute": (60,), "minutes": (60,), "decade": (10,), "decades": (10,), "century": (100,),
    "centuries": (100,), "fortnight": (2, 14), "fortnights": (2, 14), "score": (20,), "percent": (100,),
    "percentage": (100,), "half-hour": (30,), "foot": (12,), "feet": (12,), "yard": (3,), "yards": (3,),
    "quarter": (4, 25, 3, 15), "quarters": (4, 25), "quarterly": (3, 4), "semester": (6,), "noon": (12,),
    "midnight": (12,),
    "dime": (10,), "dimes": (10,), "nickel": (5,), "nickels": (5,), "pennies": (1,), "gross": (144,),
    "triangle": (3,), "triangular": (3,), "pentagon": (5,), "hexagon": (6,), "octagon": (8,),
    "tetrahedron": (4,),
    "straight": (180,), "origin": (0,), "right": (90,), "biweekly": (2,), "again": (2,), "secondary": (2,),
    "second": (2,),
    "cent": (100,), "cents": (100,), "kilogram": (1000,), "kilograms": (1000,), "hundredth": (2,),
    "thousandth": (3,),
    "percentages": (100,), "binary": (2,), "decimal": (10,), "dice": (6, 2), "die": (6,), "cuboid": (6,),
    "bi-weekly": (2,), "teen": (13,), "previous": (1,), "other": (2, 1), "remaining": (1,), "latter": (2,),
    "former": (1,),
    "initial": (1,), "final": (), "tenth": (1,), "odd": (2,), "even": (2,), "evenly": (2,), "equally": (2,),
    "gcd": (2,), "million": (6,), "semicircle": (2, 180), "semicircular": (2,), "biannual": (2,),
    "biannually": (2,),
}  # fmt: skip
OFFERED_WORDS |= dict.fromkeys(
    ["bisector", "bisectors", "midpoint", "midpoints", "midway", "halfway"], (Fraction(1, 2),)
)
OFFERED_WORDS |= dict.fromkeys(["bisect", "bisects", "bisected", "bisecting"], (2, Fraction(1, 2)))
OFFERED_WORDS |= {w.replace("y", "ies"): (n,) for w, n in TENS.items()} | {"tens": (10,), "fives": (5,),
"twos": (2,),
    "ones": (1,), "hundreds": (100,), "fifths": (5,), "thirds": (3,)}  # fmt: skip
CONVERSIONS: dict[str, tuple[int, str]] = {
    "week": (7, "day"), "fortnight": (14, "day"), "year": (12, "month"), "hour": (60, "minute"),
    "minute": (60, "second"), "day": (24, "hour"), "foot": (12, "inch"), "yard": (3, "foot"), "decade": (10,
    "year"),
    "dozen": (12, ""), "dollar": (100, "cent"), "meter": (100, "centimeter"), "kilometer": (1000, "meter"),
    "century": (100, "year"), "quarter": (3, "month"),
}  # fmt: skip
SINGULAR = {"feet": "foot", "inches": "inch", "centuries": "century", "metre": "meter",
"kilometre": "kilometer",
             "centimetre": "centimeter", "cm": "centimeter"}  # fmt: skip
