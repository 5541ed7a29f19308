"""The outer shape of a candidate: not empty or too long, whole, clean, in its language, only the problem."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from rephraser.checks.finding import CheckOptions, Finding
from rephraser.checks.reading.text import Question, take_apart

LONGEST_TEXT = 20_000
"""Texts with more characters are not compared; they are far beyond any prompt."""

_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]|\n")
_DANGLING = re.compile(
    r"(?:\b(?:the|a|an|of|and|or|to|in|with|is|are|by|for|that|from|if|than|as|at|on|its|their|which|"
    r"where|when|and the|"
    r"let|such|be|equal|between|into|per)|[,:;(=+*<]|-)\s*$",
    re.IGNORECASE,
)
_REWRITE = (
    r"(?:problem|question|prompt|version|variant|rewrite|rephrasing|sentence|text|statement|paragraph)s?"
)
_CHATTER = re.compile(
    r"^\W{0,4}(?:rephras\w*|re-?worded|rewritten|re-?stated|paraphras\w*|reformulat\w*)\b"
    rf"(?:[^.?!\n]{{0,40}}?\b{_REWRITE}\b[^.?!\n:]{{0,20}}|\W{{0,4}}\d{{0,2}}\W{{0,4}})(?::|\n)"
    r"|\A\W{0,4}(?:new|modified|alternative|variant|version|candidate|output|response|transformed|perturbed|"
    rf"assistant|user)\b[^.?!\n]{{0,40}}?\b{_REWRITE}\b[^.?!\n:]{{0,20}}(?::|\n)"
    r"|\A\W{0,4}(?:version|candidate|variant|output|response|assistant|user)\s?\d{0,2}\W{0,3}:(?!\W{0,5}\d)"
    r"|^\W{0,4}(?:response|assistant)\W{0,3}:(?!\W{0,5}\d)|^#{1,4}\s?user\W{0,3}:"
    r"|^\W{0,4}(?:sure|certainly|of course|absolutely|okay|ok|great(?=[ \t]*[!,.:]))\b[^.?!\n]{0,80}"
    r"[:!.,]|^\W{0,4}here you (?:go|are)\b"
    r"|^\W{0,4}(?:here(?:'s| is| are|’s))\b[^.?!\n]{0,60}\b(?:rephras\w*|version|question|problem|"
    r"rewrit\w*|re-?word\w*|paraphras\w*|re-?stat\w*|candidate|alternative|reformulat\w*)\b"
    r"|\brephras(?:ed|ing|e)\b[^.?!\n]{0,40}\b(?:question|problem|version|above|original)\b"
    r"|\b(?:original|above) (?:question|problem)\b|\bas an ai\b|\blanguage model\b|"
    r"\bi (?:cannot|can't|can’t|am unable to|won't)\s(?:\w+\s)?(?:help|assist|rephrase|rewrite|reword|comply|"
    r"fulfil\w*|(?:provide|generate|create)\s(?:\w+\s){0,2}(?:re-?phras|paraphras|re-?writ)\w*"
    r"|(?:provide|answer|do|solve|change)\s(?:this|that|the|it|your|any))\b|"
    r"\bi'm (?:sorry|unable|happy)\b|\blet me know\b|\bi hope this\b|"
    r"\bnote:[^.\n]{0,80}\b(?:i|rephras\w*|original|wording|re-?worded|rewritten|unchanged|version|meaning)\b|<\/?(?:question|answer|think|"
    r"rephrased?)>|```|"
    r"\bstrategy \d|\bthis (?:version|rephrasing)\b",
    re.IGNORECASE | re.MULTILINE,
)
MARKUP = re.compile(
    r"(?:<|&lt;)\s{0,9}(?P<end>[/\\]?)\s{0,9}(?:rephras|rewrit)(?P<word>[a-z]{0,12})"
    r"(?:[\s_\d:=-][^<>&\n]{0,80})?(?:>|&gt;)"
    r"|\[\s{0,9}(?P<bracket_end>[/\\]?)\s{0,9}(?:rephras|rewrit)(?P<bracket_word>[a-z]{0,12})[\s_\d]{0,9}\]",
    re.IGNORECASE,
)
"""Tags that models write around a rewrite, asked for or not: no part of a problem."""
_LABELLED = re.compile(r"^\W{0,4}(?:question|problem|q)\s*\d*\s*[:.]\s", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]{2,}")
_BIDIRECTIONAL = {"\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067",
"\u2068",
                  "\u2069", "\u200b", "\ufeff", "\ufffd"}  # fmt: skip


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, estimated: a word counts one per six letters begun, every digit and sign one.

    Vocabularies of the Qwen and Llama kind split digits singly and keep most English words whole, so that the
    estimate is seldom too low on mathematics.
    """
    return sum(1 if len(piece) <= 6 else -(-len(piece) // 6) for piece in _PIECE.findall(text))


def check_length(original: Question, candidate: Question) -> list[Finding]:
    """Finding text_missing: of a longer original less than two fifths of the words are left.

    Among the real rephrasings measured (docs/reference/checks.md) none that keeps its problem comes near.
    """
    before, after = len(_WORDS.findall(original.reading)), len(_WORDS.findall(candidate.reading))
    if before >= 15 and after < 0.4 * before:
        return [Finding("text_missing", f"the candidate has {after} words, the original {before}")]
    return []


def check_shape(original: str, candidate: str, options: CheckOptions) -> list[Finding]:
    """Findings empty, too_long, truncated, control_characters and prompt_chatter."""
    if not any(c.isalnum() for c in candidate):
        return [Finding("empty", "the candidate has no words")]
    findings: list[Finding] = []
    if len(candidate) > LONGEST_TEXT or len(original) > LONGEST_TEXT:
        longer = max(len(candidate), len(original))
        findings.append(
            Finding(
                "too_long", f"{longer} characters are more than the limit of {LONGEST_TEXT} for comparison"
            )
        )
    else:
        count = (options.count_tokens or estimate_tokens)(candidate)
        if count > options.token_limit:
            findings.append(
                Finding("too_long", f"{count} tokens are more than the limit of {options.token_limit}")
            )
    control = _control(candidate) - _control(original)
    if control:
        codes = ", ".join(f"U+{ord(c):04X}" for c in sorted(control)[:5])
        findings.append(Finding("control_characters", f"the candidate contains {codes}"))
    where = _cut(original, candidate)
    if where:
        findings.append(Finding("truncated", where))
    chatter = _CHATTER.search(candidate[:20_000])
    if chatter and not _CHATTER.search(original[:20_000]):
        findings.append(
            Finding("prompt_chatter", f"'{chatter.group(0).strip()[:40]}' is not part of a problem")
        )
    elif tag := None if MARKUP.search(original[:20_000]) else MARKUP.search(candidate[:20_000]):
        findings.append(Finding("prompt_chatter", f"'{tag.group(0)[:40]}' is a tag around a rewrite"))
    elif _LABELLED.match(candidate) and not _LABELLED.match(original):
        findings.append(Finding("prompt_chatter", "the candidate begins with a label such as 'Question:'"))
    return findings


def _control(text: str) -> set[str]:
    return {
        c
        for c in set(text)
        if c in _BIDIRECTIONAL or (unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\r\t")
    }


def _cut(original: str, candidate: str) -> str:
    for what, measure in _BALANCE.items():
        if measure(candidate) and not measure(original):
            return what
    end = candidate.rstrip().rstrip("*_")
    if _DANGLING.search(end[-40:]) and not _DANGLING.search(original.rstrip()[-40:]):
        return "the candidate ends in the middle of a sentence"
    return ""


def _odd_dollars(text: str) -> bool:
    dollars = len(re.findall(r"(?<!\\)\$", text)) - len(
        re.findall(r"(?<![\\$])\$\d[\d,.]*(?=[\s.,?!]|$)(?![^$]*\$)", text)
    )
    # One dollar sign before a price is money; money is told apart only where formulas are marked too.
    return dollars % 2 == 1 and re.search(r"\$\s*[A-Za-z\\(]", text) is not None


def _open_braces(text: str) -> bool:
    return len(re.findall(r"(?<!\\)\{", text)) != len(re.findall(r"(?<!\\)\}", text))


def _open_environment(text: str) -> bool:
    return text.count("\\begin{") != text.count("\\end{") or text.count("[asy]") != text.count("[/asy]")


def _open_display(text: str) -> bool:
    opened = len(re.findall(r"(?<!\\)\\\[", text))
    return opened != len(re.findall(r"(?<!\\)\\\]", text)) or text.count("\\(") != text.count("\\)")


_BALANCE = {
    "a formula is left open (odd number of dollar signs)": _odd_dollars,
    "a brace is left open": _open_braces,
    "a \\begin or [asy] has no end": _open_environment,
    "a displayed formula is left open": _open_display,
}


_COMMON: dict[str, frozenset[str]] = {
    "en": frozenset(["the", "of", "and", "to", "is", "in", "that", "for", "it", "with", "as", "be", "on",
    "by", "are", "what", "how", "many", "if", "find", "this", "from", "at", "an", "each", "which", "have",
    "has", "was", "when", "does", "number", "value", "determine", "there", "they", "given", "where", "can",
    "a", "no", "do", "so", "or", "let", "die", "me", "compute", "calculate", "evaluate", "express",
    "simplify", "solve", "common", "fraction", "simplest", "form", "your", "answer", "write", "its",
    "all", "these"]),
    "es": frozenset(["el", "la", "los", "las", "de", "que", "y", "en", "un", "una", "por", "con", "para",
    "es", "cuántos", "cuántas", "cuál", "son", "se", "del", "al", "como", "si", "qué", "tiene", "cada",
    "encuentra", "calcula", "valor", "número", "más"]),
    "fr": frozenset(["le", "la", "les", "de", "des", "du", "et", "est", "un", "une", "que", "qui", "dans",
    "pour", "par", "combien", "quel", "quelle", "sont", "au", "aux", "si", "il", "elle", "avec", "sur",
    "chaque", "trouvez", "calculer", "nombre", "valeur"]),
    "de": frozenset(["der", "die", "das", "und", "ist", "ein", "eine", "den", "dem", "von", "zu", "mit",
    "wie", "viele", "was", "für", "auf", "wenn", "sind", "nicht", "hat", "jede", "jeder", "wert", "zahl",
    "bestimme", "berechne"]),
    "pt": frozenset(["o", "a", "os", "as", "de", "que", "e", "em", "um", "uma", "por", "com", "para", "é",
    "quantos", "quantas", "qual", "são", "se", "do", "da", "no", "na", "como", "cada", "encontre",
    "calcule", "valor", "número"]),
    "it": frozenset(["il", "lo", "la", "i", "gli", "le", "di", "che", "e", "in", "un", "una", "per", "con",
    "è", "quanti", "quante", "quale", "sono", "se", "del", "della", "come", "ogni", "trova", "calcola",
    "valore", "numero"]),
    "nl": frozenset(["de", "het", "een", "en", "van", "is", "in", "dat", "op", "te", "met", "voor",
    "hoeveel", "wat", "als", "zijn", "niet", "aan", "er"]),
    "pl": frozenset(["i", "w", "na", "z", "jest", "że", "do", "się", "nie", "ile", "jaka", "jaki", "jeśli",
    "dla", "od", "po", "oraz"]),
    "tr": frozenset(["ve", "bir", "bu", "için", "ile", "kaç", "ne", "kadar", "ise", "olan", "değeri",
    "sayı"]),
    "vi": frozenset(["và", "của", "là", "có", "một", "các", "cho", "bao", "nhiêu", "được", "trong", "với"]),
    "id": frozenset(["dan", "yang", "di", "ke", "dari", "adalah", "berapa", "jika", "dengan", "untuk",
    "pada", "nilai"]),
}  # fmt: skip
_SCRIPT_OF = {"en": "LATIN"} | dict.fromkeys(_COMMON, "LATIN")
_LANGUAGE_SCRIPTS = {"zh": "CJK", "ja": "CJK", "ko": "HANGUL", "ru": "CYRILLIC", "uk": "CYRILLIC",
"ar": "ARABIC",
                     "he": "HEBREW", "hi": "DEVANAGARI", "el": "GREEK", "th": "THAI"}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE = 20_000


def script(text: str) -> str:
    """The script most letters of a text belong to (`LATIN`, `CJK`, ...); empty without letters."""
    counts: Counter[str] = Counter()
    for character, number in Counter(text[:_SAMPLE]).items():
        if character.isalpha():
            name = unicodedata.name(character, "")
            first = name.split(" ")[0].split("-")[0]
            counts["CJK" if first in {"HIRAGANA", "KATAKANA"} else first] += number
    return counts.most_common(1)[0][0] if counts else ""


def language(text: str) -> str:
    """The language whose most frequent words cover a Latin text best; empty when it cannot be told."""
    words = [w.lower() for w in _WORD.findall(text[:_SAMPLE])]
    if len(words) < 4:
        return ""
    shares = {code: sum(w in common for w in words) / len(words) for code, common in _COMMON.items()}
    for code, common in _COMMON.items():
        # Names of variables and points ("a", "o", "e") and a single short word tell no language.
        if len({w for w in words if w in common and len(w) > 1}) < 2:
            shares[code] = 0.0
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    best, share = ranked[0]
    return best if share >= 0.12 and share > 1.2 * ranked[1][1] else ""


def same_language(original: str, candidate: str) -> bool:
    """Whether a candidate is, as far as can be told, in the language and script of its original."""
    if max(len(original), len(candidate)) > _SAMPLE:
        return True  # too long to be taken apart here; `check_candidate` rejects it
    return not check_language(take_apart(original), take_apart(candidate), None)


def check_language(original: Question, candidate: Question, wanted: str | None) -> list[Finding]:
    """Finding language_changed: another script, another language, or a good part in another script."""
    before, after = _prose(original), _prose(candidate)
    script_wanted = (
        _LANGUAGE_SCRIPTS.get(wanted, _SCRIPT_OF.get(wanted, "LATIN")) if wanted else script(before)
    )
    script_found = script(after)
    if script_wanted and script_found and script_found != script_wanted:
        return [Finding("language_changed", f"the candidate is written in {script_found.lower()} letters")]
    if script_wanted == "LATIN" and _foreign_share(after) > max(0.1, 2 * _foreign_share(before)):
        return [Finding("language_changed", "a part of the candidate is not written in Latin letters")]
    language_wanted, language_found = wanted or language(before), language(after)
    if wanted in _LANGUAGE_SCRIPTS or not language_found:
        return []
    if language_found != (language_wanted or language_found) or (
        not language_wanted and language_found != "en" and wanted
    ):
        return [
            Finding("language_changed", f"the candidate is in '{language_found}', not '{language_wanted}'")
        ]
    return []


def _prose(question: Question) -> str:
    return re.sub(r"\\[a-zA-Z]+", " ", question.prose)


def _foreign_share(text: str) -> float:
    sample = text[:_SAMPLE]
    letters = [c for c in sample if c.isalpha()]
    foreign = sum(
        1 for c in letters if c > "\u024f" and not "\u0370" <= c <= "\u03ff" and not "\u1e00" <= c <= "\u1eff"
    )
    return foreign / len(letters) if letters else 0.0
