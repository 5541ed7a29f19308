"""What revision 0006 adds: an index of three letters in a row over all texts of questions and candidates.

A search for any part of a text, LaTeX included, then looks at the few texts that hold all its triples of
letters instead of at all of them. The index keeps no copy of the texts and no places in them
(`content=''`, `detail=none`), which makes it about as large as they are; what it finds is looked at again by
`service.questions.searching`. Texts are never changed nor removed, so nothing has to be taken out of it.
"""

TABLE = "text_letters"
NUMBERS = "searched_texts"

_QUESTION = "{0}.text || char(10) || {0}.answer"
_NEXT = "SELECT MAX(id), {0} FROM searched_texts"

CREATE: tuple[str, ...] = (
    """
    CREATE TABLE searched_texts (
        id INTEGER NOT NULL, question_id VARCHAR NOT NULL, CONSTRAINT pk_searched_texts PRIMARY KEY (id))""",
    f"""
    CREATE VIRTUAL TABLE {TABLE}
    USING fts5(text, content='', tokenize='trigram', detail=none, columnsize=0)""",
)

FILL: tuple[str, ...] = (
    """
    INSERT INTO searched_texts (id, question_id)
    SELECT 2 * rowid, id FROM questions UNION ALL SELECT 2 * rowid + 1, question_id FROM candidates""",
    f"""
    INSERT INTO {TABLE} (rowid, text)
    SELECT 2 * rowid, {_QUESTION.format("questions")} FROM questions
    UNION ALL SELECT 2 * rowid + 1, text FROM candidates""",
)
"""For the texts that are there already. The numbers have to differ only; from here on they are counted up."""

TRIGGERS: tuple[str, ...] = (
    f"""
    CREATE TRIGGER questions_searched AFTER INSERT ON questions BEGIN
        INSERT INTO searched_texts (question_id) VALUES (NEW.id);
        INSERT INTO {TABLE} (rowid, text) {_NEXT.format(_QUESTION.format("NEW"))};
    END""",
    f"""
    CREATE TRIGGER candidates_searched AFTER INSERT ON candidates BEGIN
        INSERT INTO searched_texts (question_id) VALUES (NEW.question_id);
        INSERT INTO {TABLE} (rowid, text) {_NEXT.format("NEW.text")};
    END""",
)


def is_made(table: str) -> bool:
    """Say whether a table belongs to the index: what is in it follows from the texts, and `FILL` makes it."""
    return table in (NUMBERS, TABLE) or table.startswith(f"{TABLE}_")
