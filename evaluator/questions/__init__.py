"""Questions: reading them from files and the Hub, storing them by content, mixing sets."""

from evaluator.questions.columns import Columns, RowLimits
from evaluator.questions.importing import ImportReport, store_import
from evaluator.questions.mixing import MixReport, mix_sets
from evaluator.questions.reading import ReadRows, read_source
from evaluator.questions.store import (
    Member,
    StoreCounts,
    StoredSet,
    get_set,
    load_members,
    load_question_set,
    store_questions,
)
from evaluator.questions.types import Question, make_question, question_id

__all__ = [
    "Columns",
    "ImportReport",
    "Member",
    "MixReport",
    "Question",
    "ReadRows",
    "RowLimits",
    "StoreCounts",
    "StoredSet",
    "get_set",
    "load_members",
    "load_question_set",
    "make_question",
    "mix_sets",
    "question_id",
    "read_source",
    "store_import",
    "store_questions",
]
