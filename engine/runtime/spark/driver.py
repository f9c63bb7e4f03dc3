"""A Spark that is started in this process: the settings of its master, and what a start leaves as it was."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.runtime.spark.connect import LOOPBACK
from engine.runtime.spark.masters import (
    build_start_error,
    build_start_settings,
    check_answers,
    is_local,
    read_driver_memory,
)
from engine.runtime.spark.ui import build_ui_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_driver(master: str, settings: Mapping[str, str]) -> SparkSession:
    """Start a Spark of a master in this process and return its first session, which begins with `settings`.

    Raises EnvironmentNotReady where the master does not answer, or where `build_start_settings` does.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    memory = read_driver_memory()
    check_answers(master)
    own = build_start_settings(master)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with _ignore_remote(), _keep_interrupts():
        builder = SparkSession.builder.master(master).appName("tideline")
        builder = builder.config("spark.driver.memory", memory)
        for key, value in {**own, **build_ui_settings(os.environ), **settings}.items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except Py4JError as error:
            if is_local(master):
                raise
            raise build_start_error(master, error) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _ignore_remote() -> Iterator[None]:
    """Let a master that was asked for be taken where SPARK_REMOTE names a server, too: Spark refuses the two together."""
    remote = os.environ.pop("SPARK_REMOTE", None)
    try:
        yield
    finally:
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote


@contextmanager
def _keep_interrupts() -> Iterator[None]:
    """Let a process that handles interrupts by itself go on to: Spark would raise KeyboardInterrupt in the place of its error."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        own = before not in (signal.default_int_handler, None)
        if own and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
