"""`tagrpo questions`: import, list, show, mix."""

import typer

app = typer.Typer(no_args_is_help=True, help="Import and look at questions.")
