"""How the Java of a driver is started: what it loads from where, and from an archive of classes where there is one.

Spark loads some 20,000 classes before its first answer. Java keeps them parsed and checked in an archive (class data sharing,
JEP 350), which takes most of a start's processor time away. `record` writes one; `build_driver_settings` uses it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import EnvironmentNotReady
from engine.jars import find_jar_paths, find_pyspark_folder, get_jar_folder, read_java_build

RECORD_SECONDS = 300
RECORDED_TO = "TIDELINE_CLASS_ARCHIVE"
"""Names the file to which a Java that is started writes its archive."""
ARCHIVE_NAME = "spark-classes-{place}-{key}.jsa"
LATE_OPTIMISATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Java optimises what has run ten times as often as it asks by itself: most of Spark's planner is never worth it."""
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
OPTIONS_OF_THE_USER = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS")
_SPECIAL = frozenset(" \t\n\"'\\")
"""What takes a line of options apart."""
FEW_CORES = 2


def build_driver_settings() -> dict[str, str]:
    """Return the settings that a local Spark's driver starts by; raises EnvironmentNotReady if a jar is missing.

    The jars stand on Java's own class path: what Spark loads by `spark.jars` cannot stand in an archive.
    """
    return {
        JAVA_OPTIONS: _join_options((*LATE_OPTIMISATION, *_choose_collector(), *_build_archive_options())),
        "spark.driver.extraClassPath": os.pathsep.join(find_jar_paths()),
    }


def build_cluster_settings() -> dict[str, str]:
    """Return the settings that the driver of a cluster starts by: its Java plans, which is all that it does."""
    return {JAVA_OPTIONS: _join_options((*LATE_OPTIMISATION, *_choose_collector()))}


def find_archive_path() -> Path:
    """Return where the archive of this Java, this Spark and these jars is, or would be."""
    spark = find_pyspark_folder() / "jars"
    marks = [read_java_build(), str(spark), *find_jar_paths()]
    for jar in sorted(spark.glob("*.jar")):
        stat = jar.stat()
        marks.append(f"{jar.name} {stat.st_size} {stat.st_mtime_ns}")
    return get_jar_folder() / ARCHIVE_NAME.format(
        place=_compute_digest(str(spark)), key=_compute_digest("\n".join(marks))
    )


def record_archive(program: Sequence[str]) -> bool:
    """Write the archive of what a Python program (`-m` and a module, or a file, and arguments) loads that starts a local Spark.

    Nothing is done where there is one. Returns whether there is one now: without it Spark starts as it does anywhere else.
    Raises EnvironmentNotReady where the program fails.
    """
    archive = find_archive_path()
    if archive.is_file():
        return True
    part = archive.with_suffix(f".{os.getpid()}.part")
    environment = dict(os.environ) | {RECORDED_TO: str(part)}
    environment.pop("SPARK_REMOTE", None)
    try:
        # Java writes it when it ends, which is after the program that started it: their common output ends with it.
        done = subprocess.run(
            [sys.executable, *program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RECORD_SECONDS,
            check=False,
        )
        if done.returncode:
            raise EnvironmentNotReady(
                f"Spark did not run: {(done.stdout.strip().splitlines() or ['no word'])[-1]}"
            )
        if part.is_file():
            part.replace(archive)
    except subprocess.TimeoutExpired:
        return False
    finally:
        part.unlink(missing_ok=True)
    place, _, _ = archive.name.rpartition("-")
    for old in archive.parent.glob(f"{place}-*"):  # other Sparks that share the folder have their own
        if old != archive:
            old.unlink(missing_ok=True)
    return archive.is_file()


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _join_options(options: Sequence[str]) -> str:
    """Return options as Spark takes them apart again: a folder's name may have blanks and quotes in it."""
    return " ".join(_quote(option) if set(option) & _SPECIAL else option for option in options)


def _quote(option: str) -> str:
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _build_archive_options() -> list[str]:
    quiet = [
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]  # where an archive does not fit Java starts all the same
    if part := os.environ.get(RECORDED_TO):
        return [f"-XX:ArchiveClassesAtExit={part}", *quiet]
    archive = find_archive_path()
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *quiet] if archive.is_file() else []


def _choose_collector() -> list[str]:
    """On few cores threads that collect beside the program take them from it; what somebody has chosen stays."""
    options = [option for name in OPTIONS_OF_THE_USER for option in os.environ.get(name, "").split()]
    chosen = any(option.startswith("-XX:+Use") and option.endswith("GC") for option in options)
    return [] if chosen or (os.cpu_count() or 1) > FEW_CORES else ["-XX:+UseSerialGC"]
