"""`tideline pipelines`: a project of Spark Declarative Pipelines as views, by its spec."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import click
import typer
import typer.core

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


_LEFT_OUT = "tideline.pipelines.left_out"


class PipelineCommand(PrintingCommand):
    """A command that knows which columns datasets are kept without."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        words = (
            "A column that a dataset is kept without, such as the time of a run: silver_orders.processed_at."
        )
        option = typer.core.TyperOption(
            param_decls=["--leave-out"], multiple=True, expose_value=False, callback=_keep_columns, help=words
        )
        self.params.append(option)


def _keep_columns(context: click.Context, option: click.Parameter, columns: Sequence[str]) -> None:
    context.meta[_LEFT_OUT] = tuple(columns)


@pipelines.command(cls=PipelineCommand)
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


@pipelines.command(cls=PipelineCommand)
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
    arguments += [f"--leave-out={one}" for one in click.get_current_context().meta[_LEFT_OUT]]
    return [*arguments, *([f"--store={store}"] if store else [])]


def _execute(word: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", f"dagster_tideline.pipelines.{word}", *arguments])
