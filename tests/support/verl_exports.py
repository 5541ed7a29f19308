"""Exports for verl of entries that no database holds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rephraser.sets.types import NeighborSet, SetEntry, SetHeader
from service.questions.images import LoadImages
from trainer_adapter.verl.export import Layout, export_verl
from trainer_adapter.verl.export_config import SetRows
from trainer_adapter.verl.prompts import PromptTemplate


def export_entries(
    folder: Path,
    entries: Sequence[SetEntry],
    template: PromptTemplate,
    *,
    layout: Layout = "grouped",
    load_images: LoadImages = lambda ids: {},
    overwrite: bool = False,
    **rows: Any,
) -> dict[str, Any]:
    """Export the set toy@1 of these entries, return the manifest; `rows` are settings of `SetRows`."""
    header = SetHeader("set_toy", "toy", 1, None, "abc", {}, {}, "2026-01-01T00:00:00", ())
    published, settings = NeighborSet(header, tuple(entries)), SetRows(**rows)
    more: dict[str, Any] = {"layout": layout, "load_images": load_images, "overwrite": overwrite}
    return export_verl(published, folder, settings, template, data_source="toy", **more)
