"""Charts into files, and what happens without the packages that draw them."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import ui.charts
from service.errors import PrerequisiteError
from ui.charts.eval_curves import curve_chart
from ui.charts.saving import save_chart

HOSTILE = "</script><script>alert(1)</script><img src=//x>"


def rows(label: str, value: float) -> list[dict[str, Any]]:
    same = {"run": label, "label": label, "benchmark": "AIME24", "interval": "new problems"}
    same |= {"problems": 30, "samples": 32}
    return [
        {**same, "k": k, "value": v, "value_high": v, "low": v - 0.1, "high": v + 0.1}
        for k, v in zip((1, 2, 4, 8), (value, value + 0.1, value + 0.2, value + 0.25), strict=True)
    ]


@pytest.fixture(scope="module")
def chart() -> Any:
    return curve_chart([*rows("TA-GRPO", 0.4), *rows(HOSTILE, 0.3)])


def test_svg_holds_labels_as_text(chart: Any, tmp_path: Path) -> None:
    save_chart(chart, tmp_path / "c.svg")
    svg = (tmp_path / "c.svg").read_text()
    assert svg.startswith("<svg")
    assert ">TA-GRPO<" in svg
    assert "<script" not in svg
    assert "<img" not in svg
    assert "href" not in svg.replace("xmlns:xlink", "")


def test_missing_packages_say_how_to_install_them(
    chart: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = r"Install it with `pip install 'tagrpo\[ui\]'`"
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(PrerequisiteError, match=rf"pictures of charts need vl-convert\. {how}"):
        save_chart(chart, tmp_path / "c.png")
    save_chart(chart, tmp_path / "c.json")  # needs no converter
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PrerequisiteError, match=rf"charts need altair\. {how}"):
        importlib.reload(ui.charts)
