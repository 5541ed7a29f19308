"""Questions: reading them from files and the Hub, storing them by content, mixing sets."""

from evaluator.questions.types import Question, make_question, question_id

__all__ = ["Question", "make_question", "question_id"]
