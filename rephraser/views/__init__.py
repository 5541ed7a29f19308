"""Looking at questions and candidates: a run page by page, a search over all runs, all known about one."""

from rephraser.views.candidates import (
    Cost,
    Detail,
    Filters,
    Listed,
    Page,
    Proposal,
    StoredVerdict,
    choose_run,
    find_neighbor_run,
    page,
    read_detail,
)

__all__ = [
    "Cost",
    "Detail",
    "Filters",
    "Listed",
    "Page",
    "Proposal",
    "StoredVerdict",
    "choose_run",
    "find_neighbor_run",
    "page",
    "read_detail",
]
