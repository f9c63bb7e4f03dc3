"""`tideline dev`: servers that people try sources with, on this machine only."""

from __future__ import annotations

import signal
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.printing import show

dev = typer.Typer(no_args_is_help=True, help="Start servers to try sources with, on this machine only.")


@dev.callback()
def _dev() -> None:
    """Start servers to try sources with, on this machine only."""


@dev.command()
def kafka(
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1; 0 takes a free one.")] = 9092,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where its data stays; without it in a folder that goes with the broker."),
    ] = None,
) -> None:
    """Start a broker of Kafka on 127.0.0.1, print its address, and stop it at Ctrl-C; topics are made as they are written."""
    from engine.connectors.kafka.broker import KafkaBroker
    from engine.jars import fetch_kafka

    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tideline-kafka-")))
        fetch_kafka()
        broker = KafkaBroker(folder.resolve(), port, settings={"auto.create.topics.enable": "true"})
        stack.callback(broker.stop)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        broker.start()
        show(f"Kafka answers at {broker.address}; Ctrl-C ends it")
        ended = threading.Event()
        try:
            while not ended.wait(1.0):
                broker.require_running()
        except KeyboardInterrupt:
            show("Kafka is stopped")
