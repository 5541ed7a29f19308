"""Questions: reading them from files and the Hub, storing them by content, mixing sets."""

from service.questions.columns import Columns, RowLimits
from service.questions.importing import ImportReport, store_import
from service.questions.mixing import mix_sets
from service.questions.question import Question, is_solution, make_question, question_id
from service.questions.reading import ReadRows, read_source
from service.questions.store import Member, get_set, load_members, load_question_set, store_questions

__all__ = [
    "Columns",
    "ImportReport",
    "Member",
    "Question",
    "ReadRows",
    "RowLimits",
    "get_set",
    "load_members",
    "load_question_set",
    "is_solution",
    "make_question",
    "mix_sets",
    "question_id",
    "read_source",
    "store_import",
    "store_questions",
]
