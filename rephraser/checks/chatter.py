"""Text of a candidate that is addressed to the chat's reader and not part of a problem."""

import re

from rephraser.checks.finding import Finding

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
    r"\bnote:[^.\n]{0,80}\b(?:i|rephras\w*|original|wording|re-?worded|rewritten|unchanged|version|meaning)\b|"
    r"</?(?:question|answer|think|rephrased?)>|```|\bstrategy \d|\bthis (?:version|rephrasing)\b",
    re.IGNORECASE | re.MULTILINE,
)
MARKUP = re.compile(
    r"(?:<|&lt;)\s{0,9}(?P<end>[/\\]?)\s{0,9}(?:rephras|rewrit)(?P<word>[a-z]{0,12})"
    r"(?:[\s_\d:=-][^<>&\n]{0,80})?(?:>|&gt;)"
    r"|\[\s{0,9}(?P<bracket_end>[/\\]?)\s{0,9}(?:rephras|rewrit)(?P<bracket_word>[a-z]{0,12})[\s_\d]{0,9}\]",
    re.IGNORECASE,
)
"""Tags that models write around a rewrite, asked for or not."""
_LABEL = re.compile(r"\A\W{0,4}(?:question|problem|q)\s*\d*\s*[:.]\s", re.IGNORECASE)


def check_chatter(original: str, candidate: str) -> list[Finding]:
    """Return finding prompt_chatter, unless the original has the same kind of text."""
    for pattern in (_CHATTER, MARKUP, _LABEL):
        if (match := pattern.search(candidate)) and not pattern.search(original):
            return [Finding("prompt_chatter", f"the candidate contains '{match.group().strip()[:40]}'")]
    return []
