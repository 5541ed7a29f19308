"""Recipes on a real model, on GPUs that are lent for a quarter of an hour at a time.

`real_model.md` is the plan: what is compared, by which rule, and what will be said. `prepare` packs weights,
packages and questions into pieces. `run`, on the machine with the GPU, unpacks them, checks the rewrites,
evaluates the model, trains in pairs, evaluates again, and stops before `--seconds` are over. What an earlier
machine finished is skipped, if its rows are packed. `report` prints the tables.

    python -m benchmarks.studies.real_model prepare TRAVEL --checkpoint FILE.gguf --data shared/data \
        --rewrites rewrites.jsonl --wheels wheels    # --set set.tar --rows rows.jsonl of earlier machines
    python -m benchmarks.studies.real_model run TRAVEL PLACE --out OUT --seconds 780
    python -m benchmarks.studies.real_model report OUT/rows.jsonl

`prepare TRAVEL --tiny` packs the sandbox's policy instead: the same way on a CPU, in minutes.

A row of `rows.jsonl` is a problem after a training (step 0: before any): how many of `drawn` responses are
`correct`, and `boxed` by strict grading. Rows of benchmark `training` are steps: how many responses were
rewarded. `responses` is what the training drew until then.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import DATA, ROOT, read_jsonl, write_jsonl
from benchmarks.studies.real_model_pack import collect_packages, pack, unpack
from benchmarks.studies.real_model_plan import GSM8K, POOL, REAL, TINY
from benchmarks.studies.real_model_stages import OutOfTime, Study, StudyError, child_environment, lock_of


def prepare(given: argparse.Namespace) -> None:
    """Pack everything that travels; weights and packages that were packed before may be left out."""
    folder = given.travel / "staging"
    shutil.rmtree(folder, ignore_errors=True)
    job = folder / "job"
    (job / "benchmarks").mkdir(parents=True)
    (job / "size.json").write_text(json.dumps({"tiny": given.tiny}), encoding="utf-8")
    if given.rows:
        shutil.copy(given.rows, job / "rows.jsonl")
    if given.set:
        shutil.copy(given.set, job / "set.tar")
    model = folder / "model"
    if given.tiny:
        stage_sandbox(job, model)
    else:
        stage_questions(job, given.data, given.rewrites)
    if given.checkpoint:
        model.mkdir()
        (model / given.checkpoint.name).symlink_to(given.checkpoint.resolve())
    pack(given.travel, "job", job, compress=True)
    if model.exists():
        pack(given.travel, "model", model, compress=False)
    if given.wheels:
        collect_packages(given.wheels, folder / "site")
        pack(given.travel, "site", folder / "site", compress=True)
    shutil.rmtree(folder)
    pieces = sorted(given.travel.iterdir())
    print("\n".join(f"{piece.stat().st_size / 2**20:7.1f} MiB  {piece}" for piece in pieces))
    print(f"run there: python -m {__spec__.name} run {given.travel} PLACE --out OUT --seconds 780")


def stage_questions(job: Path, data: Path, rewrites: Path) -> None:
    """Write the pool of training questions, its rewrites, and the benchmarks.

    Args:
        data: the folder with math_train.jsonl, math500.jsonl and gsm8k_test.jsonl.
        rewrites: JSON Lines with `original_question` and `question`, a line per rewrite.
    """
    texts: dict[str, list[str]] = {}
    for row in read_jsonl(rewrites):
        texts.setdefault(row["original_question"].strip(), []).append(row["question"])
    pool = [
        {"question": row["question"], "answer": row["answer"]}
        for row in read_jsonl(data / "math_train.jsonl")
        if row["level"][-1] in "123" and row["answer"] and row["question"].strip() in texts
    ]
    pool = random.Random(0).sample(pool, min(POOL, len(pool)))
    write_jsonl(job / "pool.jsonl", pool)
    candidates = [{"question": row["question"], "candidates": texts[row["question"].strip()]} for row in pool]
    write_jsonl(job / "candidates.jsonl", candidates)
    gsm8k = random.Random(0).sample(read_jsonl(data / "gsm8k_test.jsonl"), GSM8K)
    for name, rows in (("math500", read_jsonl(data / "math500.jsonl")), ("gsm8k", gsm8k)):
        problems = [{"id": row["id"], "problem": row["question"], "answer": row["answer"]} for row in rows]
        write_jsonl(job / "benchmarks" / f"{name}.jsonl", problems)


def stage_sandbox(job: Path, model: Path) -> None:
    """Write the same from the sandbox's world A, with a quarter of the rewrites broken."""

    def sandbox(*words: str) -> None:
        command = [sys.executable, "-m", "sandbox", *words]
        subprocess.run(command, check=True, env=child_environment(), stdout=subprocess.DEVNULL)

    questions = job / "questions"
    sandbox("policy", str(model))
    sandbox("questions", str(questions), "--train", "12", "--heldout", "24")
    candidates = ("--out", str(job / "candidates.jsonl"), "--per-question", "3", "--broken", "0.25")
    sandbox("candidates", str(questions), *candidates, "--truth", str(questions / "truth.jsonl"))
    shutil.move(questions / "train.jsonl", job / "pool.jsonl")
    heldout = read_jsonl(questions / "heldout.jsonl")
    write_jsonl(job / "benchmarks" / "first.jsonl", heldout[::2])
    write_jsonl(job / "benchmarks" / "second.jsonl", heldout[1::2])
    shutil.rmtree(questions)


def make_policy(place: Path) -> None:
    """Turn the checkpoint that travelled into `place/policy`; a GGUF file becomes bfloat16."""
    policy, (first, *_) = place / "policy", sorted((place / "model").iterdir())
    if policy.exists():
        return
    if first.suffix != ".gguf":
        policy.symlink_to((place / "model").resolve())
        return
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, file, partial = str(first.parent), first.name, place / "policy.partial"
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.bfloat16)
    model.save_pretrained(partial)
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(partial)
    partial.rename(policy)


def run(given: argparse.Namespace) -> int:
    """Unpack and go through the study; return the exit code."""
    deadline = time.monotonic() + given.seconds
    unpack(given.travel, given.place)
    site = (given.place / "site").resolve()
    if site.exists() and str(site) not in os.environ.get("PYTHONPATH", ""):
        compileall.compile_dir(site, quiet=2, workers=0)  # else many processes compile the same at once
        os.environ["PYTHONPATH"] = os.pathsep.join((str(site), str(ROOT)))
        words = [*sys.argv[1:], "--seconds", f"{deadline - time.monotonic():.0f}"]
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *words])
    lock_of(given.place)
    make_policy(given.place)
    archive, exported = given.place / "job" / "set.tar", given.place / "set"
    if archive.exists() and not exported.exists():
        shutil.unpack_archive(archive, exported.with_suffix(".partial"))
        exported.with_suffix(".partial").rename(exported)
    tiny = json.loads((given.place / "job" / "size.json").read_text(encoding="utf-8"))["tiny"]
    study = Study(TINY if tiny else REAL, given.place, given.out, deadline)
    try:
        study.carry_out(given.pairs)
    except OutOfTime as stop:
        print(f"out of time: {stop}")
    except StudyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("prepare", help="pack weights, packages and questions into pieces")
    packing.add_argument("travel", type=Path, help="folder for the pieces")
    packing.add_argument("--tiny", action="store_true", help="the sandbox's policy, for a CPU")
    packing.add_argument("--checkpoint", type=Path, help="GGUF file")
    packing.add_argument("--data", type=Path, default=DATA, help="folder with MATH and GSM8K as JSON Lines")
    packing.add_argument("--rewrites", type=Path, help="JSON Lines: original_question, question")
    packing.add_argument("--wheels", type=Path, help="folder of wheels that the machine lacks")
    packing.add_argument("--set", type=Path, help="set.tar of an earlier machine")
    packing.add_argument("--rows", type=Path, help="rows.jsonl of earlier machines")
    packing.set_defaults(work=prepare)
    running = commands.add_parser("run", help="unpack, train and evaluate until the time is over")
    running.add_argument("travel", type=Path, help="folder with the pieces")
    running.add_argument(
        "place",
        type=lambda text: Path(text).resolve(),
        help="folder for everything large; run again there to resume",
    )
    running.add_argument("--out", type=Path, required=True, help="folder for the results, under 16 MiB")
    running.add_argument("--seconds", type=float, default=780.0, help="time until it has stopped [780]")
    running.add_argument("--pairs", type=int, help="stop after this many pairs")
    running.set_defaults(work=run)
    reporting = commands.add_parser("report", help="print the tables")
    reporting.add_argument("rows", type=Path)
    reporting.set_defaults(work=report)
    given = parser.parse_args(words)
    if given.work is prepare and not given.tiny:
        if given.rewrites is None:
            parser.error("prepare takes --rewrites, or --tiny")
        if given.checkpoint is None and not (given.travel / "model.sha256").exists():
            parser.error("no weights are packed yet: name them with --checkpoint")
    return int(given.work(given) or 0)


def report(given: argparse.Namespace) -> None:
    """Print the tables of `rows.jsonl`."""
    from benchmarks.studies.real_model_report import tables  # `run` has no such packages before it unpacks

    print("\n".join(tables(read_jsonl(given.rows))))


if __name__ == "__main__":
    sys.exit(main())
