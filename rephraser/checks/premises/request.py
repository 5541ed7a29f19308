"""What a model is asked about the premises of a question and of its candidate."""

PREMISES_VERSION = "1"

_SYSTEM = (
    "You compare mathematical problems with rewrites of them, premise by premise. You do not solve them."
)
_ASK = """\
List every premise of the original problem: each quantity, each condition, each relation between them, each \
restriction of the answer, and what is asked. For each, say whether the rewrite still holds it:

- kept: the rewrite states it, in any words, order, notation or setting, or states something that implies it.
- changed: the rewrite states something else in its place.
- dropped: nothing in the rewrite states or implies it. Do not fill in what a reader might guess.

Write one premise a line, in a few words, between tags that say which it is: <kept> and </kept>, <changed> \
and </changed>, or <dropped> and </dropped>. Write nothing else."""


def build_messages(question: str, candidate: str) -> tuple[dict[str, str], ...]:
    """Return the chat messages that ask whether each premise of `question` is kept in `candidate`."""
    texts = f"<original>\n{question}\n</original>\n\n<rewrite>\n{candidate}\n</rewrite>"
    return ({"role": "system", "content": _SYSTEM}, {"role": "user", "content": f"{_ASK}\n\n{texts}"})
