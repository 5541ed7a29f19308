"""A checkpoint that sees proposes on this machine: it is shown the images where questions name them."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from pictures import picture
from sqlalchemy import text
from tiny_vision import save_tiny_vision_model

from rephraser.run.local.drawing import proposer_cells, solver_cells
from rephraser.run.spec import RunSpec
from service.database import Database
from service.models.offline import open_engine
from service.models.rendering import plan_prompts
from service.questions.images import load_images
from service.runs.store import find_run


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


@pytest.mark.slow
def test_a_proposer_is_shown_the_images_of_a_question(cli: CommandLine, tmp_path: Path) -> None:
    save_tiny_vision_model(tmp_path / "seeing", context=4000)
    (tmp_path / "red.png").write_bytes(picture("red", (40, 40)))
    rows = [
        {"question": "What is the area of <image>?", "answer": "48", "images": ["red.png"]},
        {"question": "What is half of 30?", "answer": "15", "images": []},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert cli("questions", "import", "q.jsonl", "--name", "q", "--db", "t.db").code == 0
    done = cli(
        *("neighbors", "propose", "q", "--name", "run", "--db", "t.db", "--n", "1", "--rounds", "1"),
        *("--model", "seeing", "--dtype", "float32", "--max-tokens", "8", "--content-attempts", "1"),
        *("--solver", "seeing", "--solver-dtype", "float32", "--solver-max-tokens", "4"),
    )
    assert done.code == 0, done.err  # asked once each; a random model proposes nothing
    with Database.open("t.db") as db:
        with db.write() as session:
            answered = session.execute(text("SELECT count(*) FROM cells WHERE state = 'filled'")).scalar_one()
            session.execute(text("UPDATE cells SET state = 'empty', outcome = NULL"))
            run = find_run(session, "run")
        spec = RunSpec.from_json(run.spec)
        assert answered == 2
        cells = proposer_cells(db, run.id, spec)
        assert cells is not None
        assert solver_cells(db, run.id, spec.solvers[0]) is None
        sampler = open_engine("local", "seeing", {"dtype": "float32"})

        def files(ids: tuple[str, ...]) -> list[bytes]:
            with db.read() as session:
                held = load_images(session, ids)
            return [held[id].data for id in ids]

        planned = plan_prompts(
            sampler._open().renderer,
            cells.prompt_of,
            cells.problems.values(),
            max_tokens=8,
            context=4000,
            files=files,
        )
    seeing, blind = (planned.by_problem[problem].prompt for problem in cells.problems)
    assert (seeing.pictures is None, blind.pictures is None) == (False, True)
    assert "<problem>\nWhat is the area of <|vision_start|>" in seeing.text
