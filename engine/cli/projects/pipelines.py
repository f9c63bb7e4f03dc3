"""`tideline pipelines`: a project of Spark Declarative Pipelines as views, by its spec."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.options import Output, Spark, Store, Wide
from engine.cli.printing import Format, PrintingCommand

pipelines = typer.Typer(
    no_args_is_help=True,
    help="A project of Spark Declarative Pipelines, as it is: its materialized views are kept up to date as views.",
)
Spec = Annotated[
    Path, typer.Argument(help="spark-pipeline.yml, or the folder that has it. Its Python files are run.")
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        help="The table of the store that stands for another, for files or for a dataset: raw.orders=orders, /data/items=items.",
    ),
]


@pipelines.command(cls=PrintingCommand)
def plan(
    spec: Spec,
    table: Tables = None,
    store: Annotated[
        str,
        typer.Option(
            help="A store whose tables are known, and on which the views are tried; nothing of it is changed."
        ),
    ] = "",
    output: Output = Format.table,
    wide: Wide = False,
) -> None:
    """Show as what each element of a pipeline is taken, or why not: 0 all are, 2 some are not, 1 nothing can be read."""
    _execute("plan", _list_arguments(spec, table, store, output, wide))


@pipelines.command(cls=PrintingCommand)
def run(
    spec: Spec,
    table: Tables = None,
    store: Store = "",
    output: Output = Format.table,
    spark: Spark = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and show what plan shows.")
    ] = False,
) -> None:
    """Make the views of a pipeline, bring all up to date, and show each: 0 all are, 2 some are not taken, 1 one fails."""
    if dry_run:
        from engine.cli.connections import choose_store

        _execute("plan", _list_arguments(spec, table, choose_store(store), output, False))
    arguments = _list_arguments(spec, table, store, output, False)
    _execute("run", [*arguments, *([f"--spark={spark}"] if spark else [])])


def _list_arguments(spec: Path, table: list[str] | None, store: str, output: Format, wide: bool) -> list[str]:
    arguments = [str(spec), f"--format={output.value}", *(["--wide"] if wide else [])]
    arguments += [f"--table={pair}" for pair in table or ()]
    return [*arguments, *([f"--store={store}"] if store else [])]


def _execute(word: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", f"dagster_tideline.pipelines.{word}", *arguments])
