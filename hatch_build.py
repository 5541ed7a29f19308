"""What building does to the README: links into this repository lead nowhere on a package index."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def with_absolute_links(text: str, repository: str | None, version: str) -> str:
    """Return the text with its relative links and pictures at the release's tag in `repository`.

    Without a repository, links become their words, and pictures are left out.
    """

    def absolute(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if repository is None:
            return "" if picture else words
        return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/v{version}/{path})"

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(absolute, text))


class Readme(MetadataHookInterface):
    """The README of the package, with links that hold; the repository is `Repository` of `project.urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = metadata.get("urls", {}).get("Repository")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, repository, metadata["version"]),
        }
