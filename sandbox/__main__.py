"""`python -m sandbox`: questions, candidates, score, pretrain, policy of the small world."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path

from service.errors import InputError, Interrupted, TagrpoError

USAGE, INTERRUPTED = 2, 130
"""Exit codes, as those of `tagrpo`."""


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    root = argparse.ArgumentParser("python -m sandbox", description="Create a small world of word problems.")
    commands = root.add_subparsers(dest="command", required=True)

    def add(
        name: str, help: str, folder: str = "Folder to write. It must be empty."
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help)
        if folder:
            command.add_argument("folder", type=Path, help=folder)
        return command

    def add_world(command: argparse.ArgumentParser, *, seed: bool = True) -> None:
        command.add_argument("--world", default="A", help="World, A to E; docs/studies/sandbox-world.md.")
        if seed:
            command.add_argument("--seed", type=int, default=0, help="Random seed.")

    command = add("questions", "Write train.jsonl and heldout.jsonl: word problems with answers.")
    add_world(command)
    command.add_argument("--train", type=int, default=256, help="Number of training questions.")
    command.add_argument("--heldout", type=int, default=200, help="Number of evaluation questions.")

    command = add(
        "candidates", "Write rephrasings, a share of them broken on purpose.", "Folder of questions."
    )
    command.add_argument("--out", type=Path, required=True, help="File of candidates, for proposer=file.")
    command.add_argument("--truth", type=Path, required=True, help="File with the label of each candidate.")
    command.add_argument("--per-question", type=int, default=4, help="Candidates per question, 1 to 7.")
    command.add_argument("--broken", type=float, default=0.25, help="Share of broken candidates, 0 to 1.")
    command.add_argument("--seed", type=int, default=0, help="Random seed.")

    command = add("score", "Report how many broken and good candidates a run rejected.", "")
    command.add_argument("run", help="Name or id of the run that judged the candidates.")
    command.add_argument("--truth", type=Path, required=True, help="Label file written by `candidates`.")
    command.add_argument("--db", help="Database. Default: as for tagrpo.")
    command.add_argument("--json", action="store_true", help="Print one JSON object instead of text.")

    command = add("pretrain", "Pre-train a small policy from scratch on the CPU, in a few minutes.")
    add_world(command)
    command.add_argument("--threads", type=int, default=2, help="CPU threads; 1 gives identical weights.")
    command.add_argument("--steps", type=int, help="Training steps; fewer steps make a worse policy.")

    add_world(add("policy", "Write a policy that ships with tagrpo, for world A or C."), seed=False)
    return root


def main(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    options = vars(parser().parse_args(arguments))
    try:
        COMMANDS[options.pop("command")](**options)
    except TagrpoError as error:
        print(f"error: {error}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, Interrupted) else USAGE
    return 0


def questions(folder: Path, world: str, seed: int, train: int, heldout: int) -> None:
    from sandbox.questions import HELDOUT_FILE, TRAIN_FILE, write_questions
    from sandbox.worlds import find_world

    write_questions(folder, find_world(world), seed, train, heldout)
    print(f"{folder / TRAIN_FILE}: {train:,} questions, for `tagrpo questions import`")
    print(f"{folder / HELDOUT_FILE}: {heldout:,} questions, for `tagrpo eval run`")


def candidates(folder: Path, out: Path, truth: Path, per_question: int, broken: float, seed: int) -> None:
    from sandbox.candidates import draw_candidates
    from sandbox.questions import TRAIN_FILE, json_lines, read_questions
    from service.writing import check_file_target, write_text

    if out == truth:
        raise InputError(f"{out}: --out and --truth must be two different files.")
    for target in (out, truth):
        check_file_target(target, overwrite=None)
    drawn = draw_candidates(read_questions(folder / TRAIN_FILE), per_question, broken, seed)
    write_text(truth, json_lines(candidate.truth() for candidate in drawn), overwrite=None)
    try:
        write_text(out, json_lines(candidate.row() for candidate in drawn), overwrite=None)
    except BaseException:
        truth.unlink()  # one without the other is of no use, and would be in the way of the next try
        raise
    number = sum(candidate.broken is not None for candidate in drawn)
    print(f"{out}: {len(drawn):,} candidates, for `tagrpo rephrase run proposer=file`")
    print(f"{truth}: the true labels; {number:,} candidates are broken")


def score(run: str, truth: Path, db: str | None, json: bool) -> None:
    from rephraser.candidates import find_neighbor_run
    from sandbox.scoring import read_truth, score_run
    from service.database import Database, locate_database

    truths = read_truth(truth)
    with Database.open(locate_database(db), read_only=True) as database, database.read() as session:
        result = score_run(session, find_neighbor_run(session, run), truths)
    print(dumps(asdict(result), indent=2) if json else result.as_text())


def pretrain(folder: Path, world: str, seed: int, threads: int, steps: int | None) -> None:
    from sandbox.policy import pretrain_policy
    from sandbox.worlds import find_world

    try:
        record = pretrain_policy(
            folder,
            find_world(world),
            seed=seed,
            threads=threads,
            steps=steps,
            report=lambda at: print(
                f"step {at.step:,} of {at.steps:,}: loss {at.loss:.4f}, {at.seconds:.0f} s", flush=True
            ),
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; {folder} was not written, and running the command again starts from the beginning"
        ) from None
    print(f"{folder}: {record['parameters']:,} parameters, weights sha256 {record['sha256'][:12]}")


def policy(folder: Path, world: str) -> None:
    from sandbox.policy import write_shipped_policy
    from sandbox.worlds import find_world

    chosen = find_world(world)
    write_shipped_policy(folder, chosen)
    print(f"{folder}: a policy of world {chosen.name}; README.md describes its pre-training")


COMMANDS: dict[str, Callable[..., None]] = {
    "questions": questions,
    "candidates": candidates,
    "score": score,
    "pretrain": pretrain,
    "policy": policy,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
