"""Rephrasings of English math questions by rules, without a model: `propose_by_rules`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rephraser.proposing.rules.asking import Ask, Form, forms, movable_to_back, parse
from rephraser.proposing.rules.mask import BREAK, FORMULA, mask, unmask
from rephraser.proposing.rules.sentences import Sentence, as_statement, join, listed, split

RULES_VERSION = "2"

_OPTIONS = re.compile(r"\(A\).*\(B\)|\bwhich of the following\b|\btrue or false\b|\\textbf", re.I | re.S)
_HEADINGS = (
    "Consider the following facts:",
    "The following is known:",
    "You are given the following:",
)


@dataclass(frozen=True)
class RuleCandidate:
    """A rephrased question and the names of the rules that made it."""

    text: str
    transformations: tuple[str, ...]


@dataclass(frozen=True)
class _Draft:
    text: str
    rules: frozenset[str]


def propose_by_rules(question: str, n: int, *, seed: int = 0) -> list[RuleCandidate]:
    """Up to `n` distinct rephrasings of an English math question, the most different ones first.

    The same question, `n` and seed give the same candidates, and the candidates for a smaller `n` are the
    first of those for a larger one. [] where no rule is safe (two questions asked, multiple choice, other
    languages, unbalanced dollars, text above 20,000 characters). Formulas, figure code and numbers stay as
    they are, apart from sentence punctuation inside dollars. Never raises.
    """
    masked = mask(question)
    if n < 1 or masked is None or _OPTIONS.search(masked.text):
        return []
    rng = random.Random(f"{seed}:{question}")
    sentences = split(masked.text)
    asks = [i for i, s in enumerate(sentences) if s.kind == "ask"]
    if len(asks) != 1 or masked.text.count("?") > 1:
        return []
    drafts = list(_drafts(sentences, asks[0], rng.choice(_HEADINGS)))
    return [
        RuleCandidate(unmask(draft.text, masked), tuple(sorted(draft.rules)))
        for draft in _spread(drafts, n, rng, masked.text)
    ]


def _drafts(sentences: list[Sentence], at: int, heading: str) -> Iterator[_Draft]:
    ask = parse(sentences[at].text)
    if ask is None:
        return
    for index, form in enumerate(forms(ask.core)):
        rules = (
            frozenset() if index == 0 else frozenset({"interrogative" if form.is_question else "imperative"})
        )
        for text, moved in _placed(ask, form):
            asked = [*sentences[:at], replace(sentences[at], text=text), *sentences[at + 1 :]]
            yield _Draft(join(asked), rules | moved)
            facts = [as_statement(sentence.text) for sentence in asked[:at]]
            safe = [fact for fact in facts if fact is not None]
            around = all(s.kind == "fact" for s in asked[:at]) and all(
                s.kind == "format" for s in asked[at + 1 :]
            )
            if around and len(safe) == len(facts) and (listing := listed(safe, heading)):
                yield _Draft(f"{listing} {BREAK} {join(asked[at:])}", rules | moved | {"facts_as_list"})


def _placed(ask: Ask, form: Form) -> Iterator[tuple[str, frozenset[str]]]:
    """The asking sentence with its condition at every place where it may stand."""
    core = form.text
    if ask.place == "none":
        yield _sentence(f"{ask.prefix}, {core}" if ask.prefix else core, form), frozenset()
        return
    front = f"{ask.keyword} {ask.condition}, {core}"
    back = f"{core} {ask.keyword} {ask.condition}"
    if ask.place == "back":
        yield _sentence(back, form), frozenset()
        yield _sentence(front, form), frozenset({"condition_first"})
        return
    yield _sentence(front, form), frozenset()
    if movable_to_back(core, ask.condition, question=form.is_question):
        yield _sentence(back, form), frozenset({"condition_last"})


def _sentence(text: str, form: Form) -> str:
    return text[0].upper() + text[1:] + ("?" if form.is_question else ".")


def _spread(drafts: list[_Draft], n: int, rng: random.Random, original: str) -> list[_Draft]:
    """Up to `n` drafts of different wording, each chosen for the rules it shares least with those before."""
    seen = {_plain(original)}
    pool: list[_Draft] = []
    for draft in drafts:
        if draft.rules and _plain(draft.text) not in seen:
            seen.add(_plain(draft.text))
            pool.append(draft)
    rng.shuffle(pool)
    chosen: list[_Draft] = []
    while pool and len(chosen) < n:
        best = max(
            pool, key=lambda d: (min((len(d.rules ^ c.rules) for c in chosen), default=0), len(d.rules))
        )
        pool.remove(best)
        chosen.append(best)
    return chosen


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", re.sub(FORMULA, lambda m: f" f{ord(m[0])} ", text)).lower().strip()
