"""What is said of a neighbor wherever one is shown."""

from rephraser.views.neighbors import NeighborCard
from ui.pages.widgets import layout


def provenance(card: NeighborCard) -> list[layout.Part]:
    """Return a neighbor's verdict, its strategy, and the model or file that it comes from, for a line."""
    parts = [layout.verdict_chip(card.status), layout.chip(card.strategy)]
    if card.model != card.strategy:
        parts.append(layout.chip(card.model or card.proposer))
    return parts
