"""What commands write to files beside what they print: rows as JSON Lines or CSV, and charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from typer import Option

from service.errors import InputError
from ui.cli import output

RowsFormat = Literal["jsonl", "csv"]
_BY_SUFFIX: dict[str, RowsFormat] = {".jsonl": "jsonl", ".csv": "csv"}


@dataclass(frozen=True)
class RowsFile:
    """Where rows go, and in which form."""

    panel: ClassVar[str] = "Output"

    out: Annotated[Path | None, Option(help="Write all rows to this file.")] = None
    format: Annotated[RowsFormat | None, Option(help="By default what --out ends in.")] = None
    overwrite: Annotated[bool, Option(help="Replace a file that exists.")] = False

    def check(self) -> None:
        """Refuse, before any work is done, a file that cannot be written or whose form nobody says.

        Raises:
            InputError: so, or a form without a file.
        """
        from service.writing import check_file_target

        if self.out is None:
            if self.format is not None:
                raise InputError("--format is that of a file; name one with --out.")
            return
        self._form(self.out)
        check_file_target(self.out, overwrite=self.overwrite)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows, if a file is named."""
        from evaluator.reports.records import render_csv, render_json_lines
        from service.writing import write_file

        if self.out is None:
            return
        text = (render_csv if self._form(self.out) == "csv" else render_json_lines)(rows)
        write_file(
            self.out,
            lambda path: path.write_text(text, encoding="utf-8", newline=""),
            overwrite=self.overwrite,
        )
        output.note(f"{output.plural(len(rows), 'row')} written to {self.out}")

    def _form(self, path: Path) -> RowsFormat:
        if self.format is not None:
            return self.format
        form = _BY_SUFFIX.get(path.suffix.lower())
        if form is not None:
            return form
        raise InputError(f"{path}: which format? End it in .jsonl or .csv, or give --format.")


CHART_SUFFIXES = (".png", ".svg", ".html", ".json")


def check_chart(chart: Path, *, overwrite: bool) -> None:
    """Refuse a chart's file that cannot be written, before any work is done."""
    from service.writing import check_file_target

    check_file_target(chart, overwrite=overwrite)
    if chart.suffix.lower() not in CHART_SUFFIXES:
        raise InputError(f"{chart}: a chart's name ends in {', '.join(CHART_SUFFIXES)}.")
