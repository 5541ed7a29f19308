"""`tagrpo sets export` and `import`: a version as files, and files as a version."""

from pathlib import Path
from typing import Annotated, Literal

from typer import BadParameter, Option

from trainer_adapter.verl.export_config import VerlExportConfig
from ui.cli import exits
from ui.cli.configured import Verb
from ui.cli.files import Overwrite
from ui.cli.output import terminal
from ui.cli.sets.commands import show_published
from ui.cli.settings import db

FLAGS = {
    "--layout": "layout",
    "--tokenizer": "tokenizer",
    "--max-prompt-tokens": "max_prompt_tokens",
    "--instruction": "instruction",
}

EXPORTED = ("layout", "data_source", "answers", "strategies", "validation_share")


@Verb("export", VerlExportConfig, "set", FLAGS)
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
    from rephraser import sets

    if form == "verl" and license_name is not None:
        raise BadParameter("--license cannot be combined with --format verl")
    if form == "verl":
        _export_verl(config, out, overwrite)
        return
    if config.model_fields_set > {"set"}:
        raise BadParameter(f"settings for verl files cannot be combined with --format {form}")
    with terminal.progress("export") as bar, db.open() as database:
        header = sets.export_set(
            database,
            config.set,
            out,
            form,
            license_name=license_name or "other",
            overwrite=overwrite,
            report=bar.update,
        )
    record = {
        "set": header.ref,
        "content_hash": header.content_hash,
        "format": form,
        "out": out,
        **{key: header.counts[key] for key in ("questions", "neighbors", "neighbors_by_verdict")},
        "license": license_name or "other",
    }
    terminal.show(
        record,
        f'load it with `datasets.load_dataset("{out}", split="train")`' if form == "hf" else None,
        "the card states no license; set one with --license" if form == "hf" and not license_name else None,
    )


def _export_verl(config: VerlExportConfig, target: Path, overwrite: bool) -> None:
    from rephraser import sets
    from service.questions.images import image_loader
    from trainer_adapter.verl.export import export_verl

    template = config.template()
    with db.open(read_only=True) as database:
        with database.read() as session:
            published = sets.load_set(session, config.set)
        header = published.header
        report = export_verl(
            published.entries,
            target,
            template=template,
            set_ref=header.ref,
            content_hash=header.content_hash,
            **{name: getattr(config, name) for name in EXPORTED},
            load_images=image_loader(database),
            overwrite=overwrite,
        )
    numbers = dict(vars(report))
    record = {
        "set": header.ref,
        "content_hash": header.content_hash,
        "format": "verl",
        "out": numbers.pop("directory"),
        "chat_template_kwargs": template.chat_template_kwargs,
        "neighbors_by_verdict": numbers.pop("verdicts"),
        **numbers,
    }
    terminal.show(record)
    if report.dropped_neighbors or report.dropped_questions:
        raise exits.needs_attention(
            f"left out, over the limit of {template.max_prompt_tokens:,} tokens (--max-prompt-tokens): "
            f"{len(report.dropped_neighbors):,} neighbors and {len(report.dropped_questions):,} questions "
            f"with their {report.neighbors_of_dropped_questions:,} neighbors; manifest.json lists them."
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
    from rephraser import sets
    from service.runs.store import check_name

    read = sets.read_set(path, accept_changes=accept_changes)  # a wrong file or name leaves no new database
    check_name(name)
    with db.open(create=True) as database:
        published = sets.import_set(database, read, name)
    show_published(published)
