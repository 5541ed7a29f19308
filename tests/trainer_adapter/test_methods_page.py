"""docs/methods-and-code.md explains every recipe, once."""

import re
from pathlib import Path

from trainer_adapter.methods.recipes import RECIPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods-and-code.md"


def test_every_recipe_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert explained == list(RECIPES)
