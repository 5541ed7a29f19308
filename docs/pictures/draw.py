"""Draws the pictures of the documentation: views of the shipped demo in Chromium, as WebP beside this file.

    python docs/pictures/draw.py [--db FILE] [--to FOLDER]

Needs the developer tools and Chromium (`make test FULL=1` sets both up; TAGRPO_CHROMIUM names another one).
"""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "tests" / "support")]

from page_view import FLAGS, View, chromium, served, ui_command  # noqa: E402

MOST_BYTES = 200_000
WIDTH, SCALE = 1240, 1.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw all pictures; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--db", type=Path, help="another database than the shipped demo")
    parser.add_argument("--to", type=Path, default=HERE, help="folder of the pictures")
    options = parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright

    from ui.shipped_demo.unpacking import shipped_demo

    database = (options.db or shipped_demo()[0]).resolve()
    path = chromium()
    if path is None:
        parser.error("no Chromium; install it, or name one with TAGRPO_CHROMIUM")
    shown = ("--db", str(database)) if options.db else ("--demo",)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for name, view_at, height in views(database):
            more = ("--review",) if name == "review" else ()
            with served(ui_command(*shown, *more, "--no-token"), folder=HERE) as url:
                context = browser.new_context(
                    viewport={"width": WIDTH, "height": height}, device_scale_factor=SCALE
                )
                view = View(context.new_page(), url).open(view_at)
                view.tab.wait_for_function("() => document.fonts.status === 'loaded'")
                view.draw_charts()
                view.check()
                write(view, options.to / f"{name}.webp")
                context.close()
        browser.close()
    return 0


def views(database: Path) -> list[tuple[str, str, int]]:
    """Return name, address and height of each picture; what they show is found in the database."""
    from rephraser.views.questions import QuestionFilters, page_questions
    from service.database import Database
    from service.runs.store import list_runs
    from trainer_adapter.record.groups import GroupFilters
    from trainer_adapter.record.runs import open_record

    with Database.open(database, read_only=True) as opened, opened.read() as session:
        runs = list_runs(session)
        listed = page_questions(session, QuestionFilters(status="rejected"), limit=100).questions
        # The more verdicts a question's neighbors have, the more there is to see.
        question = max(listed, key=lambda one: (len(one.candidates), one.candidates.get("accepted", 0)))
        training = next(run for run in reversed(runs) if run.kind == "train")
        mixed = open_record(session, training).counts().page_groups(GroupFilters(kind="mixed"), limit=1000)
        group = max(mixed, key=lambda one: (one.prompts, one.step, one.question_id))
        shown = f"q={group.question_id}&at={group.step}&r0=1&r1=1&shade=1"  # two are read, tokens shaded
        proposed = next(run for run in runs if run.kind == "propose")
    return [
        ("question", f"/questions?id={question.question.id}&show=accepted", 890),
        ("curves", "/curves", 980),
        ("rollouts", f"/rollouts?run={training.name}&{shown}", 1120),
        ("signal", "/signal", 900),
        ("review", f"/review?run={proposed.name}&reviewer=ada", 640),
    ]


def write(view: Any, target: Path) -> None:
    """Write what is shown as WebP, as fine as `MOST_BYTES` allow."""
    from PIL import Image

    picture = Image.open(io.BytesIO(view.tab.screenshot())).convert("RGB")
    for quality in (88, 80, 70, 60, 50):
        out = io.BytesIO()
        picture.save(out, "WEBP", quality=quality, method=6)
        if out.tell() <= MOST_BYTES:
            break
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(out.getvalue())
    print(f"{target.name}: {picture.width} x {picture.height}, quality {quality}, {out.tell():,} bytes")


if __name__ == "__main__":
    sys.exit(main())
