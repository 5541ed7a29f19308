"""Rephrasings of English math questions by rules, without a model: `propose_by_rules`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rephraser.proposing.rules import conditions, layout
from rephraser.proposing.rules.conditions import Ask
from rephraser.proposing.rules.forms import Form, forms
from rephraser.proposing.rules.mask import BREAK, FORMULA, Masked, mask, unmask
from rephraser.proposing.rules.sentences import Sentence, join, split

RULES_VERSION = "1"

_OPTIONS = re.compile(r"\(A\).*\(B\)|\bwhich of the following\b|\btrue or false\b|\\textbf", re.I | re.S)


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
    they are, apart from LaTeX that renders the same, sentence punctuation inside dollars, and small counts
    written as words or digits. Never raises.
    """
    masked = mask(question)
    if n < 1 or masked is None or _OPTIONS.search(masked.text):
        return []
    rng = random.Random(f"{seed}:{question}")
    sentences = split(masked.text)
    asks = [i for i, s in enumerate(sentences) if s.kind == "ask"]
    if len(asks) != 1 or masked.text.count("?") > 1:
        return []
    drafts = list(_drafts(sentences, asks[0], masked, rng))
    return [_finish(draft, masked, rng) for draft in _spread(drafts, n, rng, masked.text)]


def _drafts(sentences: list[Sentence], at: int, masked: Masked, rng: random.Random) -> Iterator[_Draft]:
    ask = conditions.parse(sentences[at].text)
    if ask is None:
        return
    known = forms(ask.core, masked)
    for index, form in enumerate(known or [Form(ask.core, "own", sentences[at].text.endswith("?"))]):
        rules = (
            frozenset() if index == 0 else frozenset({"interrogative" if form.is_question else "imperative"})
        )
        for placed, more in _placed(ask, form, masked, rng):
            yield from _laid_out(sentences, at, placed, rules | more, masked, rng)
        colon = any(":" in s.text for s in sentences[:at])  # "as follows: A. B." is one fact in pieces
        if (
            ask.place == "none"
            and not ask.prefix
            and at > 0
            and sentences[at - 1].kind == "fact"
            and not colon
        ):
            yield from _with_fact(sentences, at, form, rules, masked)


def _placed(ask: Ask, form: Form, masked: Masked, rng: random.Random) -> Iterator[tuple[str, frozenset[str]]]:
    """The asking sentence with its condition at every place where it may stand."""
    core = form.text
    if ask.place == "none":
        yield _sentence(f"{ask.prefix}, {core}" if ask.prefix else core, form), frozenset()
        return
    front = f"{ask.keyword} {ask.condition}, {core}"
    back = f"{core} {ask.keyword} {ask.condition}"
    relations = conditions.is_formulas(ask.condition, masked)
    if ask.place == "back":
        yield _sentence(back, form), frozenset()
        yield _sentence(front, form), frozenset({"condition_first"})
        return
    yield _sentence(front, form), frozenset()
    if conditions.movable_to_back(core, ask.condition, question=form.is_question):
        yield _sentence(back, form), frozenset({"condition_last"})
    if len(relations) == 2:
        swapped = f"{ask.keyword} {relations[1]} and {relations[0]}, {core}"
        yield _sentence(swapped, form), frozenset({"condition_order"})
    if listing := layout.listed_formulas(relations, rng.randrange(9)):
        yield f"{listing} {BREAK} {_sentence(core, form)}", frozenset({"facts_as_list"})


def _laid_out(
    sentences: list[Sentence], at: int, ask: str, rules: frozenset[str], masked: Masked, rng: random.Random
) -> Iterator[_Draft]:
    """The whole question around a rewritten asking sentence."""
    now = [*sentences[:at], replace(sentences[at], text=ask), *sentences[at + 1 :]]
    yield _Draft(join(now), rules)
    if at + 1 < len(now) and now[at + 1].kind == "format" and "\n" not in ask:
        for moved in (
            layout.joined_request(ask, now[at + 1].text),
            layout.leading_request(ask, now[at + 1].text),
        ):
            if moved:
                merged = [*now[:at], replace(now[at], text=moved), *now[at + 2 :]]
                yield _Draft(join(merged), rules | {"format_request_moved"})
    around = all(s.kind == "fact" for s in now[:at]) and all(s.kind == "format" for s in now[at + 1 :])
    facts = [conditions.as_statement(s.text, masked) for s in now[:at]]
    if around and "\n" not in ask and (listing := layout.listed(facts, rng.randrange(9))):
        yield _Draft(f"{listing} {BREAK} {join(now[at:])}", rules | {"facts_as_list"})


def _with_fact(
    sentences: list[Sentence], at: int, form: Form, rules: frozenset[str], masked: Masked
) -> Iterator[_Draft]:
    """The fact right before the asking sentence made part of it."""
    fact = sentences[at - 1].text

    def merged(text: str, rule: str) -> _Draft:
        now = [
            *sentences[: at - 1],
            replace(sentences[at - 1], text=_sentence(text, form)),
            *sentences[at + 1 :],
        ]
        return _Draft(join(now), rules | {rule})

    if where := conditions.as_where(fact, form.text, masked, question=form.is_question):
        yield merged(f"{form.text}, where {where}", "let_to_where")
    found = conditions.fact_as_condition(fact, form.text, masked)
    if found and not re.search(r"\b(?:if|when|given)\b", form.text):
        condition, rule = found
        yield merged(f"if {condition}, {form.text}", rule)
        if conditions.movable_to_back(form.text, condition, question=form.is_question):
            yield merged(f"{form.text} if {condition}", rule)


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


def _finish(draft: _Draft, masked: Masked, rng: random.Random) -> RuleCandidate:
    """Show the hidden pieces again and add the small changes that are no rephrasing by themselves."""
    text, rules = draft.text, sorted(draft.rules)
    if rng.random() < 0.5 and re.match(r"Find |.*[.,\n] ?[Ff]ind ", text, re.S) and "imperative" in rules:
        text = re.sub(
            r"\b([Ff])ind (?=the |all |[^a-z])",
            lambda m: "Determine " if m[1] == "F" else "determine ",
            text,
            count=1,
        )
    if rng.random() < 0.5 and (numbers := layout.respell_numbers(text)):
        text, rule = numbers
        rules.append(rule)
    shown = unmask(text, masked)
    if rng.random() < 0.5 and (other := unmask(text, masked, respell=True)) != shown:
        shown = other
        rules.append("latex_spelling")
    return RuleCandidate(shown, tuple(rules))


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", re.sub(FORMULA, lambda m: f" f{ord(m[0])} ", text)).lower().strip()
