"""Rephrasings of English math questions by rules, without a model: `propose_by_rules`.

Formulas, figure code and money are hidden behind single private characters, so that no rule can touch them.
"""

import random
import re
from collections.abc import Iterator

RULES_VERSION = "4"
_MAX_CHARS = 20_000
_MAX_HIDDEN = 1000
_FIRST = {"inline": 0xE000, "display": 0xF000, "block": 0xF500}
INLINE, DISPLAY, BLOCK = "\ue000-\uefff", "\uf000-\uf4ff", "\uf500-\uf8ff"
FORMULA = f"[{INLINE}{DISPLAY}]"

_OPAQUE = re.compile(
    r"(?P<block>\[asy\].*?\[/asy\]|\\begin\{(?P<name>[A-Za-z]+\*?)\}.*?\\end\{(?P=name)\})"
    r"|(?P<display>\\\[.*?\\\]|(?<!\\)\$\$.*?(?<!\\)\$\$)"
    r"|(?P<inline>\\\(.*?\\\)|(?<!\\)\$(?:\\.|[^$\\])+\$|\\\$ ?\d+(?:,\d{3})*(?:\.\d+)?"
    r"|\\[A-Za-z]+\{[^{}]*\})",
    re.S,
)
# Punctuation of the sentence that stands inside the dollars; `\right.` and `\,` are not punctuation.
_TAIL = re.compile(r"(?<![\\=\s.])(?<!\\right)(?<!\\left)\s*([.,;?])\s*$")
_OPTIONS = re.compile(r"\(A\).*\(B\)|\bwhich of the following\b|\btrue or false\b|\\textbf", re.I | re.S)
_ABBREVIATIONS = "Mr Mrs Ms Dr St vs No Fig Eq etc i.e e.g U.S a.m p.m ft in [A-Z]"
_BREAK = re.compile(  # between sentences; figures and tables are sentences of their own
    rf"(\n[ \t]*\n\s*|\s*[{BLOCK}]\s*"
    rf"|(?<=[{DISPLAY}][.?!])\s*(?=[A-Z])|(?<=[{DISPLAY}])\s*(?="
    r"(?:Find|Compute|Determine|Calculate|Evaluate|Simplify|Express|Solve|What|How|Enter)\b)"
    rf"|(?<=\S[.?!])"
    + "".join(rf"(?<!\b{short}\.)" for short in _ABBREVIATIONS.replace(".", r"\.").split())
    + rf"[)\"']*\s+(?=[A-Z({INLINE}{DISPLAY}]))"
)


def propose_by_rules(question: str, n: int, *, seed: int = 0) -> list[str]:
    """Return up to `n` distinct rephrasings of an English math question, which exchange how it asks.

    The same question, `n` and seed give the same candidates, and the candidates for a smaller `n` are the
    first of those for a larger one. [] if no rule is safe (two questions asked, multiple choice, other
    languages, unbalanced dollars, text above 20,000 characters). Formulas, figure code and numbers stay as
    they are, apart from sentence punctuation inside dollars. Never raises.
    """
    if len(question) > _MAX_CHARS or re.search("[\ue000-\uf8ff\x00]", question):
        return []
    text, pieces = _hide(question)
    unbalanced = re.search(r"(?<!\\)\$|\\\[|\\\]|\\begin|\\end|\[/?asy\]", text)
    if n < 1 or unbalanced or len(pieces) > _MAX_HIDDEN or _OPTIONS.search(text) or text.count("?") > 1:
        return []
    parts = _BREAK.split(text)  # sentences at even places, what separates them at odd ones
    asking = [place for place in range(0, len(parts), 2) if _asks(parts[place].strip())]
    if len(asking) != 1:
        return []
    [at] = asking
    sentence = " ".join(parts[at].split())
    drafts = {_plain(draft): draft for draft in _reworded(sentence)}
    drafts.pop(_plain(sentence), None)
    texts = [
        _show("".join((*parts[:at], draft, *parts[at + 1 :])), pieces).strip() for draft in drafts.values()
    ]
    random.Random(f"{seed}:{question}").shuffle(texts)
    return texts[:n]


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", re.sub(FORMULA, lambda m: f" f{ord(m[0])} ", text)).lower().strip()


def _hide(question: str) -> tuple[str, dict[str, str]]:
    """Hide every formula, figure, table and amount of money; return the text, and what is hidden.

    Sentence punctuation at the end of a formula ("$x = 3.$") is moved behind its character, so that rules
    see it; `_show` puts it back inside displays and behind inline formulas.
    """
    pieces: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        raw, tail = match[0], ""
        width = 1 if raw[0] == "$" and raw[1] != "$" else 2
        mark = _TAIL.search(raw[:-width])
        followed = question[match.end() : match.end() + 1] in {".", ",", ";", "?"}
        if mark and not followed and raw.startswith(("$", r"\(", r"\[")):
            raw, tail = raw[: mark.start()] + raw[-width:], mark[1]
        char = chr(_FIRST[str(match.lastgroup)] + min(len(pieces), _MAX_HIDDEN))
        pieces[char] = raw
        return char + tail

    return _OPAQUE.sub(hide, question), pieces


def _show(text: str, pieces: dict[str, str]) -> str:
    """Put the hidden pieces back."""

    def show(match: re.Match[str]) -> str:
        raw, tail = pieces[match[1]], match[2]
        return raw[:-2] + tail + raw[-2:] if raw.startswith((r"\[", "$$")) else raw + tail

    return re.sub(r"([\ue000-\uf8ff])([.,;?]?)", show, text)


_IMPERATIVES = "find|compute|determine|calculate|evaluate|simplify|express|expand|factor|solve|write"
_FORMAT = re.compile(
    r"(?:express|give|write|round|enter|state|leave|put|report|list)\b.*\b(?:answers?|solutions?|fractions?|form|roots|"
    r"nearest|decimals?|values|numbers|order)\b",
    re.I | re.S,
)
_YOUR_ANSWER = re.compile(r"(?:\w+) (?:your|the|all|both|each|any)\b|round\b|enter\b", re.I)
_ASK_START = re.compile(rf"(?:{_IMPERATIVES})\b", re.I)
_ASK_INSIDE = re.compile(rf",\s?(?:then )?(?:{_IMPERATIVES})\b")


def _asks(text: str) -> bool:
    """Return whether a sentence asks; "Express your answer as a fraction." does not."""
    if text.startswith("(") or (_FORMAT.match(text) and _YOUR_ANSWER.match(text)):
        return False
    return bool(text.endswith("?") or _ASK_START.match(text) or _ASK_INSIDE.search(text))


_QUESTION = r"what (?:is|are|was)|how many|in how many|for (?:what|which|how many)"
_CORE = rf"(?:{_QUESTION}|{_IMPERATIVES})\b"
_LEAD = re.compile(rf"((?!let |suppose ).+?, ?)(?:then )?({_CORE}.+)", re.I)
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


def _reworded(sentence: str) -> Iterator[str]:
    """Yield an asking sentence in every form; what precedes its core, such as a condition, stays."""
    text, lead = re.sub(r"[.?!:]$", "", sentence).strip(), ""
    if re.search(r"[.?!] |[\"“”]", text) or text[:1].islower():  # the rest of a sentence cut by a table
        return
    if not re.match(_CORE, text, re.I):
        split = _LEAD.fullmatch(text)
        if split is None or re.search(rf", (?:then |and )?{_CORE}", split[2]):
            return
        lead, text = split.groups()
    for core in _forms(text[0].lower() + text[1:]):
        draft = lead + core
        yield draft[0].upper() + draft[1:] + ("?" if re.match(_QUESTION, core) else ".")


def _forms(core: str) -> list[str]:
    """The forms that ask what `core` asks (lower case, no end mark), the given one first; one if unknown."""
    if asked := re.fullmatch(r"what (?:is|are) (the .+)", core):
        phrase = asked[1]
        if _COMPOUND.search(phrase) or re.search(rf"(?:\bthe following|{FORMULA} equal to)$", phrase):
            return [core]
        return [core, f"find {phrase}"]
    if asked := re.fullmatch(r"(?:find|compute|determine|calculate|evaluate) (the .+)", core):
        phrase = asked[1]
        plural = None if _COMPOUND.search(phrase) else _is_plural(phrase)
        return [core] if plural is None else [core, f"what {'are' if plural else 'is'} {phrase}"]
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
