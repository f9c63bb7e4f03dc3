"""`tideline dbt`: a dbt project as models, by its manifest."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.options import Output, Wide
from engine.cli.printing import Format, PrintingCommand

dbt = typer.Typer(no_args_is_help=True, help="A dbt project whose models become views, by its manifest.")


@dbt.callback()
def _group_commands() -> None:
    """Make `dbt` a word before its commands, of which there is one."""


@dbt.command(cls=PrintingCommand)
def plan(
    manifest: Annotated[
        Path, typer.Argument(help="target/manifest.json, after `dbt compile --full-refresh`.")
    ],
    select: Annotated[
        list[str] | None, typer.Option(help="tag:nightly, path:models/marts, +orders; all without it.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="What is not taken, tests as well.")] = None,
    store: Annotated[
        str, typer.Option(help="A store on which the models are tried too; nothing of it is changed.")
    ] = "",
    output: Output = Format.table,
    wide: Wide = False,
) -> None:
    """Show as what each node of a dbt project is taken, or why not: 0 all models are, 2 some are not, 1 nothing can be read."""
    arguments = [str(manifest), f"--format={output.value}", *(["--wide"] if wide else [])]
    arguments += [f"--select={text}" for text in select or ()]
    arguments += [f"--exclude={text}" for text in exclude or ()]
    arguments += [f"--store={store}"] if store else []
    os.execv(sys.executable, [sys.executable, "-m", "dagster_tideline.dbt.plan", *arguments])
