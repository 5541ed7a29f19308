"""Rephrasings of English math questions by rules, without a model: `propose_by_rules`.

Formulas, figure code and money are hidden behind single private characters, so that no rule can touch them.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

RULES_VERSION = "3"
_MAX_CHARS = 20_000
INLINE, DISPLAY, BLOCK = "\ue000-\uefff", "\uf000-\uf4ff", "\uf500-\uf8fe"
BREAK = "\uf8ff"  # an empty line between paragraphs
FORMULA = f"[{INLINE}{DISPLAY}]"

_OPAQUE = re.compile(
    r"(?P<asy>\[asy\].*?\[/asy\])"
    r"|(?P<env>\\begin\{(?P<name>[A-Za-z]+\*?)\}.*?\\end\{(?P=name)\})"
    r"|(?P<display>\\\[.*?\\\]|(?<!\\)\$\$.*?(?<!\\)\$\$)"
    r"|(?P<inline>\\\(.*?\\\)|(?<!\\)\$(?:\\.|[^$\\])+\$)"
    r"|(?P<money>\\\$ ?\d+(?:,\d{3})*(?:\.\d+)?)"
    r"|(?P<command>\\[A-Za-z]+\{[^{}]*\})",
    re.S,
)
_STARTS = {
    "asy": 0xF500,
    "env": 0xF500,
    "display": 0xF000,
    "inline": 0xE000,
    "money": 0xE000,
    "command": 0xE000,
}
_LIMITS = {0xE000: 0x1000, 0xF000: 0x500, 0xF500: 0x3FE}
# Punctuation of the sentence that stands inside the dollars; `\right.` and `\,` are not punctuation.
_TAIL = re.compile(r"(?<![\\=\s.])(?<!\\right)(?<!\\left)\s*([.,;?])\s*$")
_OPTIONS = re.compile(r"\(A\).*\(B\)|\bwhich of the following\b|\btrue or false\b|\\textbf", re.I | re.S)


def propose_by_rules(question: str, n: int, *, seed: int = 0) -> list[str]:
    """Return up to `n` distinct rephrasings of an English math question.

    The same question, `n` and seed give the same candidates, and the candidates for a smaller `n` are the
    first of those for a larger one. [] if no rule is safe (two questions asked, multiple choice, other
    languages, unbalanced dollars, text above 20,000 characters). Formulas, figure code and numbers stay as
    they are, apart from sentence punctuation inside dollars. Never raises.
    """
    masked = _mask(question)
    if n < 1 or masked is None or _OPTIONS.search(masked.text):
        return []
    sentences = _split(masked.text)
    asking = [place for place, sentence in enumerate(sentences) if sentence.asks]
    if len(asking) != 1 or masked.text.count("?") > 1:
        return []
    [at] = asking
    drafts: dict[str, str] = {}
    for text in _reworded(sentences[at].text):
        draft = _join([*sentences[:at], replace(sentences[at], text=text), *sentences[at + 1 :]])
        drafts.setdefault(_plain(draft), draft)
    drafts.pop(_plain(masked.text), None)
    texts = [_unmask(draft, masked) for draft in drafts.values()]
    random.Random(f"{seed}:{question}").shuffle(texts)
    return texts[:n]


def _reworded(sentence: str) -> Iterator[str]:
    """Yield an asking sentence in every form, with its condition at every place where it may be."""
    ask = _parse(sentence)
    if ask is None:
        return
    for core in _forms(ask.core):
        if not ask.condition:
            texts = [f"{ask.prefix}, {core}" if ask.prefix else core]
        else:
            texts = [f"{ask.keyword} {ask.condition}, {core}"]
            if _movable_to_back(core, ask.condition):
                texts.append(f"{core} {ask.keyword} {ask.condition}")
        for text in texts:
            yield text[0].upper() + text[1:] + ("?" if _is_question(core) else ".")


def _is_question(core: str) -> bool:
    return core.startswith(("what", "how many", "in how many", "for "))


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", re.sub(FORMULA, lambda m: f" f{ord(m[0])} ", text)).lower().strip()


@dataclass(frozen=True)
class _Masked:
    """Text with one private character per hidden piece, and the pieces by that character."""

    text: str
    pieces: dict[str, str]
    own_line: frozenset[str]


def _mask(question: str) -> _Masked | None:
    """Hide every formula, figure, table and amount of money; None where the text cannot be read safely.

    Sentence punctuation at the end of a formula ("$x = 3.$") is moved behind its character, so that rules
    see it; `_unmask` puts it back inside displays and behind inline formulas.
    """
    if len(question) > _MAX_CHARS or re.search("[\ue000-\uf8ff\x00]", question):
        return None
    pieces: dict[str, str] = {}
    own_line: set[str] = set()
    counts = dict.fromkeys(_LIMITS, 0)

    def hide(match: re.Match[str]) -> str:
        kind = next(name for name in _STARTS if match[name] is not None)
        start, raw, tail = _STARTS[kind], match[0], ""
        if kind in ("display", "inline"):
            width = 1 if raw.startswith("$") and not raw.startswith("$$") else 2
            inside = raw[width:-width]
            if mark := _TAIL.search(inside):
                tail = mark[1]
                raw = raw[:width] + inside[: mark.start()] + raw[-width:]
        char = chr(start + counts[start] % _LIMITS[start])
        counts[start] += 1
        pieces[char] = raw
        if kind in ("asy", "env", "display"):
            if "\n" in _around(question, match):
                own_line.add(char)
            return f" {char}{tail} "
        return char + tail

    text = _OPAQUE.sub(hide, question)
    if any(counts[start] > limit for start, limit in _LIMITS.items()):
        return None
    if re.search(r"(?<!\\)\$|\\\[|\\\]|\\begin|\\end|\[/?asy\]", text):
        return None
    text = re.sub(r"\n[ \t]*\n\s*", f" {BREAK} ", text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(rf"([{DISPLAY}]) ([.,;?!])", r"\1\2", text)
    text = re.sub(rf"([{INLINE}{DISPLAY}][.,;?])[.,](?= |$)", r"\1", text)
    return _Masked(text, pieces, frozenset(own_line))


def _unmask(text: str, masked: _Masked) -> str:
    """Put the hidden pieces back."""

    def lines(match: re.Match[str]) -> str:
        char = match[2]
        if char not in masked.own_line:
            return match[0]
        return ("\n" if match[1] else "") + char + match[3] + ("\n" if match[4] else "")

    def show(match: re.Match[str]) -> str:
        char, tail = match[1], match[2]
        raw = masked.pieces[char]
        if raw.startswith(("\\[", "$$")):
            raw, tail = raw[:-2] + tail + raw[-2:], ""
        return raw + tail

    text = re.sub(r"( ?)([\ue000-\uf8fe])([.,;?]?)( ?)", lines, text)
    text = re.sub(rf"[ \n]*{BREAK}[ \n]*", "\n\n", text)
    text = re.sub(r" *\n *", "\n", text).strip()
    return re.sub(r"([\ue000-\uf8fe])([.,;?]?)", show, text)


def _around(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - 2) : match.start()] + text[match.end() : match.end() + 2]


_IMPERATIVES = "find|compute|determine|calculate|evaluate|simplify|express|expand|factor|solve|write"
_CUT = re.compile(rf"(?<=[.?!])(?:(?<=\S\S)|(?<=[{INLINE}]))[)\"']* (?=[A-Z({INLINE}{DISPLAY}])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|vs|No|Fig|Eq|etc|i\.e|e\.g|U\.S|a\.m|p\.m|ft|in)|\b[A-Z])\.$"
)
_AFTER_DISPLAY = re.compile(
    rf"(?<=[{DISPLAY}]) (?=(?:Find|Compute|Determine|Calculate|Evaluate|Simplify|Express|Solve|What|"
    r"How|Enter)\b)"
)
_FORMAT = re.compile(
    r"(?:express|give|write|round|enter|state|leave|put|report|list)\b.*\b(?:answers?|solutions?|fractions?|form|roots|"
    r"nearest|decimals?|values|numbers|order)\b",
    re.I,
)
_YOUR_ANSWER = re.compile(r"(?:\w+) (?:your|the|all|both|each|any)\b|round\b|enter\b", re.I)
_ASK_START = re.compile(rf"(?:{_IMPERATIVES})\b", re.I)
_ASK_INSIDE = re.compile(rf", (?:then )?(?:{_IMPERATIVES})\b")


@dataclass(frozen=True)
class _Sentence:
    """One sentence (masked), whether it asks, and the separator before it."""

    text: str
    asks: bool
    before: str


def _split(text: str) -> list[_Sentence]:
    """Sentences of a masked text in order; figures and tables are sentences of their own."""
    sentences: list[_Sentence] = []
    for paragraph_index, paragraph in enumerate(text.split(BREAK)):
        first = paragraph_index > 0
        for part in re.split(rf"([{BLOCK}])", paragraph.strip()):
            for raw in _cut(part.strip()):
                sentences.append(_Sentence(raw, _asks(raw), f" {BREAK} " if first else " "))
                first = False
    return sentences


def _join(sentences: list[_Sentence]) -> str:
    """The masked text of sentences, with their separators."""
    return "".join((s.before if i else "") + s.text for i, s in enumerate(sentences))


def _cut(text: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    cuts = sorted([m.span() for m in _CUT.finditer(text)] + [m.span() for m in _AFTER_DISPLAY.finditer(text)])
    for left, right in cuts:
        if _ABBREVIATION.search(text[start:left]):
            continue
        pieces.append(text[start:right].strip())
        start = right
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if piece]


def _asks(text: str) -> bool:
    """Return whether a sentence asks; "Express your answer as a fraction." does not."""
    if text.startswith("(") or (_FORMAT.match(text) and _YOUR_ANSWER.match(text)):
        return False
    return bool(text.endswith("?") or _ASK_START.match(text) or _ASK_INSIDE.search(text))


_CORE = (
    r"(?:what (?:is|are|was)|how many|in how many|for (?:what|which|how many)|find|compute|determine|"
    r"calculate|evaluate|simplify|express|expand|factor|solve|write)\b"
)
_LEAD = re.compile(rf"(.+?), (?:then )?({_CORE}.+)", re.I)
_KEYWORD = re.compile(r"(if|when|given that|assuming that|assuming|suppose that|suppose) (.+)", re.I)
_ANAPHOR = re.compile(
    r"\b(?:it|its|itself|he|him|his|she|her|hers|they|them|their|theirs|this|these|those|such|both|each|other|others|"
    r"another|same|remaining|resulting|result|respectively|then|one|ones|former|latter|here|there|also|instead|"
    r"we|you|I|my|your|our|above|following|original|new|rest|together|left|more|again|now|all)\b"
    r"|\bthat (?:is|are|was|were)\b(?<!such that is)",
    re.I,
)
_THE = re.compile(r"\b(?:the|that)((?: [a-z-]+){1,4})", re.I)
_INTRODUCED = re.compile(
    r"(?<!is )(?<!are )(?<!be )(?<!not )(?<!represents )(?<!denotes )(?<!as )"
    r"\b(?:an?|two|three|four|five|six|several|some|every|any|no)"
    r" [a-z]",
    re.I,
)
_SMALL = {
    "the", "of", "a", "an", "and", "or", "in", "on", "to", "is", "are", "that", "for", "with", "by", "at",
    "as", "from", "value", "number", "sum",
}  # fmt: skip
_COMPOUND = re.compile(
    r"\b(?:and|then|or|by) (?:then )?(?:find|determine|compute|express(?:ing)?|give|giving|writ(?:e|ing)|"
    r"enter|simplify|round|explain|state|what|how|which)\b|\bso that\b|[?;:]|\(s\)|\bwhat\b|"
    r"\bhow (?:many|much)\b"
    r"|, (?:express|giv|writ|round|simplif|if possible)"
)
_STOP = re.compile(
    rf" (?:of|such|that|which|for|in|with|to|between|when|where|if|from|on|at|whose|who|obtained|satisfying|"
    rf"less|greater|given|formed|so|than|through|by|as|after|containing|not)\b|{FORMULA}|[,(]"
)
_NOT_PLURAL = re.compile(
    r"(?:ss|us|sis|xis|ics)$|^(?:gcd's|its|this|plus|minus|times|modulus|class|yes|always|series|less)$"
)


@dataclass(frozen=True)
class _Ask:
    """The asking sentence: core (lower case start), and a condition before it with its keyword, if any.

    `prefix` is a fixed opening such as "in the figure".
    """

    core: str
    keyword: str = ""
    condition: str = ""
    prefix: str = ""


def _parse(sentence: str) -> _Ask | None:
    """Condition and core of an asking sentence (masked, with its end mark); None for several cores."""
    text = re.sub(r"[.?!:]$", "", sentence).strip()
    if re.search(r"[.?!] |[\"“”]", text) or text[:1].islower():  # the rest of a sentence cut by a table
        return None
    if re.match(_CORE, text, re.I):
        core = text[0].lower() + text[1:]
        return _Ask(core)
    lead = _LEAD.fullmatch(text)
    if lead is None or re.search(rf", (?:then |and )?{_CORE}", lead[2]):
        return None
    core = lead[2][0].lower() + lead[2][1:]
    clause = _KEYWORD.fullmatch(lead[1])
    if clause is None:
        return None if lead[1].startswith("Let ") else _Ask(core, prefix=lead[1])
    keyword = clause[1].lower()
    return _Ask(core, "if" if keyword.startswith("suppose") else keyword, clause[2])


def _forms(core: str) -> list[str]:
    """The forms that ask what `core` asks (lower case, no end mark), the given one first; one if unknown."""
    if asked := re.fullmatch(r"what (?:is|are) (the .+)", core):
        phrase = asked[1]
        if _COMPOUND.search(phrase) or re.search(rf"(?:\bthe following|{FORMULA} equal to)$", phrase):
            return [core]
        return [core, f"find {phrase}", *_how_many_of(phrase)]
    if asked := re.fullmatch(r"(?:find|compute|determine|calculate|evaluate) (the .+)", core):
        phrase = asked[1]
        plural = None if _COMPOUND.search(phrase) else _is_plural(phrase)
        if plural is None:
            return [core]
        return [core, f"what {'are' if plural else 'is'} {phrase}", *_how_many_of(phrase)]
    if asked := re.fullmatch(rf"(?:find|compute|calculate|evaluate) ({FORMULA})", core):
        return [core, f"what is {asked[1]}"]
    counted = _counted(core)
    if counted is None or re.match(r"(?:more|fewer|less|times|of|such|additional|other)\b", counted):
        return [core]
    return [core, f"find the number of {counted}", f"what is the number of {counted}"]


def _counted(core: str) -> str | None:
    """What "how many A are there B" and "how many A does B have" count: "A B", "A that B has"."""
    if there := re.fullmatch(r"how many (.+?) are there\b(.*)", core):
        return f"{there[1]}{there[2]}"
    owned = re.fullmatch(r"how many (.+?) (does|do|did) (.+) have( .+)?", core)
    if owned is None or re.search(r" (?:to|that|who|which|does|do|did) ", f" {owned[3]}{owned[4] or ''} "):
        return None
    verb = {"does": "has", "do": "have", "did": "had"}[owned[2]]
    return f"{owned[1]} that {owned[3]} {verb}{owned[4] or ''}"


def _is_plural(noun_phrase: str) -> bool | None:
    """Whether "the ..." takes "are"; None where the head noun cannot be told."""
    stop = _STOP.search(noun_phrase)
    head = noun_phrase[: stop.start()] if stop else noun_phrase
    words = head.split()
    if len(words) < 2 or " and " in head or " or " in head:
        return None
    last = words[-1].lower()
    if last in ("roots", "dice", "vertices", "foci", "radii", "matrices", "people", "children"):
        return True
    if last in ("greatest", "smallest", "largest", "least", "first", "all", "other", "real", "three", "two"):
        return None
    return last.endswith("s") and not _NOT_PLURAL.search(last)


def _how_many_of(phrase: str) -> list[str]:
    """ "positive integers $n$ such that A" -> "how many positive integers $n$ are there such that A"."""
    number = re.fullmatch(r"the (?:total )?number of (.+)", phrase)
    if number is None:
        return []
    counted = number[1]
    split = re.search(
        r" (?:such that|for which|that|which|with|whose|between|less than|greater than|satisfying|in) ",
        counted,
    )
    head, rest = (counted[: split.start()], counted[split.start() :]) if split else (counted, "")
    noun = re.sub(rf" {FORMULA}$", "", head)
    if (
        not re.search(r"(?:[a-z]s|ways to .+)$", noun.split(" of ")[0])
        or len(head.split()) > 9
        or "," in head
    ):
        return []
    if to := re.fullmatch(r"((?:\w+ )?ways) (to .+)", counted):
        return [f"how many {to[1]} are there {to[2]}"]
    return [] if " to " in head else [f"how many {head} are there{rest}"]


def _movable_to_back(core: str, condition: str) -> bool:
    """Whether "if condition, core" also reads "core if condition", with no word pointing at what follows."""
    return (
        not _ANAPHOR.search(core)
        and not re.search(r"\b(?:if|when|given|where|for which|assuming|express|terms of)\b|: |, ", core)
        and re.search(FORMULA, core) is not None
        and not (_is_question(core) and re.search(rf"[{DISPLAY}]$", condition))
        and not _INTRODUCED.search(condition)
        and not _shares_definite(core, condition)
        and not re.search(rf"[{BLOCK};:]|\bthen\b|\bbut\b", condition)
        and len(core.split()) <= 25
    )


def _shares_definite(earlier: str, later: str) -> bool:
    """Whether `earlier` says "the X" of an X that `later` (till now the first) speaks of."""
    mentioned = {_stem(word) for word in re.findall(r"[a-z]{3,}", later.lower())} - _SMALL
    named = {_stem(w) for m in _THE.finditer(earlier) for w in m[1].split()} - _SMALL
    return bool(mentioned & named)


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
