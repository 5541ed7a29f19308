"""Finding the questions whose texts, or whose candidates', may hold some words, by an index of letters."""

from sqlalchemy import Integer, Select, column, literal_column, select, table

from evaluator.questions.tables import SearchedTextRow

LETTERS = 3
"""Letters in a row that the index knows texts by."""

_MOST_TRIPLES = 40
_letters = table("text_letters", column("rowid", Integer))


def may_hold(words: str) -> Select[str] | None:
    """Return the query of the ids of all questions with a text that may hold `words`; None where all may.

    A text that holds the words holds every three letters in a row of them, whatever their case; the other way
    round it need not be so, so what is found has to be looked at again. None for fewer than three letters.
    """
    # SQLite's texts end at the character 0, in the index and in LIKE alike.
    words = words.split("\0", 1)[0]
    triples = list(dict.fromkeys(words[at : at + LETTERS] for at in range(len(words) - LETTERS + 1)))
    if not triples:
        return None
    said = " AND ".join(f'"{triple.replace(chr(34), chr(34) * 2)}"' for triple in triples[:_MOST_TRIPLES])
    found = select(_letters.c.rowid).where(literal_column("text_letters").op("MATCH")(said))
    return select(SearchedTextRow.question_id).where(SearchedTextRow.id.in_(found))
