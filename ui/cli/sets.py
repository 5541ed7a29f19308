"""`tagrpo sets`: publish, list, show, tag, export and import versions."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from trainer_adapter.verl.export_config import VerlExportConfig
from ui.cli import output
from ui.cli.configs import Verb
from ui.cli.lazy import lazy_imports
from ui.cli.output import terminal
from ui.cli.settings import Overwrite, db, resume_command

with lazy_imports():
    from rephraser import config as rephrase_config
    from rephraser.sets import changes, reimport, types
    from rephraser.sets import export as exports
    from rephraser.sets import publish as publishing
    from rephraser.sets import store as set_store
    from service.runs import store
    from trainer_adapter.verl import export as verl_export

Reference = Annotated[str, Argument(help="NAME (its newest version), NAME@VERSION, NAME@TAG, or an id.")]
USUAL_G = 8


def publish(
    name: str,
    run: Annotated[list[str], Option()],
    n: Annotated[int | None, Option("--n", min=1)] = None,
    adaptive: Annotated[int | None, Option(min=2)] = None,
    pilot: str | None = None,
    prefer: Literal["any", "easier", "harder", "level"] = "any",
    min_distance: Annotated[float | None, Option(min=0, max=1)] = None,
    include: list[str] | None = None,
    strategy: list[str] | None = None,
    model: list[str] | None = None,
    only_with_neighbors: bool = False,
    dry_run: bool = False,
) -> None:
    """Publish the neighbors of runs as the next, immutable version of a set.

    For every question it chooses accepted candidates, the most differently worded first. Questions without
    neighbors stay and are trained alone. The same content creates no new version.

    Exit code 3: a run is not finished, so the set may lack neighbors.

    Example: tagrpo sets publish math --run math-gpt4 --n 3

    Args:
        name: Name of the set.
        run: Name or id of a run to publish from.
        n: Maximum neighbors per question. Default: all that qualify.
        adaptive: Give neighbors only to questions that probably yield no gradient in groups of this size.
        pilot: With --adaptive: eval run that gives the success rates. Default: the answers for the verdicts.
        prefer: Neighbors to prefer, by success rate compared with the question's.
        min_distance: Minimum distance in wording between texts. Default: 0.15; 0 for runs by rules.
        include: Also include unverified, undecided or rejected candidates, ranked after accepted ones.
        strategy: Only neighbors from this strategy.
        model: Only neighbors from this model.
        only_with_neighbors: Leave out questions without neighbors.
        dry_run: Publish nothing; show the content and the expected yield of other choices.
    """
    if pilot is not None and adaptive is None:
        raise BadParameter("--pilot requires --adaptive")
    with db.open() as database:
        with database.read() as session:
            runs = [store.find_run(session, reference) for reference in run]
            if min_distance is None:
                proposers = (str(source.spec.get("proposer")) for source in runs)
                min_distance = rephrase_config.usual_distance(proposers)
            selection = publishing.Selection(
                n=n,
                include=("accepted", *dict.fromkeys(include or ())),
                strategies=tuple(strategy or ()),
                models=tuple(model or ()),
                only_with_neighbors=only_with_neighbors,
                min_distance=min_distance,
                prefer=prefer,
                adaptive=None if adaptive is None else publishing.Adaptive(adaptive, pilot=pilot),
            )
            if dry_run:
                terminal.show(publishing.draft(session, run, selection).to_json(adaptive or USUAL_G))
        if not dry_run:
            _show_published(publishing.publish(database, name, run=run, selection=selection))
    if unfinished := [source.name for source in runs if source.finished_at is None]:
        raise output.needs_attention(
            f"run {' and '.join(unfinished)} is not finished. Finish it with "
            f"{resume_command(unfinished[0])}, then publish again."
        )


def list_(name: Annotated[str | None, Argument()] = None) -> None:
    """List the published versions with their counts and tags.

    Example: tagrpo sets list

    Args:
        name: Only versions of this set.
    """
    with db.reading() as session:
        if name is not None:
            set_store.find_set(session, name)
        headers = set_store.list_sets(session, name)
    terminal.rows(
        "sets",
        [_header_record(header) for header in headers],
        "set questions=counts.questions neighbors=counts.neighbors "
        "accepted=counts.neighbors_by_verdict.accepted unverified=counts.neighbors_by_verdict.unverified "
        "tags hash=content_hash published=created_at",
        empty="no neighbor sets yet; publish one with `tagrpo sets publish NAME --run RUN`",
    )


def show(
    reference: Reference,
    limit: Annotated[int, Option(min=0)] = 0,
    first: Annotated[int, Option(min=0)] = 0,
    diff: Annotated[str | None, Option(metavar="REFERENCE")] = None,
    verify: bool = False,
) -> None:
    """Show a version: hash, counts, acceptance rate, provenance and some of its questions.

    Exit code 3 (--verify): the version differs from its published content.

    Example: tagrpo sets show math@2 --diff math@1

    Args:
        limit: Number of questions to show.
        first: First question to show, counted from 0.
        diff: Show the changes from this other version to the one shown.
        verify: Recompute the hash from the members and compare it with the published one.
    """
    if diff is not None and verify:
        raise BadParameter("give only one of --diff and --verify")
    with db.reading() as session:
        header = set_store.find_set(session, reference)
        record = {**_header_record(header), "spec": header.spec}
        if diff is not None:
            record = changes.diff(session, diff, reference)
        elif verify:
            report = set_store.verify(session, reference)
            record = {"set": header.ref, "ok": not report.problems, "content_hash": header.content_hash}
            record |= {"derived_hash": report.derived_hash, "problems": report.problems}
        elif limit:
            places = range(first, min(first + limit, header.counts["questions"]))
            record["entries"] = set_store.load_entries(session, header.id, places)
    terminal.show(record)
    if not record.get("ok", True):
        raise output.needs_attention(f"{header.ref}: differs from its published content; do not train on it.")


def tag(
    reference: Reference, tag_name: Annotated[str, Argument(metavar="TAG")], remove: bool = False
) -> None:
    """Point a tag, new or existing, to a version; NAME@TAG then refers to that version.

    Example: tagrpo sets tag math@2 paper

    Args:
        tag_name: Name of the tag.
        remove: Remove the tag from the set.
    """
    with db.writing() as session:
        header = set_store.find_set(session, reference)
        if remove:
            set_store.untag(session, header.name, tag_name)
        else:
            set_store.tag(session, header.id, tag_name)
        header = set_store.find_set(session, header.id)
    terminal.show({"set": header.ref, "id": header.id, "tags": header.tags})


def _header_record(header: "types.SetHeader") -> dict[str, Any]:
    described = {name: value for name, value in vars(header).items() if name != "spec"}
    rates = set_store.accept_rates(header.counts.get("proposals", []))
    return {"set": header.ref, **described, "accept_rates": rates}


def _show_published(published: "types.PublishedSet") -> None:
    record = {**_header_record(published.header), "created": published.created, "same_as": published.same_as}
    known = None if published.created else f"unchanged: {published.header.ref} already has this content"
    terminal.show(record, known)


@Verb(VerlExportConfig, "set", "--layout --tokenizer --max-prompt-tokens --instruction")
def export(
    config: VerlExportConfig,
    *,
    out: Annotated[Path, Option()],
    form: Annotated[Literal["hf", "jsonl", "parquet", "verl"], Option("--format")],
    license_name: Annotated[str | None, Option("--license")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a version as a Hugging Face dataset, JSON Lines, parquet, or training files for verl.

    `tagrpo sets import` reads exports to hf, jsonl and parquet back, with the same hash. --layout,
    --tokenizer, --max-prompt-tokens, --instruction and KEY=VALUE apply only to verl.

    Exit code 3 (verl): prompts over the limit were left out.

    Example: tagrpo sets export math@1 --format hf --out out/math

    Example: tagrpo sets export math@1 --format verl --out out/verl --tokenizer Qwen/Qwen3-4B

    Args:
        out: Folder (hf, verl) or file to write.
        form: hf: dataset with card; verl: training files; otherwise one file.
        license_name: License identifier for card and manifest (cc-by-4.0, mit, ...).
    """
    if form == "verl":
        if license_name is not None:
            raise BadParameter("--license cannot be combined with --format verl")
        _export_verl(config, out, overwrite)
        return
    if config.model_fields_set > {"set"}:
        raise BadParameter(f"settings for verl files cannot be combined with --format {form}")
    license = license_name or "other"
    with db.open() as opened:
        header = exports.export_set(opened, config.set, out, form, license_name=license, overwrite=overwrite)
    record = {"set": header.ref, "content_hash": header.content_hash, "format": form, "out": out}
    record |= {key: header.counts[key] for key in ("questions", "neighbors", "neighbors_by_verdict")}
    terminal.show(
        {**record, "license": license},
        f'load it with `datasets.load_dataset("{out}", split="train")`' if form == "hf" else None,
        "the card states no license; set one with --license" if form == "hf" and not license_name else None,
    )


def _export_verl(config: VerlExportConfig, target: Path, overwrite: bool) -> None:
    with db.open(read_only=True) as database:
        manifest = verl_export.export_set(database, config, target, overwrite=overwrite)
    counts = dict(manifest["counts"])
    record = {"set": manifest["set"], "content_hash": manifest["content_hash"], "format": "verl"}
    record |= {"out": target, "neighbors_by_verdict": counts.pop("verdicts")}
    record["chat_template_kwargs"] = manifest["prompt"]["chat_template_kwargs"]
    record |= {"layout": manifest["layout"], **counts}
    record["lengths_estimated"] = manifest["prompt_lengths"] == "estimated"
    terminal.show(record | {"files": [target / name for name in manifest["sha256"]]})
    neighbors, questions = counts["dropped_neighbors"], counts["dropped_questions"]
    if neighbors or questions:
        raise output.needs_attention(
            f"left out, over the limit of {config.max_prompt_tokens:,} tokens (--max-prompt-tokens): "
            f"{len(neighbors):,} neighbors and {len(questions):,} questions with their "
            f"{counts['neighbors_of_dropped_questions']:,} neighbors; manifest.json lists them."
        )


def import_(path: Path, name: Annotated[str, Option()], accept_changes: bool = False) -> None:
    """Import an export as the next version of a set; its content hash is that of the export.

    Download a version from the Hub with `hf download --repo-type dataset OWNER/NAME --local-dir FOLDER`.

    Example: tagrpo sets import out/math --name math

    Args:
        path: Folder of an hf export, or a .parquet or .jsonl file.
        name: Name of the set in this database.
        accept_changes: Accept rows that were edited after the export.
    """
    read = reimport.read_set(path, accept_changes=accept_changes)
    store.check_name(name)  # a wrong file or name leaves no new database
    with db.open(create=True) as database:
        published = reimport.import_set(database, read, name)
    _show_published(published)
