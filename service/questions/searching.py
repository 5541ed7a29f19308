"""Finding the questions whose texts, or whose candidates', may hold some words, by an index of letters."""

import re
from collections.abc import Sequence

from sqlalchemy import Integer, Select, column, literal_column, select, table
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.database.base import Base
from service.database.triggers import on_creation
from service.questions.tables import QuestionRow

LETTERS = 3
"""Letters in a row that the index knows texts by."""

_MOST_TRIPLES = 40
_TERM = re.compile(r'"([^"]+)"|(\S+)')
_letters = table("text_letters", column("rowid", Integer))


class SearchedTextRow(Base):
    """A text that searches look at; its id is its number in `text_letters`. Kept by triggers.

    `text_letters` is an index of three letters in a row over all texts of questions and candidates: a search
    for any part of a text, LaTeX included, then looks at the few texts that hold all its triples of letters
    instead of at all of them. The index keeps no copy of the texts and no places in them (`content=''`,
    `detail=none`), which makes it about as large as they are; what it finds is looked at again. Texts are
    never changed nor removed, so nothing has to be taken out of it. On PostgreSQL both stay empty.
    """

    __tablename__ = "searched_texts"
    id: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[str]


def searched(row: type[Base], question_id: str, text: str) -> None:
    """Have new rows of a table searched: by the column of their question's id, and the SQL of their text."""
    name = row.__tablename__
    on_creation(
        row,
        f"""
        CREATE TRIGGER {name}_searched AFTER INSERT ON {name} BEGIN
            INSERT INTO searched_texts (question_id) VALUES (NEW.{question_id});
            INSERT INTO text_letters (rowid, text) SELECT MAX(id), {text} FROM searched_texts;
        END""",
    )


on_creation(
    SearchedTextRow,
    """
    CREATE VIRTUAL TABLE text_letters
    USING fts5(text, content='', tokenize='trigram', detail=none, columnsize=0)""",
)


searched(QuestionRow, "id", "NEW.text || char(10) || NEW.answer")


def search_terms(words: str) -> list[str]:
    """Return the words of a search; what stands between quotation marks stays together.

    SQLite's texts end at the character 0, in the index and in LIKE alike, and so does a search.
    """
    return [quoted or word for quoted, word in _TERM.findall(words.split("\0", 1)[0])]


def may_hold(session: Session, terms: Sequence[str]) -> Select[str] | None:
    """Return the query of the ids of all questions with a text that may hold all terms; None where all may.

    A text that holds a term holds every three letters in a row of it, whatever their case; the other way
    round it need not be so, so what is found has to be looked at again. None without three letters in a row,
    and on PostgreSQL, which looks at all texts.
    """
    if session.get_bind().dialect.name != "sqlite":
        return None
    triples = list(
        dict.fromkeys(term[at : at + LETTERS] for term in terms for at in range(len(term) - LETTERS + 1))
    )
    if not triples:
        return None
    pattern = " AND ".join(f'"{triple.replace(chr(34), chr(34) * 2)}"' for triple in triples[:_MOST_TRIPLES])
    texts = select(_letters.c.rowid).where(literal_column("text_letters").op("MATCH")(pattern))
    return select(SearchedTextRow.question_id).where(SearchedTextRow.id.in_(texts))
