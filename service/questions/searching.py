"""Finding the questions whose texts, or whose candidates', may hold some words, by an index of letters."""

import re
from collections.abc import Sequence

from sqlalchemy import Integer, Select, column, literal_column, select, table, union_all
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from service.database.base import Base
from service.database.expressions import holds_text
from service.database.triggers import on_creation
from service.questions.tables import QuestionRow

LETTERS = 3
"""Letters in a row that the index knows texts by."""

_MOST_TRIPLES = 40
_TERM = re.compile(r'"([^"]+)"|(\S+)')
_letters = table("text_letters", column("rowid", Integer))
_columns: list[tuple[InstrumentedAttribute[str], InstrumentedAttribute[str]]] = []  # a question's id, a text


class SearchedTextRow(Base):
    """A text that searches look at; its id is its number in `text_letters`. Kept by triggers.

    `text_letters` is an index of three letters in a row over all texts of questions and candidates: a search
    for any part of a text, LaTeX included, then looks at the few texts that hold all its triples of letters
    instead of at all of them. The index keeps no copy of the texts and no places in them (`content=''`,
    `detail=none`), which makes it about as large as they are; what it finds is looked at again. Texts are
    never changed nor removed, so nothing has to be taken out of it.

    PostgreSQL has indexes of its extension pg_trgm instead, where the server brings it along and the role
    that makes the database may use it; without them a search reads all texts.
    """

    __tablename__ = "searched_texts"
    id: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[str]


def searched(row: type[Base], question_id: str, *texts: str) -> None:
    """Have new rows of a table searched, by the columns of their question's id and of their texts."""
    name, text = row.__tablename__, " || char(10) || ".join(f"NEW.{text}" for text in texts)
    _columns.extend((getattr(row, question_id), getattr(row, text)) for text in texts)
    indexed = ", ".join(f"{text} gin_trgm_ops" for text in texts)
    on_creation(
        row,
        f"""
        DO $$ BEGIN
            CREATE EXTENSION IF NOT EXISTS pg_trgm;
            CREATE INDEX {name}_letters ON {name} USING gin ({indexed});
        EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN NULL;
        END $$""",
        dialect="postgresql",
    )
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


searched(QuestionRow, "id", "text", "answer")


def search_terms(words: str) -> list[str]:
    """Return the words of a search; what stands between quotation marks stays together.

    SQLite's texts end at the character 0, in the index and in LIKE alike, and so does a search.
    """
    return [quoted or word for quoted, word in _TERM.findall(words.split("\0", 1)[0])]


def may_hold(session: Session, terms: Sequence[str]) -> Select[str] | None:
    """Return the query of the ids of all questions with a text that may hold all terms; None where all may.

    A text that holds a term holds every three letters in a row of it, whatever their case; the other way
    round it need not be so, so what is found has to be looked at again. None without three letters in a row.
    """
    triples = list(
        dict.fromkeys(term[at : at + LETTERS] for term in terms for at in range(len(term) - LETTERS + 1))
    )
    if not triples:
        return None
    if session.get_bind().dialect.name != "sqlite":
        holding = (select(id).where(*(holds_text(text, term) for term in terms)) for id, text in _columns)
        return select(union_all(*holding).subquery().c[0])
    pattern = " AND ".join(f'"{triple.replace(chr(34), chr(34) * 2)}"' for triple in triples[:_MOST_TRIPLES])
    texts = select(_letters.c.rowid).where(literal_column("text_letters").op("MATCH")(pattern))
    return select(SearchedTextRow.question_id).where(SearchedTextRow.id.in_(texts))
