"""The built wheel: what is in it. The demo (tests/e2e/test_demo.py) shows that it works."""

import re
import tarfile
import zipfile

import pytest
from built_wheel import ROOT, build_sdist, build_wheel

from hatch_build import with_absolute_links

ROOMS = ("service", "evaluator", "rephraser", "trainer_adapter", "sandbox", "ui")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_it_holds_every_file_of_the_rooms_the_licence_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file()]
    files = {str(path.relative_to(ROOT)) for path in paths if "__pycache__" not in path.parts}
    assert {name for name in names if ".dist-info/" not in name} == files | {"tagrpo.py"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_its_readme_has_no_link_into_the_source_tree(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = opened.read(name).decode()
    assert "Description-Content-Type: text/markdown" in metadata
    assert "# tagrpo" in metadata
    targets = re.findall(r"\]\(([^)]+)\)", metadata)
    assert "https://arxiv.org/abs/2601.22478" in targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_links_of_the_readme_lead_to_the_release_where_the_repository_is_known():
    text = "![drawn](docs/flow.svg) [how](docs/sets.md#push) [paper](https://arxiv.org/abs/1)"
    assert with_absolute_links(text, "https://example.org/tagrpo", "1.2") == (
        "![drawn](https://example.org/tagrpo/raw/v1.2/docs/flow.svg) "
        "[how](https://example.org/tagrpo/blob/v1.2/docs/sets.md#push) [paper](https://arxiv.org/abs/1)"
    )
    assert with_absolute_links(text, None, "1.2") == " how [paper](https://arxiv.org/abs/1)"


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    with tarfile.open(build_sdist(tmp_path)) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert {path.name for path in source.iterdir()} >= {"CHANGELOG.md", "CITATION.cff", "LICENSE"}
    again = build_wheel(tmp_path / "wheel", source)
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {name: first.read(name) for name in first.namelist()} == {
            name: second.read(name) for name in second.namelist()
        }
