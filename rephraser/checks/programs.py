"""Checks of a candidate whose question asks for a program: names, signature and examples stay as they are.

Numbers and formulas are not compared: in code they are examples, and the tests see what was changed.
"""

import re
from collections.abc import Sequence

from rephraser.checks.finding import CheckOptions, Finding, shorten
from rephraser.checks.shape import check_chatter, check_shape
from rephraser.checks.wording import check_sameness

_EXAMPLE = re.compile(r"^[ \t]*((?:>>>|assert)[ \t].+)$", re.MULTILINE)
_STATEMENT = re.compile(r"^[ \t]+(?:return|yield|for .+:|while .+:|if .+:|[\w, ]+ [-+*/]?= .+)", re.MULTILINE)


def check_program(
    question: str,
    candidate: str,
    *,
    names: Sequence[str] = (),
    siblings: Sequence[str] = (),
    options: CheckOptions = CheckOptions(),
) -> tuple[Finding, ...]:
    """Compare a candidate with the question that asks for functions or classes of these names."""
    # A function without its body ends in the middle, as far as prose is concerned.
    findings = [each for each in check_shape(question, candidate, options) if each.name != "truncated"]
    if any(each.name in {"empty", "too_long"} for each in findings):
        return tuple(findings)
    findings += check_chatter(question, candidate)
    findings += check_sameness(question, candidate, siblings, options.min_distance)
    findings += _check_signatures(question, candidate, names)
    before, after = _statements(question), _statements(candidate)
    if added := sorted(after - before):
        findings.append(Finding("solution_included", f"the candidate contains solution code: {added[0]}"))
    flat = _flat(candidate)
    missing = [line for line in _EXAMPLE.findall(question) if _flat(line) not in flat]
    if missing:
        findings.append(Finding("example_missing", f"an example is missing: {shorten(missing[0])}"))
    return tuple(dict.fromkeys(findings))


def _check_signatures(question: str, candidate: str, names: Sequence[str]) -> list[Finding]:
    flat = _flat(candidate)
    for name in names:
        signature = re.search(
            rf"^[ \t]*(?:async )?(?:def|class) {re.escape(name)}\b[^\n]*", question, re.MULTILINE
        )
        if signature is not None and _flat(signature.group()) not in flat:
            detail = f"the candidate does not have `{shorten(signature.group().strip())}`"
            return [Finding("signature_changed", detail)]
        if signature is None and re.search(rf"\b{re.escape(name)}\b", candidate) is None:
            return [Finding("signature_changed", f"the candidate does not name {name}")]
    return []


def _statements(text: str) -> set[str]:
    """Lines that look like the body of a function, outside of docstrings."""
    code = re.sub(r'"""[\s\S]*?(?:"""|$)|\'\'\'[\s\S]*?(?:\'\'\'|$)', "", text)
    return {match.strip() for match in _STATEMENT.findall(code)} if "def " in code else set()


def _flat(text: str) -> str:
    return "".join(text.split())
