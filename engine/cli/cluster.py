"""`tideline cluster`: what a Spark on other machines needs, an archive for its workers and the settings of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

cluster = typer.Typer(
    no_args_is_help=True, help="What a Spark on other machines needs: an archive for workers, settings."
)


@cluster.command()
def pack(
    file: Annotated[Path, typer.Argument(help="The archive to write, ….tar.gz; TIDELINE_PACKED names it.")],
    python: Annotated[
        str,
        typer.Option(help="Where workers have this minor version of Python; by default where it is here."),
    ] = "",
) -> None:
    """Write an archive of the engine and of the packages that its tasks import, for executors to unpack."""
    from engine.runtime.spark.packing import pack_archive

    size = pack_archive(file, python or None)
    typer.echo(f"{file}: {size / 1e6:.0f} MB; set TIDELINE_PACKED={file.resolve()}")


@cluster.command()
def settings(
    master: Annotated[str, typer.Argument(help="spark://host:port, k8s://https://host:port, local[*].")],
) -> None:
    """Print the settings of a Spark of a master, as a file of properties: a Spark Connect server is started with it."""
    from engine.runtime.spark.session import build_server_settings

    for key, value in build_server_settings(master).items():
        typer.echo(f"{key} {value}")
