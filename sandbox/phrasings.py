"""Eight phrasings of the same problem: they differ in wording, in the order of the numbers and in format.

Each phrasing can also say the broken kinds of the problem in its own words, because broken rephrasings of
real questions do not announce themselves by their style either.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.problems import Kind, WordProblem

_T, _NC, _NE, _D, _P = Kind.TOTAL, Kind.NO_CHARGE, Kind.NOT_EACH, Kind.DIFFERENCE, Kind.PRICE


@dataclass(frozen=True)
class Phrasing:
    """A family of texts."""

    name: str
    dominant: int  # place in `sandbox.traces.STRATEGIES` of the strategy that this phrasing suggests
    texts: Mapping[Kind, str]  # templates with {name}, {item}, {items}, {extra}, {Extra}, {n}, {p}, {f}, {t}

    def text(self, problem: WordProblem, kind: Kind = Kind.TOTAL) -> str:
        """Return the question as text."""
        story = problem.story
        return self.texts[kind].format(
            **vars(story),
            items=f"{story.item}s",
            Extra=story.extra.capitalize(),
            n=problem.count,
            p=problem.price,
            f=problem.charge,
            t=problem.total,
        )


PHRASINGS: tuple[Phrasing, ...] = (
    Phrasing(
        "prose",
        3,
        {
            _T: "{name} buys {n} {items} at {p} dollars each and pays {f} dollars for {extra}. "
            "How much does {name} pay in all?",
            _NC: "{name} buys {n} {items} at {p} dollars each. How much does {name} pay in all?",
            _NE: "{name} buys {n} {items} for {p} dollars and pays {f} dollars for {extra}. "
            "How much does {name} pay in all?",
            _D: "{name} buys {n} {items} at {p} dollars each and pays {f} dollars for {extra}. "
            "How much more do the {items} cost?",
            _P: "{name} buys {n} {items} and pays {f} dollars for {extra}, {t} dollars in all. "
            "How much does each {item} cost?",
        },
    ),
    Phrasing(
        "extra first",
        1,
        {
            _T: "{Extra} costs {f} dollars. {name} also takes {n} {items}, {p} dollars each. "
            "What is the bill?",
            _NC: "{name} takes {n} {items}, {p} dollars each. What is the bill?",
            _NE: "{Extra} costs {f} dollars. {name} also takes {n} {items}, {p} dollars together. "
            "What is the bill?",
            _D: "{Extra} costs {f} dollars. {name} also takes {n} {items}, {p} dollars each. "
            "How much more is that?",
            _P: "{Extra} costs {f} dollars. {name} also takes {n} {items}. The bill is {t} dollars. "
            "What is each {item}?",
        },
    ),
    Phrasing(
        "equation",
        0,
        {
            _T: "What {name} pays: {n} {items} * {p} dollars + {f} dollars for {extra} = ?",
            _NC: "What {name} pays: {n} {items} * {p} dollars = ?",
            _NE: "What {name} pays: {n} {items} for {p} dollars + {f} dollars for {extra} = ?",
            _D: "What {name} pays: {n} {items} * {p} dollars - {f} dollars for {extra} = ?",
            _P: "What {name} pays: {n} {items} * ? dollars + {f} dollars for {extra} = {t} dollars",
        },
    ),
    Phrasing(
        "question first",
        2,
        {
            _T: "How much does {name} need for {n} {items} and {extra}, if each {item} costs {p} dollars "
            "and {extra} {f} dollars?",
            _NC: "How much does {name} need for {n} {items}, if each {item} costs {p} dollars?",
            _NE: "How much does {name} need for {n} {items} and {extra}, if the {items} cost {p} dollars "
            "and {extra} {f} dollars?",
            _D: "How much more does {name} need for {n} {items} than for {extra}, if each {item} costs "
            "{p} dollars and {extra} {f} dollars?",
            _P: "How much does each {item} cost, if {name} needs {t} dollars for {n} {items} and {extra}, "
            "and {extra} costs {f} dollars?",
        },
    ),
    Phrasing(
        "list",
        0,
        {
            _T: "Order of {name}:\n- {n} {items}, {p} dollars each\n- {extra}, {f} dollars\n"
            "What is the total?",
            _NC: "Order of {name}:\n- {n} {items}, {p} dollars each\nWhat is the total?",
            _NE: "Order of {name}:\n- {n} {items}, {p} dollars\n- {extra}, {f} dollars\nWhat is the total?",
            _D: "Order of {name}:\n- {n} {items}, {p} dollars each\n- {extra}, {f} dollars\n"
            "What is the difference?",
            _P: "Order of {name}:\n- {n} {items}\n- {extra}, {f} dollars\n- total, {t} dollars\n"
            "What is each {item}?",
        },
    ),
    Phrasing(
        "table",
        3,
        {
            _T: "customer: {name} | {items}: {n} | each: {p} dollars | {extra}: {f} dollars | total: ?",
            _NC: "customer: {name} | {items}: {n} | each: {p} dollars | total: ?",
            _NE: "customer: {name} | {items}: {n} | price: {p} dollars | {extra}: {f} dollars | total: ?",
            _D: "customer: {name} | {items}: {n} | each: {p} dollars | {extra}: {f} dollars | difference: ?",
            _P: "customer: {name} | {items}: {n} | each: ? | {extra}: {f} dollars | total: {t} dollars",
        },
    ),
    Phrasing(
        "price first",
        1,
        {
            _T: "Each {item} sells for {p} dollars. {name} orders {n} with {extra}, which adds {f} dollars. "
            "Find the amount due.",
            _NC: "Each {item} sells for {p} dollars. {name} orders {n}. Find the amount due.",
            _NE: "The {items} sell together for {p} dollars. {name} orders {n} with {extra}, which adds "
            "{f} dollars. Find the amount due.",
            _D: "Each {item} sells for {p} dollars. {name} orders {n} with {extra}, which adds {f} dollars. "
            "Find the difference.",
            _P: "{name} orders {n} {items} with {extra}, which adds {f} dollars. The amount due is "
            "{t} dollars. Find the price of each {item}.",
        },
    ),
    Phrasing(
        "plus",
        2,
        {
            _T: "{name} hands over {f} dollars for {extra} plus {n} times {p} dollars for the {items}. "
            "Give the sum.",
            _NC: "{name} hands over {n} times {p} dollars for the {items}. Give the sum.",
            _NE: "{name} hands over {f} dollars for {extra} plus {p} dollars for the {n} {items}. "
            "Give the sum.",
            _D: "{name} hands over {f} dollars for {extra} plus {n} times {p} dollars for the {items}. "
            "Give the difference.",
            _P: "{name} hands over {t} dollars: {f} dollars for {extra} plus {n} times the price of a "
            "{item}. Give that price.",
        },
    ),
)
