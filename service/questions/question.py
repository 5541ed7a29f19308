"""What a question is, and its id."""

from dataclasses import dataclass

from service.hashing import canonical_text, content_id


@dataclass(frozen=True)
class Question:
    """A question with its gold answer. `id` is `question_id(text, answer)`; level and subject are labels."""

    id: str
    text: str
    answer: str
    level: str | None = None
    subject: str | None = None


def question_id(text: str, answer: str) -> str:
    """Return the id of a question: a hash of its text and gold answer in canonical form.

    Line ends, blanks at line ends and the Unicode composition make no difference; anything else does.
    """
    return content_id("q", {"text": canonical_text(text), "answer": canonical_text(answer)})


def make_question(text: str, answer: str, level: str | None = None, subject: str | None = None) -> Question:
    """Return the question with its text and answer in canonical form, and its id."""
    text, answer = canonical_text(text), canonical_text(answer)
    return Question(question_id(text, answer), text, answer, level, subject)
