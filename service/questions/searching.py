"""Finding the questions whose texts, or whose candidates', may hold some words, by an index of letters."""

import re
from collections.abc import Sequence

from sqlalchemy import Integer, Select, column, literal_column, select, table

from service.questions.tables import SearchedTextRow

LETTERS = 3
"""Letters in a row that the index knows texts by."""

_MOST_TRIPLES = 40
_TERM = re.compile(r'"([^"]+)"|(\S+)')
_letters = table("text_letters", column("rowid", Integer))


def search_terms(words: str) -> list[str]:
    """Return the words of a search; what stands between quotation marks stays together.

    SQLite's texts end at the character 0, in the index and in LIKE alike, and so does a search.
    """
    return [quoted or word for quoted, word in _TERM.findall(words.split("\0", 1)[0])]


def may_hold(terms: Sequence[str]) -> Select[str] | None:
    """Return the query of the ids of all questions with a text that may hold all terms; None where all may.

    A text that holds a term holds every three letters in a row of it, whatever their case; the other way
    round it need not be so, so what is found has to be looked at again. None without three letters in a row.
    """
    triples = list(
        dict.fromkeys(term[at : at + LETTERS] for term in terms for at in range(len(term) - LETTERS + 1))
    )
    if not triples:
        return None
    said = " AND ".join(f'"{triple.replace(chr(34), chr(34) * 2)}"' for triple in triples[:_MOST_TRIPLES])
    found = select(_letters.c.rowid).where(literal_column("text_letters").op("MATCH")(said))
    return select(SearchedTextRow.question_id).where(SearchedTextRow.id.in_(found))
