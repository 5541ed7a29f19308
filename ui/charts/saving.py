"""Save charts to files: pictures and specifications."""

import json
from pathlib import Path
from typing import Any

from service.errors import InputError, missing_extra
from service.writing import check_file_target, write_file

SUFFIXES = (".png", ".svg", ".json")
PNG_SCALE = 2
WIDTH = 640
"""Pixels of a chart that is as wide as its place on a page."""


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to .png (twice its size in pixels), .svg or .json, its Vega-Lite specification.

    Nothing is fetched: data must be in the chart, fonts come with vl-convert.
    """
    path = Path(path)
    check_chart(path, overwrite=True)
    content = draw(chart.to_dict(), path.suffix.lower())
    write_file(path, lambda hidden: hidden.write_bytes(content), overwrite=True)


def check_chart(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that no chart can be written to, before one is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: not a chart format. End the name in {', '.join(SUFFIXES)}.")
    check_file_target(path, overwrite=overwrite)


def draw(spec: dict[str, Any], suffix: str) -> bytes:
    """Return a chart's specification as the content of a .png, .svg or .json file."""
    if spec.get("width") == "container":
        spec = {**spec, "width": WIDTH}
    if suffix == ".png":
        return bytes(_converter().vegalite_to_png(spec, scale=PNG_SCALE, allowed_base_urls=[]))
    if suffix == ".svg":
        return str(_converter().vegalite_to_svg(spec, allowed_base_urls=[])).encode()
    return (json.dumps(spec, ensure_ascii=False, indent=1) + "\n").encode()


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise missing_extra("pictures of charts need vl-convert", "ui") from error
    return vl_convert
