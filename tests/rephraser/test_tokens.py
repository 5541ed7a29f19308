"""Counting tokens with a named tokenizer."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from rephraser.proposing.tokens import load_token_counter
from service.errors import InputError


def saved(folder: Path) -> Path:
    """Save a tokenizer that counts words and would add one special token."""
    tokenizer = Tokenizer(WordLevel({"?": 0, "<s>": 1}, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_words_are_counted_without_special_tokens(tmp_path: Path) -> None:
    path = saved(tmp_path)
    for reference in (path, tmp_path):
        count = load_token_counter(str(reference))
        assert [count(text) for text in ("", "one", "what is $x + 1$ ?")] == [0, 1, 6]


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match=r"other\.json: not a tokenizer\.json"):
        load_token_counter(str(tmp_path / "other.json"))
    with pytest.raises(InputError, match=r"absent\.json: no such file"):
        load_token_counter(str(tmp_path / "absent.json"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty/tokenizer\.json: no such file"):
        load_token_counter(str(tmp_path / "empty"))
