"""The language and script of a candidate, by its letters and its most frequent words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from rephraser.checks.finding import Finding, noticed
from rephraser.checks.text import Question, take_apart

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
        return [noticed("language_changed", f"the candidate is written in {script_found.lower()} letters")]
    if script_wanted == "LATIN" and _foreign_share(after) > max(0.1, 2 * _foreign_share(before)):
        return [noticed("language_changed", "a part of the candidate is written in other than latin letters")]
    language_wanted, language_found = wanted or language(before), language(after)
    if wanted in _LANGUAGE_SCRIPTS or not language_found:
        return []
    if language_found != (language_wanted or language_found) or (
        not language_wanted and language_found != "en" and wanted
    ):
        return [
            noticed("language_changed", f"the candidate is in '{language_found}', not '{language_wanted}'")
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
