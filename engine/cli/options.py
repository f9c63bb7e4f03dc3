"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.printing import Format

Key = Annotated[
    list[str] | None,
    typer.Argument(help="The values of its key in their order, or column=value; NULL is null."),
]
At = Annotated[str, typer.Option("--at", help="An epoch, or a time (UTC); default the newest.")]
Store = Annotated[
    str,
    typer.Option(
        "--store",
        help="Address of the store: file:///path or s3://bucket/prefix.  [TIDELINE_STORE, TIDELINE_BRANCH]",
    ),
]
Output = Annotated[
    Format,
    typer.Option(
        "--format", help="How the result is printed; csv and json have plain numbers. --json: --format json."
    ),
]
Wide = Annotated[bool, typer.Option("--wide", help="All columns, whatever the width; epochs as numbers too.")]
Spark = Annotated[
    str,
    typer.Option(
        "--spark",
        help="local[2], spark://…, k8s://… or sc://host:port; default SPARK_REMOTE, the Spark of `make up`, local[*].",
    ),
]
