"""The demo of the built wheel, where there is no source tree."""

import sqlite3
from contextlib import closing
from pathlib import Path

from built_wheel import ROOT, build_wheel, install_wheel, run_installed
from rollout_shards import read_rollouts


def test_the_demo_runs_there_from_questions_to_the_report(tmp_path):
    installed = install_wheel(build_wheel(tmp_path / "wheel"), tmp_path / "venv")
    home = tmp_path / "home"
    home.mkdir()
    done = run_installed(installed, home, "demo", "--quick", timeout=840)
    log = "".join(path.read_text()[-4000:] for path in home.rglob("logs/*.log"))
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{log}"
    assert "Traceback" not in done.stderr
    assert str(ROOT) not in done.stdout + done.stderr
    folder = home / "tagrpo-demo-quick"
    text = (folder / "report" / "report.md").read_text()
    assert "one seed per recipe proves nothing" in text
    assert "ta_grpo-s1" in text
    pictures = list((folder / "report" / "pictures").glob("*.svg"))
    assert len(pictures) == 7
    with closing(sqlite3.connect(f"file:{folder / 'tagrpo.db'}?mode=ro", uri=True)) as database:
        kinds = dict(database.execute("SELECT kind, count(*) FROM runs GROUP BY kind"))
        folders = [Path(place) for (place,) in database.execute("SELECT folder FROM train_folders")]
        [(graded,)] = database.execute("SELECT count(*) FROM grades")
    assert kinds == {"propose": 1, "eval": 4, "train": 1}
    assert sum(len(list(read_rollouts(place))) for place in folders) == 512
    assert graded > 2 * 40 * 32

    again = run_installed(installed, home, "demo", "--quick")
    assert again.returncode == 0
    assert "steps of the demo in tagrpo-demo-quick are finished; nothing was changed" in again.stdout
