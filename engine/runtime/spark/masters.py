"""The settings that a Spark is started with, by the kind of its master: local, standalone, Kubernetes or another cluster."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

from engine.errors import EnvironmentNotReady
from engine.jars import find_jar_paths
from engine.runtime.spark.connect import ANSWER_SECONDS, LOOPBACK, LOOPBACK_NAMES
from engine.runtime.spark.local_java import build_cluster_settings, build_driver_settings

DRIVER_HOST = "TIDELINE_DRIVER_HOST"
DRIVER_BIND = "TIDELINE_DRIVER_BIND"
PACKED = "TIDELINE_PACKED"
PACKED_PYTHON = "environment/bin/python"
"""Where an executor finds the Python of an archive that was unpacked for it."""
CLASS_CACHE = "spark.sql.codegen.cache.maxEntries"
CLASSES_OF_SPARK, CLASSES = 100, 10_000
"""How many generated classes Spark keeps by itself, and here: a project of fifteen views has more than 100, and would compile
its prepared plans again in each epoch."""
HANDED_ON = ("TIDELINE_VERIFY",)
"""Variables that tasks on other machines read as well; those of a bucket are each machine's own."""
STATIC_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    "spark.python.daemon.module": "engine.runtime.spark.worker_daemon",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    CLASS_CACHE: str(CLASSES),
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}
"""Fair: the tasks of a large job do not all go before those of a small one. Unix domain sockets: over TCP each job of Python
bodies waits some 40 ms for a delayed acknowledgement. Debugging: PySpark notes for each function of a column who called it,
half a millisecond each time. Explain mode: Spark writes the plan of each job as a text, whether anybody looks at it or not.
"""
LOCAL = re.compile(r"local(\[.*\])?")
"""The masters whose tasks run in the driver's own process; `local-cluster[…]` starts others."""
_MASTER = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*(,\s*\d+\s*){2}\]|spark://.+|k8s://.+|yarn"
)
DRIVER_MEMORY = "TIDELINE_DRIVER_MEMORY"
_MEMORY = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)


def is_local(master: str) -> bool:
    """Tell whether the tasks of a master run in the driver's process."""
    return LOCAL.fullmatch(master) is not None


def build_start_settings(master: str, *, serves: bool = False) -> dict[str, str]:
    """Return the settings that a Spark of this master is started with here, beside those of each session.

    With `serves` it is one of Spark Connect, whose tasks run in a folder for each session. Raises EnvironmentNotReady if a jar or
    the archive is missing, or if it is not said where executors reach the driver.
    """
    return {
        **STATIC_SETTINGS,
        **(_build_local_settings() if is_local(master) else _build_cluster_settings(master, serves)),
    }


def check_master(master: str) -> None:
    """Raise EnvironmentNotReady for a text that names no Spark."""
    if not _MASTER.fullmatch(master):
        raise EnvironmentNotReady(
            f'"{master}" names no Spark: write local[2], spark://host:port, k8s://… or sc://host:port in --spark or SPARK_REMOTE'
        )


def read_driver_memory() -> str:
    """Return the memory of a Spark that is started here; raises EnvironmentNotReady for a text that is none."""
    text = os.environ.get(DRIVER_MEMORY) or "4g"
    if not _MEMORY.fullmatch(text):
        raise EnvironmentNotReady(f"{DRIVER_MEMORY} is '{text}': set it to a size, such as 4g or 900m")
    return text


def check_answers(master: str) -> None:
    """Raise EnvironmentNotReady if none of the addresses of a standalone master answers: Spark would try for a minute."""
    if not (places := _parse_addresses(master)):
        return
    failures = []
    for host, port in places:
        try:
            with socket.create_connection((host, port), ANSWER_SECONDS):
                return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        except UnicodeError:  # an empty part between two dots, or one that is too long
            failures.append(f"{host}:{port}: no name that a host has")
    raise EnvironmentNotReady(
        f"no Spark master answers at {master} ({'; '.join(failures)}): start it, or name the right address "
        f"in --spark or SPARK_REMOTE"
    )


def build_start_error(master: str, error: Exception) -> EnvironmentNotReady:
    """Return the error for a cluster at which Spark could not be started."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\tat")]
    why = next(
        (line for line in lines if "Exception" in line or "Error:" in line), lines[0] if lines else "no word"
    )
    if _parse_addresses(master) and ("nresponsive" in why or "null" in why):
        why = "it does not take applications"
    return EnvironmentNotReady(
        f"Spark was not started at {master} ({why}): is it a master of this version of Spark, with this secret?"
    )


def _build_local_settings() -> dict[str, str]:
    """It makes its secret itself; a standalone cluster's is configured with the cluster."""
    loopback = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return {**loopback, "spark.authenticate": "true", **build_driver_settings()}


def _build_cluster_settings(master: str, serves: bool) -> dict[str, str]:
    host, packed = _find_driver_host(master), os.environ.get(PACKED)
    unpacked = f"../{PACKED_PYTHON}" if serves else f"./{PACKED_PYTHON}"
    python = unpacked if packed else os.environ.get("PYSPARK_PYTHON") or sys.executable
    settings = {
        **build_cluster_settings(),
        "spark.driver.host": host,
        "spark.driver.bindAddress": os.environ.get(DRIVER_BIND) or host,
        "spark.jars": ",".join(find_jar_paths()),
        "spark.sql.execution.pyspark.python": python,  # what Spark plans by Python is planned by this one
    }
    if packed:
        settings["spark.archives"] = f"{_check_archive(packed)}#environment"
    if master.startswith("k8s://"):  # which hands the secret that it makes on by itself
        settings["spark.authenticate"] = "true"
    for name in HANDED_ON:
        if value := os.environ.get(name):
            settings[f"spark.executorEnv.{name}"] = value
    return settings


def _find_driver_host(master: str) -> str:
    """Return where executors reach this process; nothing listens beyond loopback unless the user has said where."""
    if host := os.environ.get(DRIVER_HOST):
        return host
    places = _parse_addresses(master)
    if places and all(host in LOOPBACK_NAMES for host, _ in places):
        return LOOPBACK
    own = _find_own_address(*places[0]) if places else None
    raise EnvironmentNotReady(
        f"the executors of {master} have to reach this process, and nothing says where: set {DRIVER_HOST} to an address of "
        f"this machine that they reach{f', such as {own}' if own else ''}"
    )


def _parse_addresses(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of a standalone master, of which there are several where one stands in for another."""
    scheme, separator, rest = master.partition("://")
    if scheme != "spark" or not separator:
        return []
    found = [re.fullmatch(r"(\[.+\]|[^:]+):(\d+)", place.strip()) for place in rest.split(",")]
    if not all(found):
        raise EnvironmentNotReady(f'"{master}" is no address of a master: write spark://host:port')
    return [(match[1].strip("[]"), int(match[2])) for match in found if match]


def _find_own_address(host: str, port: int) -> str | None:
    """Return the address by which this machine would speak to another one; nothing is sent."""
    try:
        kind, _, _, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(there)
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError):
        return None


def _check_archive(packed: str) -> str:
    if "://" in packed:
        return packed
    path = Path(packed).expanduser().resolve()
    if not path.is_file():
        raise EnvironmentNotReady(
            f"{PACKED} names {path}, which is not there: make it with `tideline cluster pack {path}`"
        )
    return str(path)
