"""A checkpoint on this machine as solver: no costs, and another one in its folder is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from command_line import Done, run_here, words
from scripted import GOOD, QUESTION
from tiny_model import save_tiny_model
from world_runs import final_state, rows


def propose(db: Path, solver: Path) -> Done:
    return run_here(
        *("rephrase", "run", "q", "--name", "run", "--db", db, "--n", "1", "--solver", solver),
        *("proposer=file", f"proposer.candidates={db.parent / 'c.jsonl'}", "solver.device=cpu"),
        *("solver.preset=plain", "solver.max_tokens=16"),
    )


@pytest.mark.slow
def test_another_checkpoint_in_the_folder_is_refused(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    db, folder = tmp_path / "t.db", save_tiny_model(tmp_path / "solver")
    for name, row in (
        ("q", {"problem": QUESTION.text, "answer": QUESTION.answer}),
        ("c", {"question": QUESTION.text, "candidate": GOOD[0]}),
    ):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    assert run_here("questions", "import", tmp_path / "q.jsonl", "--name", "q", "--db", db).code == 0
    done = propose(db, folder)
    assert done.code == 0, done.err
    ((stored,),) = rows(db, "SELECT CAST(spec AS TEXT) FROM runs")
    (described,) = json.loads(stored)["solvers"]
    assert described["model"] == str(folder)
    assert described["engine"]["weights"].startswith("weights_")
    asked, cost = rows(db, "SELECT count(*), sum(cost_pico) FROM asks")[0]
    assert (asked >= 32 // 4, cost) == (True, 0)  # four answers per request
    before = final_state(db)
    save_tiny_model(folder, seed=1)
    for again in (propose(db, folder), run_here("resume", "run", "--db", db)):
        assert again.code == 2
        assert "run 'run' exists with other settings: solvers.1.engine." in words(again.err)
    shutil.rmtree(folder)
    gone = run_here("resume", "run", "--db", db)
    assert (gone.code, str(folder) in gone.err) == (2, True)
    assert final_state(db) == before
