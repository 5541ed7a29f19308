"""What a question is, and its id."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.answer_kinds import AnswerKind
from service.hashing import canonical_text, content_id
from service.questions.images import place_images

_WORD = re.compile(r"(?<!\\)(?<![^\W\d_])[^\W\d_]{2,}")  # of any script; no command of LaTeX
_WORDS_OF_PROSE = 8


@dataclass(frozen=True)
class Question:
    """A question with its gold answer; its text refers to its images by `<image>`, in their order.

    `id` is `question_id(text, answer, kind, images)`; level and subject are labels. Of the kind code the
    answer is Python: the tests that a program has to pass. `images` are ids.
    """

    id: str
    text: str
    answer: str
    level: str | None = None
    subject: str | None = None
    kind: AnswerKind = AnswerKind.LATEX
    images: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {
            "id": self.id,
            "question": self.text,
            "answer": self.answer,
            "level": self.level,
            "subject": self.subject,
            "kind": str(self.kind),
            "images": list(self.images),
        }


def question_id(
    text: str, answer: str, kind: AnswerKind = AnswerKind.LATEX, images: Sequence[str] = ()
) -> str:
    """Return the id of a question: a hash of its text and gold in canonical form, its kind and its images.

    Line ends, blanks at line ends and the Unicode composition make no difference; anything else does. The
    kind counts where it is not latex.
    """
    value: dict[str, Any] = {"text": canonical_text(text), "answer": canonical_answer(answer, kind)}
    if kind != AnswerKind.LATEX:
        value["kind"] = str(kind)
    if images:
        value["images"] = [*images]
    return content_id("q", value)


def make_question(
    text: str,
    answer: str,
    level: str | None = None,
    subject: str | None = None,
    kind: AnswerKind = AnswerKind.LATEX,
    images: Sequence[str] = (),
) -> Question:
    """Return the question with its text and answer in canonical form, and its id.

    A text with images and without any placeholder gets them before it.
    """
    text, answer = place_images(canonical_text(text), len(images)), canonical_answer(answer, kind)
    return Question(
        question_id(text, answer, kind, images), text, answer, level, subject, kind, tuple(images)
    )


def canonical_answer(answer: str, kind: AnswerKind = AnswerKind.LATEX) -> str:
    r"""Return a gold as it is stored and hashed.

    It is `canonical_text`; tests keep all of their lines, for these may stand in a string: only line ends
    become `\n`, and blanks around go.
    """
    if kind == AnswerKind.CODE:
        return answer.replace("\r\n", "\n").replace("\r", "\n").strip()
    return canonical_text(answer)


def is_solution(answer: str) -> bool:
    """Whether a gold is a whole solution: several lines with words, which hardly any response equals."""
    return "\n" in answer and len(_WORD.findall(answer)) >= _WORDS_OF_PROSE
