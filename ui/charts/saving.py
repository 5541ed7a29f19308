"""Save charts to files: pictures, pages that need no network, specifications."""

import json
from html import escape
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError
from service.writing import write_file

SUFFIXES = (".png", ".svg", ".html", ".json")
PNG_SCALE = 2
WIDTH = 640
"""Pixels of a chart that is as wide as its place on a page."""

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
"""Policy of saved pages: they load nothing. Vega compiles its expressions, hence unsafe-eval."""

_OPTIONS = {
    "renderer": "svg",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to .png (twice its size in pixels), .svg, .html (bundled, needs no network) or .json.

    The file appears only when it is complete, and replaces an existing one. Nothing is fetched: data must be
    in the chart, fonts come with vl-convert.

    Raises:
        InputError: another suffix, or the file cannot be written there.
        PrerequisiteError: vl-convert is not installed.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: not a chart format. End the name in {', '.join(SUFFIXES)}.")
    content = draw(chart.to_dict(), suffix)
    write_file(path, lambda hidden: hidden.write_bytes(content), overwrite=True)


def draw(spec: dict[str, Any], suffix: str) -> bytes:
    """Return a chart's specification as the content of a .png, .svg, .html or .json file."""
    if spec.get("width") == "container":
        spec = {**spec, "width": WIDTH}
    if suffix == ".png":
        return bytes(_converter().vegalite_to_png(spec, scale=PNG_SCALE, allowed_base_urls=[]))
    if suffix == ".svg":
        return str(_converter().vegalite_to_svg(spec, allowed_base_urls=[])).encode()
    return (
        _html(spec) if suffix == ".html" else (json.dumps(spec, ensure_ascii=False, indent=1) + "\n").encode()
    )


def _html(spec: dict[str, Any]) -> bytes:
    # vl-convert's own page inserts the specification unescaped: </script> in a label would end the script.
    embedded = json.dumps(spec).replace("<", "\\u003c")
    bundle = str(_converter().javascript_bundle()).replace("</script", "<\\/script")
    lines = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(_title(spec))}</title>",
        "<style>body { margin: 0 } #chart { overflow-x: auto; width: 100% }</style></head>",
        '<body><div id="chart"></div>',
        f"<script>{bundle}</script>",
        f'<script>vegaEmbed("#chart", {embedded}, {json.dumps(_OPTIONS)});</script>',
        "</body></html>",
    )
    return "\n".join(lines).encode()


def _title(spec: dict[str, Any]) -> str:
    title = spec.get("title", "Chart")
    return str(title["text"] if isinstance(title, dict) else title)


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise PrerequisiteError(
            "pictures of charts need vl-convert. Install it with `pip install 'tagrpo[ui]'`."
        ) from error
    return vl_convert
