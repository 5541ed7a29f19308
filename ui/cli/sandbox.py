"""`tagrpo sandbox`: questions, candidates, score, pretrain, policy."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.settings import Db, Seed

if TYPE_CHECKING:
    from sandbox.pretraining import TrainingProgress
    from sandbox.scoring import Group, Score, Share


NewFolder = Annotated[Path, Argument(help="Folder to write. It must be empty.")]
World = Annotated[str, Option("--world", help="World, A to E; docs/studies/sandbox-world.md describes them.")]


def questions(
    folder: NewFolder,
    world: World = "A",
    seed: Seed = 0,
    train: Annotated[int, Option(help="Number of training questions.")] = 256,
    heldout: Annotated[int, Option(help="Number of evaluation questions.")] = 200,
    *,
    terminal: Terminal,
) -> None:
    """Write train.jsonl and heldout.jsonl: word problems with answers, each in one of eight phrasings.

    No combination of numbers occurs twice, and no sandbox policy was pre-trained on these problems.

    Example: tagrpo sandbox questions world-a --world A --seed 0
    """
    from sandbox.questions import HELDOUT_FILE, TRAIN_FILE, write_questions
    from sandbox.worlds import find_world

    write_questions(folder, find_world(world), seed, train, heldout)
    files = {"train_file": str(folder / TRAIN_FILE), "heldout_file": str(folder / HELDOUT_FILE)}
    terminal.emit(
        {**files, "train": train, "heldout": heldout},
        output.say,
        f"{folder / TRAIN_FILE}: {train:,} questions, for `tagrpo questions import`",
        f"{folder / HELDOUT_FILE}: {heldout:,} questions, for `tagrpo eval run`",
    )


def candidates(
    folder: Annotated[Path, Argument(help="Folder written by `tagrpo sandbox questions`.")],
    out: Annotated[Path, Option(help="File to write; the input of `rephrase run --candidates`.")],
    truth: Annotated[Path, Option(help="File to write with the true label of each candidate.")],
    per_question: Annotated[int, Option(help="Candidates per question, 1 to 7.")] = 4,
    broken: Annotated[float, Option(help="Share of broken candidates, 0 to 1.")] = 0.25,
    seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Write rephrasings of the training questions, a share of them deliberately broken.

    The errors are those that models make: a changed number, two exchanged numbers, a dropped condition, a
    reversed question, a leaked answer. The truth file lists each broken candidate and its error.

    Example: tagrpo sandbox candidates world-a --out candidates.jsonl --truth truth.jsonl --broken 0.25
    """
    from sandbox.candidates import draw_candidates
    from sandbox.questions import TRAIN_FILE, read_questions, write_rows
    from service.errors import InputError
    from service.writing import check_file_target

    if out == truth:
        raise InputError(f"{out}: --out and --truth must be two different files.")
    for target in (out, truth):
        check_file_target(target, overwrite=None)
    drawn = draw_candidates(read_questions(folder / TRAIN_FILE), per_question, broken, seed)
    write_rows(truth, [candidate.truth() for candidate in drawn])
    try:
        write_rows(out, [candidate.row() for candidate in drawn])
    except BaseException:
        truth.unlink()  # one without the other is of no use, and would be in the way of the next try
        raise
    number = sum(candidate.broken is not None for candidate in drawn)
    terminal.emit(
        {
            "candidates_file": str(out),
            "truth_file": str(truth),
            "candidates": len(drawn),
            "broken": number,
        },
        output.say,
        f"{out}: {len(drawn):,} candidates, for `tagrpo rephrase run proposer=file`",
        f"{truth}: the true labels; {number:,} candidates are broken",
    )


def score(
    run: Annotated[str, Argument(help="Name or id of the run that judged the candidates.")],
    truth: Annotated[Path, Option(help="Truth file written by `tagrpo sandbox candidates`.")],
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Report how many broken candidates a run caught, and by which check, and how many good ones it lost.

    Example: tagrpo sandbox score checked --truth truth.jsonl
    """
    from rephraser.run.start import find_neighbor_run
    from sandbox.scoring import read_truth, score_run

    truths = read_truth(truth)
    with db.open(read_only=True) as database, database.read() as session:
        result = score_run(session, find_neighbor_run(session, run), truths)
    terminal.emit(result.to_json(), _print_score, result)


def pretrain(
    folder: NewFolder,
    world: World = "A",
    seed: Seed = 0,
    threads: Annotated[
        int, Option(min=1, max=256, help="CPU threads; the same seed with 1 thread gives identical weights.")
    ] = 2,
    steps: Annotated[
        int | None, Option(min=1, help="Training steps; fewer steps make a worse policy.")
    ] = None,
    *,
    terminal: Terminal,
) -> None:
    """Pre-train a small policy from scratch on the CPU; this takes some minutes.

    Example: tagrpo sandbox pretrain policy-c --world C --seed 0 --threads 2
    """
    from sandbox.policy import pretrain_policy
    from sandbox.worlds import find_world
    from service.errors import Interrupted

    def report(progress: "TrainingProgress") -> None:
        if not terminal.as_json:
            output.say(
                f"step {progress.step:,} of {progress.steps:,}: loss {progress.loss:.4f}, "
                f"{progress.seconds:.0f} s"
            )

    try:
        record = pretrain_policy(
            folder, find_world(world), seed=seed, threads=threads, steps=steps, report=report
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; {folder} was not written, and running the command again starts from the beginning"
        ) from None
    terminal.emit(
        record,
        output.say,
        f"{folder}: {record['parameters']:,} parameters, weights sha256 {record['sha256'][:12]}",
    )


def policy(
    folder: NewFolder,
    world: Annotated[
        str, Option(help="World of the policy: A, or the control C. `tagrpo sandbox pretrain` makes others.")
    ] = "A",
    *,
    terminal: Terminal,
) -> None:
    """Write a policy that ships with tagrpo: a checkpoint for `train run`, `eval run` and `--solver`.

    Example: tagrpo sandbox policy policy-a
    """
    from sandbox.policy import write_shipped_policy
    from sandbox.worlds import find_world

    chosen = find_world(world)
    write_shipped_policy(folder, chosen)
    terminal.emit(
        {"folder": str(folder), "world": chosen.name},
        output.say,
        f"{folder}: a policy of world {chosen.name}; README.md describes its pre-training",
    )


def _print_score(result: "Score") -> None:
    from sandbox.scoring import OUTCOMES, groups_with_members

    output.say(f"run {result.run}: broken candidates rejected: {_in_words(result.broken.rejected)};")
    output.say(
        f"broken candidates not publishable (rejected or undecided): {_in_words(result.broken.kept_out)};"
    )
    output.say(f"good candidates rejected: {_in_words(result.good.rejected)};")
    output.say(f"good candidates not publishable: {_in_words(result.good.kept_out)}.")
    used = [
        outcome for outcome in OUTCOMES if result.broken.outcomes[outcome] or result.good.outcomes[outcome]
    ]
    for title, groups in (
        ("broken by", (*result.kinds, result.broken)),
        ("good, phrasing", (*result.phrasings, result.good)),
    ):
        output.say()
        output.table(
            [title, "candidates", *used, "share rejected"],
            [_row(group, used) for group in groups_with_members(groups)],
        )
    if result.unproposed:
        output.say()
        output.say(f"{result.unproposed:,} candidates of the truth file were not proposed in this run.")
    if result.unknown:
        output.note(f"{result.unknown:,} candidates of the run are not in {result.run}'s truth file")


def _row(group: "Group", used: list[str]) -> list[object]:
    counts = [group.outcomes[outcome] for outcome in used]
    return [group.name, sum(group.outcomes.values()), *counts, _in_words(group.rejected)]


def _in_words(share: "Share") -> str:
    if share.share is None:
        return "0 of 0"
    return f"{share.count:,} of {share.total:,} ({share.share:.1%}, 95% {share.low:.1%} to {share.high:.1%})"
