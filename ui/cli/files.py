"""What commands write to files beside what they print: rows, reports, exports for the Hub, charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import BadParameter, Option

from service.errors import InputError
from ui.cli import output

if TYPE_CHECKING:
    from evaluator.reports.documents.document import Document
    from ui.cli.output import Terminal

Form = TypeVar("Form", bound=str)
ReportFormat = Literal["table", "markdown", "latex", "csv", "json"]
REPORT_BY_SUFFIX: dict[str, ReportFormat] = {
    ".md": "markdown",
    ".tex": "latex",
    ".csv": "csv",
    ".json": "json",
    ".txt": "table",
}

Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite existing files.")]


def form_of(path: Path, given: Form | None, by_suffix: Mapping[str, Form]) -> Form:
    """Return the form of a file: as given, else what its name ends in.

    Raises:
        InputError: neither says it.
    """
    form = given or by_suffix.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"{path}: the format is unknown. End the name in {', '.join(by_suffix)}, or give --format."
        )
    return form


def render_rows(rows: Sequence[Mapping[str, Any]], suffix: str) -> str:
    """Return rows as the text of a file that ends so."""
    from evaluator.reports.records import render_csv, render_json_lines

    return (render_csv if suffix.lower() == ".csv" else render_json_lines)(rows)


@dataclass(frozen=True)
class RowsFile:
    """Where rows go.

    Args:
        out: Write all rows to this .jsonl or .csv file.
    """

    out: Path | None = None
    overwrite: Overwrite = False

    def check(self) -> None:
        """Refuse, before any work is done, a file that cannot be written or whose format is unknown.

        Raises:
            InputError: so.
        """
        from service.writing import check_file_target

        if self.out is None:
            return
        if self.out.suffix.lower() not in (".jsonl", ".csv"):
            raise InputError(f"{self.out}: the format is unknown. End the name in .jsonl, .csv.")
        check_file_target(self.out, overwrite=self.overwrite)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows, if a file is named."""
        from service.writing import write_text

        if self.out is not None:
            write_text(self.out, render_rows(rows, self.out.suffix), overwrite=self.overwrite)
            output.note(f"{output.plural(len(rows), 'row')} written to {self.out}")


def write_tables(folder: Path | None, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Write each table with rows to a CSV file in the folder, if one is given: all of them or none.

    Raises:
        InputError: a file exists, or the disk does not take it.
    """
    from service.writing import check_file_target, write_text

    if folder is None:
        return
    targets = {folder / f"{name}.csv": rows for name, rows in tables.items() if rows}
    for target in targets:
        check_file_target(target, overwrite=None)
    for target, rows in targets.items():
        write_text(target, render_rows(rows, ".csv"), overwrite=None)
    output.note(f"{output.plural(len(targets), 'file')} written to {folder}")


@dataclass(frozen=True)
class ReportFile:
    """Where a report goes, and in which form.

    Args:
        format: Format. Default: from the suffix of --out, otherwise a table.
        out: Write to this file.
    """

    format: ReportFormat | None = None
    out: Path | None = None
    overwrite: Overwrite = False

    def choose(self, terminal: "Terminal") -> ReportFormat:
        """Return the format, after checking that the file can be written.

        Raises:
            InputError: the file exists, or its name does not determine the format.
            typer.BadParameter: --json with another format.
        """
        from service.writing import check_file_target

        if terminal.as_json and self.format not in (None, "json"):
            raise BadParameter("--json and another --format cannot be combined")
        form = "json" if terminal.as_json else self.format
        if self.out is None:
            return form or "table"
        form = form_of(self.out, form, REPORT_BY_SUFFIX)
        check_file_target(self.out, overwrite=self.overwrite)
        return form

    def deliver(
        self, document: "Document", rows: Sequence[dict[str, Any]], record: dict[str, Any], form: ReportFormat
    ) -> None:
        """Write or print the report."""
        from evaluator.reports.documents.rendering import RENDERERS
        from evaluator.reports.records import finite, render_csv, render_json
        from service.writing import write_text
        from ui.cli.documents import render_text

        if self.out is None and form in ("json", "table"):
            output.Terminal(form == "json").emit(finite(record), document)
            return
        if form == "json":
            text = render_json(record)
        elif form == "csv":
            text = render_csv(rows)
        else:
            text = render_text(document) if form == "table" else RENDERERS[form](document)
        if self.out is None:
            output.say(text.rstrip("\n"))
        else:
            write_text(self.out, text, overwrite=self.overwrite)
            output.note(f"written to {self.out}")


@dataclass(frozen=True)
class HubExport:
    """Where on the Hub a data set goes.

    Args:
        push: Push to this Hub dataset repository (OWNER/NAME). Requires HF_TOKEN in the environment.
        public: Make a new repository public. Default: private.
    """

    push: str | None = None
    public: bool = False


def check_chart(chart: Path, *, overwrite: bool) -> None:
    """Refuse a chart's file that cannot be written, before any work is done."""
    from service.writing import check_file_target
    from ui.charts.saving import SUFFIXES

    check_file_target(chart, overwrite=overwrite)
    if chart.suffix.lower() not in SUFFIXES:
        raise InputError(f"{chart}: not a chart format. End the name in {', '.join(SUFFIXES)}.")
