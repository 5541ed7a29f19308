"""Questions: reading them from files and the Hub, storing them by content, mixing sets."""

from service.questions.columns import Columns as Columns
from service.questions.columns import RowLimits as RowLimits
from service.questions.importing import store_import as store_import
from service.questions.mixing import mix_sets as mix_sets
from service.questions.question import Question as Question
from service.questions.question import is_solution as is_solution
from service.questions.question import make_question as make_question
from service.questions.question import question_id as question_id
from service.questions.reading import ReadRows as ReadRows
from service.questions.reading import read_source as read_source
from service.questions.store import Member as Member
from service.questions.store import get_set as get_set
from service.questions.store import load_members as load_members
from service.questions.store import load_question_set as load_question_set
from service.questions.store import store_questions as store_questions
