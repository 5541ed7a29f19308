"""What a candidate is called: the id that its question and text give it."""

from service.hashing import canonical_text, content_id


def candidate_id(question_id: str, text: str) -> str:
    """Return the content id of a candidate: the hash of its question's id and its canonical text."""
    return content_id("c", {"question": question_id, "text": canonical_text(text)})
