"""What a model is asked for candidates: the strategy, the question, how many, and how to answer."""

from collections.abc import Sequence
from typing import Any

from rephraser.strategies import Strategy

RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rephrasings": {"type": "array", "items": {"type": "string"}}},
    "required": ["rephrasings"],
    "additionalProperties": False,
}

REQUEST_VERSION = "1"


def build_messages(
    strategy: Strategy, question: str, count: int, *, avoid: Sequence[str] = (), structured: bool
) -> tuple[dict[str, str], ...]:
    """Return the chat messages that ask for `count` candidates of one question.

    `avoid` are earlier candidates, which the new ones must differ from. With `structured` the model answers
    in JSON (`RESPONSE_SCHEMA`); without, in tags, which need no escaping of LaTeX's backslashes.
    """
    many = count > 1
    lines = [
        f"Write {count} rewrites of the problem below that differ from each other in wording, format and order "
        "of information."
        if many
        else "Write one rewrite of the problem below."
    ]
    if avoid:
        lines.append("They must also differ clearly from these:" if many else "It must differ clearly from these:")
        lines += [f"<earlier>\n{text}\n</earlier>" for text in avoid]
    if structured:
        lines.append(
            'Answer with a JSON object {"rephrasings": [...]} that holds '
            f"{'exactly ' + str(count) + ' strings' if many else 'exactly one string'} and nothing else. Inside "
            'JSON every backslash of LaTeX is written twice, as in "\\\\frac".'
        )
    else:
        lines.append(
            "Put each rewrite between the tags <rephrasing> and </rephrasing> and write nothing outside the tags."
        )
    lines.append(f"<problem>\n{question}\n</problem>")
    return (
        {"role": "system", "content": strategy.text},
        {"role": "user", "content": "\n\n".join(lines)},
    )
