"""The demo's folder: what is done is kept, one demo at a time works in it, nothing else is taken for one."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.demo.folder import STATE, open_demo_folder
from sandbox.demo.plan import QUICK, DemoPlan
from service.errors import InputError

WITH_DB = "tagrpo questions import x --db ./tagrpo.db"


@pytest.fixture
def plan(tmp_path: Path) -> DemoPlan:
    return DemoPlan(tmp_path / "demo", QUICK)


def test_other_settings_are_refused_by_name(plan: DemoPlan) -> None:
    with open_demo_folder(plan) as held:
        held.finish("a step", 1)
    other = replace(plan, size=replace(QUICK, responses=60))
    with (
        pytest.raises(InputError, match=r"started with other settings \(responses was 512, now 60\)"),
        open_demo_folder(other),
    ):
        pass


@pytest.mark.slow
def test_two_demos_at_once_are_refused(plan: DemoPlan) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from sandbox.demo.plan import QUICK, DemoPlan\n"
        "from sandbox.demo.folder import open_demo_folder\n"
        "with open_demo_folder(DemoPlan(Path(sys.argv[1]), QUICK)):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(plan.folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another demo is running here"), open_demo_folder(plan):
            pass
        other.kill()
    with open_demo_folder(plan) as held:  # a killed one holds nothing
        assert held.done == {}


def test_a_database_that_is_gone_is_named(plan: DemoPlan) -> None:
    with open_demo_folder(plan) as held:
        held.finish("python -m sandbox policy ./policy", 1)
    with open_demo_folder(plan) as held:  # no step has used it yet
        held.finish(WITH_DB, 1)
    with pytest.raises(InputError, match=r"tagrpo\.db: the database is missing"), open_demo_folder(plan):
        pass


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "not a demo's state file"),
        (json.dumps({"format": "tagrpo demo", "format_version": 99}), "of this version"),
    ],
)
def test_a_state_that_cannot_be_used_is_named(plan: DemoPlan, content: str, said: str) -> None:
    plan.folder.mkdir()
    (plan.folder / STATE).write_text(content)
    with pytest.raises(InputError, match=said), open_demo_folder(plan):
        pass
