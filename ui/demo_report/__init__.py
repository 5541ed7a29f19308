"""The report of a demo: Markdown with pictures, in one self-contained folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.demo.plan import DemoPlan
    from sandbox.demo.steps import Step

REPORT_FILE = "report.md"
_PICTURES = "pictures"


def write_report(plan: "DemoPlan", steps: "Sequence[tuple[Step, float]]") -> None:
    """Write the report of a finished demo (its steps with their seconds) into its folder.

    It appears only when complete and replaces an earlier one.
    """
    from evaluator.reports.documents.rendering import render_markdown
    from service.writing import write_folder
    from ui.charts.saving import draw
    from ui.demo_report.page import demo_document

    document = demo_document(plan, steps)
    drawn = {picture.name: draw(dict(picture.spec), ".svg") for picture in document.pictures}

    def write(place: Path) -> None:
        (place / _PICTURES).mkdir()
        for name, svg in drawn.items():
            (place / _PICTURES / f"{name}.svg").write_bytes(svg)
        (place / REPORT_FILE).write_text(render_markdown(document, pictures=_PICTURES), encoding="utf-8")

    write_folder(plan.report, write, overwrite=True, mark=REPORT_FILE)
