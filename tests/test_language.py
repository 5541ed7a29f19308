"""README, changelog and docs are free of the worst patterns of unclear English."""

from pathlib import Path

import pytest
from language import find_faults, find_page_faults

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_has_no_unclear_sentence(page: str) -> None:
    faults = find_page_faults(ROOT / page)
    found = [f"{page}:{fault.line}: {fault.name}: {fault.sentence}" for fault in faults]
    if found:
        pytest.fail("Rewrite these sentences:\n" + "\n".join(found), pytrace=False)


def test_phrases_are_found_as_whole_words() -> None:
    text = "It stands here. We understand. Outstanding requests finish.\nOne row a problem. Use `beside` now."
    assert [(fault.line, fault.name) for fault in find_faults(text)] == [(1, "stands"), (2, "a row a")]


def test_long_sentences_count_words_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = "word " * 30
    page.write_text(
        f"# Title\n\n{words}`tagrpo behind` 7 [6.5, 18.3].\n\n- {words}more.\n\n"
        f"```bash\n{words * 2}\n```\n\n| {words} | {words} |\n",
        encoding="utf-8",
    )
    assert [(fault.line, fault.name) for fault in find_page_faults(page)] == [(5, "31 words")]
