"""`tagrpo sets export` and `import`: a version as files, and files as a version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ui.cli import output
from ui.cli.output import DbOption, JsonOption
from ui.cli.sets import reports as set_reports

VERL_PANEL = "For --to verl"
HF_PANEL = "For --to hf"


def _verl(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=VERL_PANEL, **settings)


def export(
    context: typer.Context,
    reference: Annotated[
        str, typer.Argument(help="NAME@VERSION, NAME@TAG, NAME (its newest) or an id.", show_default=False)
    ],
    target: Annotated[Path, typer.Argument(help="Folder (hf, verl) or file to write.", show_default=False)],
    to: Annotated[
        Literal["hf", "jsonl", "parquet", "verl"],
        typer.Option(
            "--to", help="hf: data set with card; verl: training files; or one file.", show_default=False
        ),
    ],
    license_name: Annotated[
        str, typer.Option("--license", help="Licence identifier for card and manifest (cc-by-4.0, mit, ...).")
    ] = "other",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    push: Annotated[
        str | None,
        typer.Option(
            help="Push to this data-set repository (OWNER/NAME) of the Hub; HF_TOKEN in the environment.",
            show_default=False,
            rich_help_panel=HF_PANEL,
        ),
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Make a new repository public, else private.", rich_help_panel=HF_PANEL
        ),
    ] = False,
    layout: Annotated[
        Literal["grouped", "flat"], _verl(help="grouped: a row a question; flat: a row a prompt.")
    ] = "grouped",
    max_prompt_tokens: Annotated[
        int, _verl(min=1, help="Neighbors with longer prompts are left out and counted.")
    ] = 512,
    tokenizer: Annotated[
        str | None, _verl(help="Hub name or folder of the policy's tokenizer; else lengths are estimated.")
    ] = None,
    instruction: Annotated[
        str | None, _verl(help="Text below each question; else ours. '' for none.")
    ] = None,
    system: Annotated[str | None, _verl(help="System message; else none.")] = None,
    chat_template_kwargs: Annotated[
        str | None, _verl(help='JSON for the chat template, as {"enable_thinking": false}.')
    ] = None,
    data_source: Annotated[
        str, _verl(help="Name by which verl picks its reward function; by default the one for boxed answers.")
    ] = "DigitalLearningGmbH/MATH-lighteval",
    validation_share: Annotated[
        float, _verl(min=0, max=0.99, help="Share of the questions for validation.parquet.")
    ] = 0.0,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a version as a Hugging Face data set, JSON Lines, parquet, or training files for verl.

    What is written appears at one stroke, or not at all.
    Exports to hf, jsonl and parquet hold all of the content: `tagrpo sets import` gives the same hash.

    Exit code 1 (verl): prompts over the limit were left out.

    Example: [bold]tagrpo sets export math@1 --to hf out/math --license mit --push me/math-neighbors[/bold]

    Example: [bold]tagrpo sets export math@1 --to verl out/verl --tokenizer Qwen/Qwen3-4B[/bold]
    """
    _refuse_foreign_options(context, to)
    if to == "verl":
        template = {
            "instruction": instruction,
            "system": system,
            "tokenizer": tokenizer,
            "chat_template_kwargs": _parse_kwargs(chat_template_kwargs),
            "max_prompt_tokens": max_prompt_tokens,
        }
        _export_verl(
            db,
            reference,
            target,
            template={key: value for key, value in template.items() if value is not None},
            layout=layout,
            data_source=data_source,
            validation_share=validation_share,
            overwrite=overwrite,
            as_json=as_json,
        )
        return
    from rephraser import sets
    from service.database import Database, locate_database

    with (
        output.progress("export", quiet=as_json) as shown,
        Database.open(locate_database(db), create=False) as database,
    ):
        common: dict[str, Any] = {
            "license_name": license_name,
            "overwrite": overwrite,
            "report": lambda done, total: shown.update(done, total),
        }
        if to == "hf":
            report = sets.export_hf(database, reference, target, push=push, private=not public, **common)
        elif to == "jsonl":
            report = sets.export_jsonl(database, reference, target, **common)
        else:
            report = sets.export_parquet(database, reference, target, **common)
    if as_json:
        output.print_json(
            {
                "set": report.header.ref,
                "content_hash": report.header.content_hash,
                "to": to,
                "target": str(report.target),
                "questions": report.questions,
                "neighbors": report.neighbors,
                "neighbors_by_verdict": report.header.counts["neighbors_by_verdict"],
                "license": license_name,
                "pushed_to": report.pushed_to,
            }
        )
        return
    output.say(f"{report.header.ref} written to {report.target}")
    set_reports.print_counts(report.header)
    if to == "hf":
        output.say(f'load it with `datasets.load_dataset("{report.target}", split="train")`')
        if license_name == "other":
            output.note("the card says that no licence was stated; name one with --license")
    if report.pushed_to:
        output.say(f"pushed to {report.pushed_to}")


def import_(
    path: Annotated[
        Path, typer.Argument(help="Folder of an hf export, or a .parquet or .jsonl file.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="Name of the set here.", show_default=False)],
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Take rows that were edited after the export.")
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read an export back as the next version of a set; its content hash is that of the export.

    Questions and candidates that the database lacks are added.
    A version on the Hub comes down with `hf download --repo-type dataset OWNER/NAME --local-dir FOLDER`.

    Example: [bold]tagrpo sets import out/math --name math[/bold]
    """
    from rephraser import sets
    from service.database import Database, locate_database

    with Database.open(locate_database(db)) as database:
        published = sets.import_set(database, path, name, accept_changes=accept_changes)
    set_reports.announce(published, "imported", as_json=as_json)


def _export_verl(
    db: Path | None,
    reference: str,
    target: Path,
    *,
    template: Mapping[str, Any],
    as_json: bool,
    **settings: Any,
) -> None:
    from rephraser import sets
    from service.database import Database, locate_database
    from trainer_adapter.verl.export import export_verl
    from trainer_adapter.verl.prompts import PromptTemplate

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        found = sets.load_set(session, reference)
    header = found.header
    report = export_verl(
        found.entries,
        target,
        template=PromptTemplate(**template),
        set_ref=header.ref,
        content_hash=header.content_hash,
        **settings,
    )
    dropped = len(report.dropped_neighbors) + len(report.dropped_questions)
    if as_json:
        output.print_json(
            {
                "set": header.ref,
                "content_hash": header.content_hash,
                "to": "verl",
                "target": str(report.directory),
                "layout": report.layout,
                "questions": report.questions,
                "validation_questions": report.validation_questions,
                "neighbors": report.neighbors,
                "neighbors_by_verdict": dict(report.verdicts),
                "rows": report.rows,
                "dropped_neighbors": len(report.dropped_neighbors),
                "dropped_questions": len(report.dropped_questions),
                "neighbors_of_dropped_questions": report.neighbors_of_dropped_questions,
                "longest_prompt": report.longest_prompt,
                "lengths_estimated": report.lengths_estimated,
                "files": [str(file) for file in report.files],
            }
        )
    else:
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in report.verdicts.items())
        output.say(f"{header.ref} written to {report.directory} ({report.layout}, {report.rows:,} rows)")
        output.say(f"questions     {report.questions:,}, {report.validation_questions:,} more for validation")
        output.say(f"neighbors     {report.neighbors:,}: {verdicts or 'none'}")
        how = "estimated; name the policy's --tokenizer to count" if report.lengths_estimated else "counted"
        output.say(f"longest       {report.longest_prompt:,} tokens ({how})")
    if dropped:
        raise output.needs_attention(
            f"over the limit of tokens and left out: {len(report.dropped_neighbors):,} neighbors and "
            f"{len(report.dropped_questions):,} questions with their "
            f"{report.neighbors_of_dropped_questions:,} neighbors; manifest.json lists them."
        )


def _parse_kwargs(text: str | None) -> dict[str, Any] | None:
    import json

    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"--chat-template-kwargs {text!r} is not a JSON object")
    return value


def _refuse_foreign_options(context: typer.Context, to: str) -> None:
    """An option that the format does not know would be dropped in silence; refuse it."""
    hf_only = {"push", "public"}
    verl_only = {
        "layout",
        "max_prompt_tokens",
        "tokenizer",
        "instruction",
        "system",
        "chat_template_kwargs",
        "data_source",
        "validation_share",
    }
    foreign = (hf_only if to != "hf" else set()) | (verl_only if to != "verl" else {"license_name"})
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in foreign and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{option.opts[0]} does not go with --to {to}")
