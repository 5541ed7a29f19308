"""Write reports and charts to files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import BadParameter, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.output import terminal

if TYPE_CHECKING:
    from evaluator.reports.documents.document import Document

Form = TypeVar("Form", bound=str)
ReportFormat = Literal["markdown", "latex", "csv"]
REPORT_BY_SUFFIX: dict[str, ReportFormat] = {
    ".md": "markdown",
    ".tex": "latex",
    ".csv": "csv",
}

Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite existing files.")]


def form_of(path: Path, given: Form | None, by_suffix: Mapping[str, Form]) -> Form:
    """Return the form of a file: as given, else what its name ends in."""
    form = given or by_suffix.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"{path}: the format is unknown. End the name in {', '.join(by_suffix)}, or give --format."
        )
    return form


@dataclass(frozen=True)
class ReportFile:
    """Where a report goes, and in which form.

    Args:
        format: Format. Default: from the suffix of --out, otherwise a table on the terminal.
        out: Write to this file.
    """

    format: ReportFormat | None = None
    out: Path | None = None
    overwrite: Overwrite = False

    def __post_init__(self) -> None:
        """Refuse what cannot be written, before any work is done."""
        from service.writing import check_file_target

        if terminal.as_json and (self.format or self.out):
            raise BadParameter("--json prints to stdout; it cannot be combined with --format or --out")
        if self.out is not None:
            form_of(self.out, self.format, REPORT_BY_SUFFIX)
            check_file_target(self.out, overwrite=self.overwrite)

    def deliver(self, document: "Document", rows: Sequence[dict[str, Any]], record: dict[str, Any]) -> None:
        """Write or print the report."""
        from evaluator.reports.documents.rendering import RENDERERS, finite, render_csv
        from service.writing import write_text

        form = self.format if self.out is None else form_of(self.out, self.format, REPORT_BY_SUFFIX)
        if form is None:
            terminal.emit(finite(record), document)
            return
        text = render_csv(rows) if form == "csv" else RENDERERS[form](document)
        if self.out is None:
            output.say(text.rstrip("\n"))
        else:
            write_text(self.out, text, overwrite=self.overwrite)
            output.note(f"written to {self.out}")


def check_chart(chart: Path, *, overwrite: bool) -> None:
    """Refuse a chart's file that cannot be written, before any work is done."""
    from service.writing import check_file_target
    from ui.charts.saving import SUFFIXES

    check_file_target(chart, overwrite=overwrite)
    if chart.suffix.lower() not in SUFFIXES:
        raise InputError(f"{chart}: not a chart format. End the name in {', '.join(SUFFIXES)}.")
