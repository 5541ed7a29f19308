"""Charts into files: pictures, pages that need no network, specifications."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evaluator.errors import InputError, PrerequisiteError
from evaluator.writing import write_file

PNG_SCALE = 2


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to .png (twice its size in pixels), .svg, .html (bundled, needs no network) or .json.

    The file is written at one stroke; one that is there is replaced. Nothing is fetched: data must be in the
    chart, fonts come with vl-convert.

    Raises:
        InputError: another suffix, or the file cannot be written there.
        PrerequisiteError: vl-convert is not installed.
    """
    path = Path(path)
    make = _MAKERS.get(path.suffix.lower())
    if make is None:
        raise InputError(f"{path}: charts are written as {', '.join(_MAKERS)}; end the name in one of these.")
    content = make(chart.to_dict())
    write_file(path, lambda hidden: _write(hidden, content), overwrite=True)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _png(spec: dict[str, Any]) -> bytes:
    return bytes(_converter().vegalite_to_png(spec, scale=PNG_SCALE, allowed_base_urls=[]))


def _svg(spec: dict[str, Any]) -> bytes:
    return str(_converter().vegalite_to_svg(spec, allowed_base_urls=[])).encode()


def _html(spec: dict[str, Any]) -> bytes:
    return str(_converter().vegalite_to_html(spec, bundle=True)).encode()


def _json(spec: dict[str, Any]) -> bytes:
    return (json.dumps(spec, ensure_ascii=False, indent=1) + "\n").encode()


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise PrerequisiteError(
            "pictures of charts need vl-convert; install it with `pip install 'tagrpo[ui]'`."
        ) from error
    return vl_convert


_MAKERS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    ".png": _png,
    ".svg": _svg,
    ".html": _html,
    ".json": _json,
}
