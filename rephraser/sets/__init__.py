"""Neighbor sets: immutable versions of a run's neighbors; find, compare, verify, export, import."""

from rephraser.sets.changes import diff as diff
from rephraser.sets.export import export_set as export_set
from rephraser.sets.publish import Adaptive as Adaptive
from rephraser.sets.publish import Selection as Selection
from rephraser.sets.publish import draft as draft
from rephraser.sets.publish import publish as publish
from rephraser.sets.reimport import import_set as import_set
from rephraser.sets.reimport import read_published as read_published
from rephraser.sets.reimport import read_set as read_set
from rephraser.sets.store import accept_rates as accept_rates
from rephraser.sets.store import find_set as find_set
from rephraser.sets.store import list_sets as list_sets
from rephraser.sets.store import load_entries as load_entries
from rephraser.sets.store import load_set as load_set
from rephraser.sets.store import tag as tag
from rephraser.sets.store import untag as untag
from rephraser.sets.store import verify as verify
from rephraser.sets.types import PublishedSet as PublishedSet
from rephraser.sets.types import SetHeader as SetHeader
