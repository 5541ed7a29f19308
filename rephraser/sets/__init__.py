"""Neighbor sets: immutable versions of a run's neighbors; find, compare, verify, export, import."""

from rephraser.sets.changes import Change, SetDiff, diff
from rephraser.sets.counts import accept_rates
from rephraser.sets.export import export_set
from rephraser.sets.publish import Adaptive, Draft, Selection, draft, publish
from rephraser.sets.reimport import import_set, read_published, read_set
from rephraser.sets.store import find_set, list_sets, load_entries, load_set, tag, untag
from rephraser.sets.types import Neighbor, PublishedSet, SetEntry, SetHeader
from rephraser.sets.verify import verify

__all__ = [
    "Adaptive",
    "Change",
    "Draft",
    "Neighbor",
    "PublishedSet",
    "Selection",
    "SetDiff",
    "SetEntry",
    "SetHeader",
    "accept_rates",
    "diff",
    "draft",
    "export_set",
    "find_set",
    "import_set",
    "list_sets",
    "load_entries",
    "load_set",
    "publish",
    "read_published",
    "read_set",
    "tag",
    "untag",
    "verify",
]
