"""The words that decide a mathematics problem, by concept.

A concept is what synonyms share: 'largest', 'greatest' and 'maximum' are one. Concepts of one group exclude
each
other: where the original has one and the candidate another of its group instead, the problem was changed.
`strict` concepts may neither vanish nor appear; the others are so often reworded that their loss alone is a
warning, and fatal only where the candidate otherwise repeats the original word for word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Concept:
    """A meaning, the regular expression of its words (lower case), the group it belongs to."""

    name: str
    words: str
    group: str = ""
    strict: bool = False


# Phrases first: what they contain must not be read as words of their own.
NEUTRAL = (
    r"(?:different|distinct) (?:\w+ )?(?:ways?|arrangements?|values?|outcomes?|combinations?|types?|"
    r"kinds?|sets?)|"
    r"even (?:if|though|when|after|before|more|less|fewer|the|with|as|by|then)|on average|by means of|"
    r"means that|"
    r"this means|which means|at the same (?:time|rate|speed)|same|more or less|for the first time|"
    r"square (?:\w+ )?"
    r"(?:units?|feet|foot|inch(?:es)?|meters?|metres?|centimeters?|centimetres?|miles?|yards?|kilometers?|cm|ft)|"
    r"square footage|perfectly|in (?:its |the )?(?:simplest|lowest|reduced)(?: possible)? (?:form|terms?)|"
    r"lowest terms|"
    r"(?:simplest|lowest) form|in simplified form|positively|as well as|as much as|as many as|not only|"
    r"whether or not|"
    r"no matter|without loss of generality|greatest integer|more than one|or more generally|"
    r"(?:in|with) terms of|left (?:over|with)|is left|are left|left behind|left in|right away|right now|"
    r"all right|"
    r"number line|in the long run|at least once per|in total|a total of|the total|best|how long|"
    r"as long as|no longer|"
    r"(?:shown|given|listed|pictured|drawn|written|illustrated|stated|described|statements?|figures?|diagrams?|"
    r"tables?|graphs?|conditions?|pictures?|expressions?|equations?|facts|grids?|see|as) (?:below|above)|"
    r"(?:below|above)(?=\s*(?:[,.:;?!]|$))|"
    r"long after|for long|after all|square (?:roots?|numbers?)|cube roots?|turns? out"
)

CONCEPTS: tuple[Concept, ...] = (
    # Bounds and comparisons
    Concept("at least", r"at (?:the )?least|at (?:a|the) minimum|no (?:fewer|less) than|not (?:less|"
                        r"fewer) than|"
            r"(?:or|and) (?:more|greater|above|higher|larger)|minimum of \d+|"
            r"greater than or equal to", "bound"),
    Concept("at most", r"at (?:the )?most|no (?:more|greater|larger) than|not (?:more|greater) than|(?:or|"
                       r"and) (?:fewer|less|below|"
            r"under)|less than or equal to|(?:not|never|without) exceed\w*|up to|maximum of \d+", "bound"),
    Concept("exactly", r"exactly|precisely", "bound"),
    Concept("gcd", r"gc[df]\b|hcf\b|(?:greatest|highest|largest) common (?:positive )?(?:divisors?|"
                   r"factors?)", "gcd", True),
    Concept("lcm", r"lcm\b|(?:least|lowest|smallest) common (?:positive )?multiples?|lcd\b|"
                   r"least common denominators?", "gcd", True),
    Concept("maximum", r"maxim\w+|greatest|largest|biggest|highest|most|longest|latest|as (?:large|great|"
                       r"big|high) as possible|"
            r"upper bound|max\b", "extremum", True),
    Concept("minimum", r"minim\w+|smallest|least|lowest|fewest|shortest|earliest|tiniest|cheapest|"
                       r"lower bound|min\b|"
            r"as (?:small|low|few) as possible", "extremum", True),
    Concept("more", r"more|greater|larger|bigger|higher|exceed\w*|additional|additionally|extra|over|"
                    r"above|longer|taller|"
            r"older|heavier|further|farther|surpass\w*|beyond|faster|another", "comparison"),
    Concept("less", r"less|fewer|smaller|lower|below|under|shorter|younger|lighter|beneath|cheaper|"
                    r"short of|slower|lesser",
            "comparison"),
    # Operations
    Concept("sum", r"sums?|adding|added (?:up|together)|adds? up|add together", "operation"),
    Concept("product", r"products?|multiplied|multiplying|multiply", "operation"),
    Concept("quotient", r"quotients?", "operation"),
    Concept("difference", r"differences?|subtracted|subtracting|subtract", "operation"),
    Concept("remainder", r"remainders?|modulo", "division"),
    Concept("squares", r"squared|perfect squares?", "power"),
    Concept("cubes", r"cubed|perfect cubes?", "power"),
    # Kinds of numbers
    Concept("even", r"even", "parity", True),
    Concept("odd", r"odd", "parity", True),
    Concept("nonnegative", r"non-?negative", "sign", True),
    Concept("nonpositive", r"non-?positive", "sign", True),
    Concept("positive", r"positive|natural numbers?|counting numbers?|naturals", "sign"),
    Concept("negative", r"negative", "sign"),
    Concept("integer", r"integers?|whole[ -]numbers?|natural numbers?|counting numbers?|integral|naturals|"
                       r"lattice|integer-valued",
            "number"),
    Concept("rational", r"rational", "number"),
    Concept("irrational", r"irrational", "number", True),
    Concept("complex", r"complex|imaginary|nonreal|non-real", "number"),
    Concept("real", r"reals?|real-valued"),
    Concept("prime", r"primes?", "prime"),
    Concept("composite", r"composites?", "prime"),
    Concept("coprime", r"relatively prime|co-?prime|mutually prime", "prime"),
    Concept("consecutive", r"consecutive\w*|successive\w*"),
    Concept("distinct", r"distinct|different|unequal|unique|no (?:two|2)|no repeated|not repeated|"
                        r"no repetition|without repetition|"
            r"no repeats|pairwise|differ\w*|separate|various", "distinct"),
    # Counting
    Concept("with replacement", r"with (?:replacement|repetition)|(?:puts?|placed?|put|"
                                r"returned) (?:it )?back|replaced|"
            r"repetition is allowed|repetitions? allowed", "replacement", True),
    Concept("without replacement", r"without (?:replacement|replacing|being replaced|repetition)|"
                                   r"not (?:replaced|put back)|no replacement|"
            r"repetition is not allowed", "replacement", True),
    Concept("inclusive", r"inclusive|including|endpoints?|through|included", "inclusive"),
    Concept("exclusive", r"exclusive|excluding", "inclusive"),
    Concept("indistinguishable", r"indistinguishable|identical|alike|indistinct", "alike"),
    Concept("distinguishable", r"distinguishable", "alike"),
    Concept("permutation", r"permutations?|orders?|ordered|ordering|arranged?\w*", "order"),
    Concept("combination", r"combinations?|unordered|order does not matter", "order"),
    Concept("probability", r"probabilit\w+|probable|chances?|odds|likel\w+|likelihood"),
    Concept("heads", r"heads?", "coin"),
    Concept("tails", r"tails?", "coin"),
    Concept("increasing", r"increasing|ascending|non-?decreasing", "monotone", True),
    Concept("decreasing", r"decreasing|descending order|non-?increasing", "monotone", True),
    Concept("increase", r"increases?|increased|raises?|raised|gains?|gained|grows?|grew|rises?|rose|risen|"
                        r"marked up", "change"),
    Concept("decrease", r"decreases?|decreased|reduces?|reduced|lowers?|lowered|loses?|lost|shrinks?|"
                        r"shrank|falls?|fell|drops?|"
            r"dropped|discount\w*|marked down|reduction", "change"),
    # Statistics
    Concept("mean", r"(?:arithmetic )?means? of|the (?:arithmetic )?mean|arithmetic mean|mean value|"
                    r"mean score|averages?|averaged",
            "statistic", True),
    Concept("median", r"medians?", "statistic"),
    Concept("mode", r"modes?", "statistic", True),
    Concept("range", r"ranges?", "function part"),
    Concept("domain", r"domains?", "function part", True),
    Concept("variance", r"variance|standard deviation", "statistic", True),
    # Geometry: what is measured
    Concept("area", r"areas?", "measure"),
    Concept("perimeter", r"perimeters?", "measure"),
    Concept("circumference", r"circumferences?", "measure"),
    Concept("volume", r"volumes?", "measure"),
    Concept("surface area", r"surface areas?", "measure"),
    Concept("radius", r"radius|radii", "circle part", True),
    Concept("diameter", r"diameters?", "circle part", True),
    Concept("hypotenuse", r"hypotenuse", "triangle part"),
    Concept("altitude", r"altitudes?", "triangle part"),
    Concept("median line", r"angle bisectors?|perpendicular bisectors?|bisectors?", "triangle part"),
    Concept("leg", r"legs?", "triangle part"),
    Concept("complement", r"complement(?:s|ary)?", "angle pair", True),
    Concept("supplement", r"supplement(?:s|ary)?", "angle pair", True),
    Concept("interior", r"interior|inside", "side of"),
    Concept("exterior", r"exterior|outside", "side of"),
    Concept("inscribed", r"inscribed|inscribes?", "scribed", True),
    Concept("circumscribed", r"circumscribed|circumscribes?|circumcircle|circumradius", "scribed", True),
    Concept("parallel", r"parallel", "direction"),
    Concept("perpendicular", r"perpendicular|orthogonal|right angles?", "direction"),
    Concept("horizontal", r"horizontal(?:ly)?", "orientation", True),
    Concept("vertical", r"vertical(?:ly)?", "orientation", True),
    Concept("clockwise", r"clockwise", "turn", True),
    Concept("counterclockwise", r"counter-?clockwise|anti-?clockwise", "turn", True),
    Concept("acute", r"acute", "angle kind", True),
    Concept("obtuse", r"obtuse", "angle kind", True),
    Concept("minor", r"minor", "arc", True),
    Concept("major", r"major", "arc", True),
    Concept("isosceles", r"isosceles", "triangle kind"),
    Concept("equilateral", r"equilateral|regular triangles?", "triangle kind"),
    Concept("scalene", r"scalene", "triangle kind", True),
    Concept("convex", r"convex", "", True),
    # Shapes
    Concept("square shape", r"squares?", "shape"),
    Concept("rectangle", r"rectangles?|rectangular", "shape"),
    Concept("triangle", r"triangles?|triangular", "shape"),
    Concept("circle", r"circles?|circular|disks?|discs?", "shape"),
    Concept("parallelogram", r"parallelograms?", "shape"),
    Concept("rhombus", r"rhombus(?:es)?|rhombi", "shape"),
    Concept("trapezoid", r"trapezoids?|trapeziums?", "shape"),
    Concept("pentagon", r"pentagons?|pentagonal", "shape"),
    Concept("hexagon", r"hexagons?|hexagonal", "shape"),
    Concept("octagon", r"octagons?|octagonal", "shape"),
    Concept("cube shape", r"cubes?", "solid"),
    Concept("sphere", r"spheres?|spherical|balls?", "solid"),
    Concept("cylinder", r"cylinders?|cylindrical", "solid"),
    Concept("cone", r"cones?|conical", "solid"),
    Concept("pyramid", r"pyramids?", "solid"),
    Concept("prism", r"prisms?", "solid"),
    Concept("parabola", r"parabolas?", "conic"),
    Concept("ellipse", r"ellipses?", "conic"),
    Concept("hyperbola", r"hyperbolas?", "conic"),
    # Algebra and number theory
    Concept("x part", r"x ?-? ?(?:intercepts?|coordinates?|axis|axes|values?)", "axis"),
    Concept("y part", r"y ?-? ?(?:intercepts?|coordinates?|axis|axes|values?)", "axis"),
    Concept("slope", r"slopes?", "line part"),
    Concept("intercept", r"intercepts?", "line part"),
    Concept("numerator", r"numerators?", "fraction part", True),
    Concept("denominator", r"denominators?", "fraction part", True),
    Concept("units digit", r"(?:units?|ones|unit's|one's)[ -]digits?|last digits?|(?:units?|"
                           r"ones) places?", "place"),
    Concept("tens digit", r"tens[ -]digits?|tens places?|ten's digits?", "place"),
    Concept("hundreds digit", r"hundreds[ -]digits?|hundreds places?", "place"),
    Concept("leading digit", r"(?:leading|leftmost|first) digits?|leading coefficients?", "place"),
    Concept("constant term", r"constant (?:term|coefficient)", "place"),
    Concept("arithmetic", r"arithmetic", "progression"),
    Concept("geometric", r"geometric", "progression"),
    Concept("foci", r"foci|focus|focal", "conic part"),
    Concept("vertex", r"vertex|vertices", "conic part"),
    Concept("directrix", r"directrix", "conic part"),
    Concept("asymptote", r"asymptotes?", "conic part"),
    Concept("column", r"columns?", "table"),
    Concept("row", r"rows?", "table"),
    Concept("sine", r"sines?", "trigonometry"),
    Concept("cosine", r"cosines?", "trigonometry"),
    Concept("tangent", r"tangents?", "trigonometry"),
    Concept("divisor", r"divisors?|factors?", "divisibility"),
    Concept("multiple", r"multiples?|divisible", "divisibility"),
    Concept("inverse", r"inverses?|inversely", "proportion"),
    Concept("direct", r"directly", "proportion"),
    Concept("sale", r"sells?|sold|selling", "trade"),
    Concept("purchase", r"buys?|bought|buying|purchases?|purchased", "trade"),
    # Directions and times
    Concept("north", r"north\w*", "compass"),
    Concept("south", r"south\w*", "compass"),
    Concept("east", r"east\w*", "compass"),
    Concept("west", r"west\w*", "compass"),
    Concept("left", r"left(?:most|ward|wards)?", "hand"),
    Concept("right", r"right(?:most|ward|wards)?", "hand"),
    Concept("before", r"before|prior to|earlier|ago", "time order"),
    Concept("after", r"after|later|following|subsequent\w*", "time order"),
    Concept("first", r"first|initial(?:ly)?|beginning|start(?:s|ing)?", "end of"),
    Concept("last", r"last|final(?:ly)?|end", "end of"),
    Concept("a.m.", r"a\.?m\.?(?!\w)|mornings?", "half of day"),
    Concept("p.m.", r"p\.?m\.?(?!\w)|afternoons?|evenings?|nights?", "half of day"),
    Concept("boys", r"boys?|men|man|males?|sons?|brothers?|husbands?", "people"),
    Concept("girls", r"girls?|women|woman|females?|daughters?|sisters?|wife|wives", "people"),
    Concept("red", r"red", "colour"), Concept("blue", r"blue", "colour"), Concept("green", r"green",
    "colour"),
    Concept("white", r"white", "colour"), Concept("black", r"black", "colour"), Concept("yellow", r"yellow",
    "colour"),
    # Logic
    Concept("not", r"not|n't|cannot|never|no|none|neither|nor|without|except|unless|other than|fails?|"
                   r"nothing"),
    Concept("and", r"and|both", "junction"),
    Concept("or", r"or|either", "junction"),
    Concept("all", r"all|every|each|any", "bound"),
    Concept("some", r"some", "quantifier"),
    Concept("only", r"only|solely|just"),
)  # fmt: skip

BY_NAME = {concept.name: concept for concept in CONCEPTS}


def named(text: str) -> Iterator[str]:
    """The concepts a lower-case text names, in order; of several at one place the first listed wins."""
    by_letter = _patterns_by_letter()
    position = 0
    while (start := _WORD_START.search(text, position)) is not None:
        position = start.end()
        pattern = by_letter.get(start.group())
        match = pattern.match(text, start.start()) if pattern else None
        if match:
            position = max(position, match.end())
            if match.lastgroup and match.lastgroup != "neutral":
                yield CONCEPTS[int(match.lastgroup[1:])].name


def _alternatives(words: str) -> list[str]:
    """Split a regular expression at its outermost bars."""
    parts, level, start = [], 0, 0
    for i, character in enumerate(words):
        level += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and level == 0:
            parts.append(words[start:i])
            start = i + 1
    return [*parts, words[start:]]


def _first_letters(words: str) -> set[str]:
    """The letters a match of one alternative can begin with."""
    if not words.startswith("(?:"):
        return {words[0]}
    level = end = 0
    while end == 0 or level:
        level += {"(": 1, ")": -1}.get(words[end], 0)
        end += 1
    letters = set().union(*(_first_letters(inner) for inner in _alternatives(words[3 : end - 1])))
    rest = words[end:]
    return letters | _first_letters(rest[1:]) if rest.startswith("?") else letters


@cache
def _patterns_by_letter() -> dict[str, re.Pattern[str]]:
    # One alternation of all words is tried in full at every word; by first letter it is a tenth of the work.
    groups = [("neutral", NEUTRAL), *((f"c{i}", concept.words) for i, concept in enumerate(CONCEPTS))]
    by_letter: dict[str, dict[str, list[str]]] = {}
    for group, words in groups:
        for alternative in _alternatives(words):
            for letter in _first_letters(alternative):
                by_letter.setdefault(letter, {}).setdefault(group, []).append(alternative)
    return {
        letter: re.compile(
            "(?:"
            + "|".join(f"(?P<{group}>{'|'.join(words)})" for group, words in chosen.items())
            + r")(?!\w)"
        )
        for letter, chosen in by_letter.items()
    }


_WORD_START = re.compile(r"(?<![a-z])[a-z]")
