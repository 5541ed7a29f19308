"""The language and script of a candidate."""

import re
import unicodedata
from collections import Counter

from rephraser.checks.finding import Finding
from rephraser.checks.reading import read

_SAMPLE = 20_000
_WORD = re.compile(r"[^\W\d_]+")
_COMMAND = re.compile(r"\\[a-z]+")
_COMMON = {
    code: frozenset(words.split())
    for code, words in {
        "en": (
            "the of and to is in that for it with as be on by are what how many if find this from "
            "at an each which have has was when does number value determine there they given "
            "where can a no do so or let die me compute calculate evaluate express simplify solve "
            "common fraction simplest form your answer write its all these"
        ),
        "es": (
            "el la los las de que y en un una por con para es cuántos cuántas cuál son se del al "
            "como si qué tiene cada encuentra calcula valor número más"
        ),
        "fr": (
            "le la les de des du et est un une que qui dans pour par combien quel quelle sont au "
            "aux si il elle avec sur chaque trouvez calculer nombre valeur"
        ),
        "de": (
            "der die das und ist ein eine den dem von zu mit wie viele was für auf wenn sind "
            "nicht hat jede jeder wert zahl bestimme berechne"
        ),
        "pt": (
            "o a os as de que e em um uma por com para é quantos quantas qual são se do da no na "
            "como cada encontre calcule valor número"
        ),
        "it": (
            "il lo la i gli le di che e in un una per con è quanti quante quale sono se del della "
            "come ogni trova calcola valore numero"
        ),
        "nl": "de het een en van is in dat op te met voor hoeveel wat als zijn niet aan er",
        "pl": "i w na z jest że do się nie ile jaka jaki jeśli dla od po oraz",
        "tr": "ve bir bu için ile kaç ne kadar ise olan değeri sayı",
        "vi": "và của là có một các cho bao nhiêu được trong với",
        "id": "dan yang di ke dari adalah berapa jika dengan untuk pada nilai",
    }.items()
}
"""Frequent words by language, of those in Latin letters."""


def script(text: str) -> str:
    """Return the script of most letters (`LATIN`, `CJK`, ...); empty without letters."""
    counts: Counter[str] = Counter()
    for character, number in Counter(text).items():
        if character.isalpha():
            first = unicodedata.name(character, "").split(" ")[0].split("-")[0]
            counts["CJK" if first in {"HIRAGANA", "KATAKANA"} else first] += number
    return counts.most_common(1)[0][0] if counts else ""


def language(text: str) -> str:
    """Return the language whose frequent words cover a Latin text best; empty if none clearly does."""
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < 4:
        return ""
    shares = {}
    for code, common in _COMMON.items():
        frequent = [word for word in words if word in common]
        # Names of variables and points ("a", "o", "e") and a single short word show no language.
        enough = len({word for word in frequent if len(word) > 1}) >= 2
        shares[code] = len(frequent) / len(words) if enough else 0.0
    (best, share), (_, second) = sorted(shares.items(), key=lambda item: -item[1])[:2]
    return best if share >= 0.12 and share > 1.2 * second else ""


def check_language(original: str, candidate: str) -> list[Finding]:
    """Return finding language_changed: another script or language, also of a large part."""
    before, after = (_COMMAND.sub(" ", read(text)[:_SAMPLE]) for text in (original, candidate))
    scripts = script(before), script(after)
    if all(scripts) and scripts[0] != scripts[1]:
        return [Finding("language_changed", f"the candidate is written in {scripts[1].title()} letters")]
    if scripts[0] == "LATIN" and _foreign_share(after) > max(0.1, 2 * _foreign_share(before)):
        return [Finding("language_changed", "a part of the candidate is not written in Latin letters")]
    languages = language(before), language(after)
    if all(languages) and languages[0] != languages[1]:
        return [Finding("language_changed", f"the candidate is in '{languages[1]}', not '{languages[0]}'")]
    return []


def _foreign_share(text: str) -> float:
    """Return the share of letters that are neither Latin nor Greek."""
    letters = [c for c in text if c.isalpha()]
    foreign = [c for c in letters if c > "\u03ff" and not "\u1e00" <= c <= "\u1eff"]
    return len(foreign) / len(letters) if letters else 0.0
