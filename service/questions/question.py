"""What a question is, and its id."""

from dataclasses import dataclass

from service.answer_kinds import AnswerKind
from service.hashing import canonical_text, content_id


@dataclass(frozen=True)
class Question:
    """A question with its gold answer.

    `id` is `question_id(text, answer, kind)`; level and subject are labels. Of the kind code the answer is
    Python: the tests that a program has to pass.
    """

    id: str
    text: str
    answer: str
    level: str | None = None
    subject: str | None = None
    kind: AnswerKind = AnswerKind.LATEX


def question_id(text: str, answer: str, kind: AnswerKind = AnswerKind.LATEX) -> str:
    """Return the id of a question: a hash of its text and gold answer in canonical form, and of its kind.

    Line ends, blanks at line ends and the Unicode composition make no difference; anything else does. The
    kind counts where it is not latex.
    """
    value = {"text": canonical_text(text), "answer": canonical_answer(answer, kind)}
    return content_id("q", value if kind == AnswerKind.LATEX else {**value, "kind": str(kind)})


def make_question(
    text: str,
    answer: str,
    level: str | None = None,
    subject: str | None = None,
    kind: AnswerKind = AnswerKind.LATEX,
) -> Question:
    """Return the question with its text and answer in canonical form, and its id."""
    text, answer = canonical_text(text), canonical_answer(answer, kind)
    return Question(question_id(text, answer, kind), text, answer, level, subject, kind)


def canonical_answer(answer: str, kind: AnswerKind = AnswerKind.LATEX) -> str:
    r"""Return a gold as it is stored and hashed.

    It is `canonical_text`; tests keep all of their lines, for these may stand in a string: only line ends
    become `\n`, and blanks around go.
    """
    if kind == AnswerKind.CODE:
        return answer.replace("\r\n", "\n").replace("\r", "\n").strip()
    return canonical_text(answer)
