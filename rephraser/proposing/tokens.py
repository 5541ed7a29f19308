"""Counting tokens with a named tokenizer, for the token limit of candidates."""

from collections.abc import Callable
from pathlib import Path

from service.errors import InputError, PrerequisiteError


def load_token_counter(reference: str) -> Callable[[str], int]:
    """Return a function that counts tokens with a `tokenizer.json` (file or its folder) or a Hub tokenizer.

    Special tokens are not counted: the limit is on the question's own text.
    """
    from tokenizers import Tokenizer

    path = Path(reference)
    if path.is_dir():
        path = path / "tokenizer.json"
    is_file = path.suffix == ".json" or path.exists()
    try:
        tokenizer = Tokenizer.from_file(str(path)) if is_file else Tokenizer.from_pretrained(reference)
    except Exception as error:  # tokenizers raises bare Exception
        if is_file:
            raise InputError(f"{path}: not a tokenizer.json ({error}). Give one, or a Hub name.") from error
        raise PrerequisiteError(
            f"tokenizer {reference!r} could not be loaded from the Hub ({error}). Give a local "
            "tokenizer.json, log in for gated models (HF_TOKEN), or remove the setting tokenizer "
            "to use an estimate."
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
