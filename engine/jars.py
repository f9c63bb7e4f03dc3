"""The Delta jars and the Java that Spark needs: fetched once at set-up into `jars/`, only checked afterwards.

Ivy, which ships inside pyspark, fetches the jars by name, each with the checksum that its publisher gives. Nothing is resolved
when a session starts. `--s3a` fetches those of the file system s3a too, by which Spark reaches Delta tables in a bucket.
`--kafka` fetches a broker of Kafka, which is for tests and for people who want to try; no session starts with its jars.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from engine.errors import EnvironmentNotReady

DELTA_VERSION = "4.4.0"
# Everything else that delta-spark names is inside the Spark wheel; its hadoop-client would clash with Spark's own.
ARTIFACTS = ("delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
HADOOP_VERSION = "3.5.0"
AWS_VERSION = "2.35.4"
OLDEST_JAVA = 17
FETCH_SECONDS = 300


class Artifact(NamedTuple):
    """What Maven calls a jar."""

    organisation: str
    name: str
    version: str

    @property
    def jar(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.version}.jar"


DELTA = tuple(Artifact("io.delta", name, DELTA_VERSION) for name in ARTIFACTS)
JARS = tuple(one.jar for one in DELTA)
_AWS = "software.amazon.awssdk"
# hadoop-aws names the SDK's bundle of all services, 686 MB; these are the modules that it runs on, and what they name but for
# what Spark has itself: netty, httpclient, slf4j and commons. wildfly-openssl is for a setting that nobody has to choose.
_MODULES = """
    s3 s3-transfer-manager sts apache-client netty-nio-client annotations arns auth aws-core
    aws-query-protocol aws-xml-protocol checksums checksums-spi crt-core endpoints-spi http-auth
    http-auth-aws http-auth-aws-eventstream http-auth-spi http-client-spi identity-spi json-utils
    metrics-spi profiles protocol-core regions retries retries-spi sdk-core third-party-jackson-core
    utils utils-lite
"""
S3A = (
    Artifact("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    Artifact("software.amazon.eventstream", "eventstream", "1.0.1"),
    Artifact("org.reactivestreams", "reactive-streams", "1.0.4"),
    *(Artifact(_AWS, name, AWS_VERSION) for name in _MODULES.split()),
)
FETCH_S3A = "python -m engine.jars --s3a"
"""What fetches the jars of s3a."""
KAFKA_VERSION = "3.9.1"
_JACKSON = "2.16.2"
_OF_KAFKA = """
    kafka_2.13 kafka-clients kafka-group-coordinator kafka-group-coordinator-api kafka-metadata kafka-raft
    kafka-server kafka-server-common kafka-storage kafka-storage-api kafka-tools-api kafka-transaction-coordinator
"""
KAFKA = (
    *(Artifact("org.apache.kafka", name, KAFKA_VERSION) for name in _OF_KAFKA.split()),
    Artifact("com.fasterxml.jackson.core", "jackson-annotations", _JACKSON),
    Artifact("com.fasterxml.jackson.core", "jackson-core", _JACKSON),
    Artifact("com.fasterxml.jackson.core", "jackson-databind", _JACKSON),
    Artifact("com.fasterxml.jackson.datatype", "jackson-datatype-jdk8", _JACKSON),
    Artifact("com.fasterxml.jackson.dataformat", "jackson-dataformat-csv", _JACKSON),
    Artifact("com.github.ben-manes.caffeine", "caffeine", "2.9.3"),
    Artifact("com.github.luben", "zstd-jni", "1.5.6-4"),
    Artifact("com.typesafe.scala-logging", "scala-logging_2.13", "3.9.5"),
    Artifact("com.yammer.metrics", "metrics-core", "2.2.0"),
    Artifact("commons-validator", "commons-validator", "1.7"),
    Artifact("net.sf.jopt-simple", "jopt-simple", "5.0.4"),
    Artifact("net.sourceforge.argparse4j", "argparse4j", "0.7.0"),
    Artifact("org.apache.zookeeper", "zookeeper", "3.8.4"),
    Artifact("org.apache.zookeeper", "zookeeper-jute", "3.8.4"),
    Artifact("org.lz4", "lz4-java", "1.8.0"),
    Artifact("org.pcollections", "pcollections", "4.0.1"),
    Artifact("org.scala-lang", "scala-library", "2.13.15"),
    Artifact("org.scala-lang", "scala-reflect", "2.13.15"),
    Artifact("org.scala-lang.modules", "scala-collection-compat_2.13", "2.10.0"),
    Artifact("org.scala-lang.modules", "scala-java8-compat_2.13", "1.0.2"),
    Artifact("org.slf4j", "slf4j-api", "1.7.36"),
    Artifact("org.xerial.snappy", "snappy-java", "1.1.10.5"),
)
"""A broker with its controller in one process; other versions than Spark has of some, so they lie in a folder of their own."""
FETCH_KAFKA = "python -m engine.jars --kafka"
"""What fetches the jars of a broker of Kafka."""


def get_jar_folder() -> Path:
    """Return the folder of the jars: TIDELINE_JARS, else `jars/` of TIDELINE_HOME, else `jars/` beside the engine."""
    if folder := os.environ.get("TIDELINE_JARS"):
        return Path(folder).expanduser().resolve()
    if home := os.environ.get("TIDELINE_HOME"):
        inside = Path(home).expanduser().resolve() / "jars"
        if inside.is_dir():
            return inside
    return Path(__file__).resolve().parent.parent / "jars"


def find_jar_paths() -> list[str]:
    """Return the paths of the jars that a session starts with; raises EnvironmentNotReady if one of Delta's is missing.

    Those of s3a are among them where all of them have been fetched.
    """
    folder = get_jar_folder()
    missing = [jar for jar in JARS if not _is_jar(folder / jar)]
    if missing:
        raise EnvironmentNotReady(
            f"{len(missing)} of the {len(JARS)} Delta jars ({', '.join(missing)}) are not in {folder}: run `make setup`"
        )
    found = [*DELTA, *(S3A if has_s3a() else ())]
    return [str(folder / one.jar) for one in found]


def has_s3a() -> bool:
    """Tell whether the jars of the file system s3a have been fetched: half of them are none."""
    folder = get_jar_folder()
    return all(_is_jar(folder / one.jar) for one in S3A)


def get_kafka_folder() -> Path:
    """Return the folder of a broker's jars: TIDELINE_KAFKA_JARS, else `kafka/` among the others."""
    if folder := os.environ.get("TIDELINE_KAFKA_JARS"):
        return Path(folder).expanduser().resolve()
    return get_jar_folder() / "kafka"


def find_kafka_jars() -> list[Path]:
    """Return the paths of a broker's jars; raises EnvironmentNotReady if one is missing."""
    folder = get_kafka_folder()
    lacking = [one.jar for one in KAFKA if not _is_jar(folder / one.jar)]
    if lacking:
        raise EnvironmentNotReady(
            f"{len(lacking)} of the {len(KAFKA)} jars of Kafka are not in {folder}: run `{FETCH_KAFKA}`"
        )
    return [folder / one.jar for one in KAFKA]


def fetch_kafka() -> list[Path]:
    """Fetch the jars of a broker that are missing and return the paths of all; raises EnvironmentNotReady when that fails."""
    check_java()
    folder = get_kafka_folder()
    _fetch_into(folder, [one for one in KAFKA if not _is_jar(folder / one.jar)])
    missing = ", ".join(one.jar for one in KAFKA if not _is_jar(folder / one.jar))
    if missing:
        raise EnvironmentNotReady(f"{missing} could not be fetched: check the network, then run it again")
    return find_kafka_jars()


def read_java_version() -> int:
    """Return Java's major version, e.g. 17; raises EnvironmentNotReady if there is no Java that runs."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', _read_java_output(find_java()))
    if not match:
        raise EnvironmentNotReady(
            f"`{find_java()} -version` printed no version: install Java {OLDEST_JAVA} or newer"
        )
    major, minor = int(match[1]), int(match[2] or 0)
    return minor if major == 1 else major


def read_java_build() -> str:
    """Return which Java it is, to the build, whatever options it starts with; raises EnvironmentNotReady if none runs."""
    return "\n".join(
        line for line in _read_java_output(find_java()).splitlines() if "version" in line or "Runtime" in line
    )


def find_java() -> str:
    """Return the program of Java: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def check_java() -> None:
    """Raise EnvironmentNotReady unless a Java new enough for Spark is there."""
    found = read_java_version()
    if found < OLDEST_JAVA:
        raise EnvironmentNotReady(
            f"Spark needs Java {OLDEST_JAVA} or newer, but `java` is {found}: install a newer one, or set JAVA_HOME to it"
        )


def fetch(*, s3a: bool = False) -> list[str]:
    """Fetch the jars that are missing and return the paths of all; raises EnvironmentNotReady when that fails."""
    check_java()
    folder = get_jar_folder()
    lacking = [one for one in (*DELTA, *(S3A if s3a else ())) if not _is_jar(folder / one.jar)]
    if not lacking:
        return find_jar_paths()
    _fetch_into(folder, lacking)
    if s3a and not has_s3a():
        missing = ", ".join(one.jar for one in S3A if not _is_jar(folder / one.jar))
        raise EnvironmentNotReady(f"{missing} could not be fetched: check the network, then run it again")
    return find_jar_paths()


def _fetch_into(folder: Path, lacking: Sequence[Artifact]) -> None:
    """Put jars into a folder, each under its name only once it is whole."""
    if not lacking:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tideline-ivy-") as work:
        _resolve(lacking, Path(work))
        for one in lacking:
            fetched = Path(work) / "out" / one.jar
            if _is_jar(fetched):
                partial = folder / f".{one.jar}.part"
                shutil.copyfile(fetched, partial)
                partial.replace(folder / one.jar)


def _resolve(lacking: Sequence[Artifact], work: Path) -> None:
    """Let Ivy copy jars to work/out; nothing else, and nothing shared with the user's own Ivy or Maven."""
    module = work / "ivy.xml"
    dependencies = "".join(
        f'<dependency org="{one.organisation}" name="{one.name}" rev="{one.version}" transitive="false"'
        f' conf="default->master"/>'
        for one in lacking
    )
    module.write_text(
        f'<ivy-module version="2.0"><info organisation="tideline" module="jars"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )
    settings = work / "settings.xml"
    # The same variable that Spark reads names a mirror for machines without the public repository.
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    settings.write_text(
        f'<ivysettings><settings defaultResolver="maven"/><caches defaultCacheDir={quoteattr(str(work / "cache"))}/>'
        f'<resolvers><ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )
    ivy = next(iter(sorted((find_pyspark_folder() / "jars").glob("ivy-*.jar"))), None)
    if ivy is None:
        raise EnvironmentNotReady("the installed pyspark holds no Ivy: run `make setup` in a fresh .venv")
    pattern = str(work / "out" / "[artifact]-[revision].[ext]")
    command = [find_java()]
    command += ["-cp", str(ivy), "org.apache.ivy.Main", "-settings", str(settings), "-ivy", str(module)]
    command += ["-retrieve", pattern, "-types", "jar", "bundle", "-confs", "default"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise EnvironmentNotReady(
            f"fetching the jars took more than {FETCH_SECONDS} s: check the network, then run `make setup` again"
        ) from None
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        why = next(
            (line for line in lines if "UNRESOLVED" in line or "not found" in line or "Exception" in line), ""
        )
        raise EnvironmentNotReady(
            f"the jars could not be fetched from Maven Central ({why or 'Ivy gave no reason'}): "
            "check the network, then run `make setup` again"
        )


def find_pyspark_folder() -> Path:
    """Return where the installed pyspark is, which need not be imported for that."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentNotReady("pyspark is not installed: run `make setup`")
    return Path(spec.origin).resolve().parent


def _is_jar(path: Path) -> bool:
    """A jar is a zip; a page of a proxy or half a download is not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


@cache
def _read_java_output(java: str) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (FileNotFoundError, PermissionError):
        where = (
            f"JAVA_HOME names none ({java})" if os.environ.get("JAVA_HOME") else "there is none on the PATH"
        )
        raise EnvironmentNotReady(
            f"Spark needs Java {OLDEST_JAVA} or newer and {where}: install it (Debian: `apt-get install "
            f"openjdk-{OLDEST_JAVA}-jre-headless`)"
        ) from None
    return done.stderr + done.stdout


def main() -> int:
    """Fetch the jars, with `--s3a` those of s3a too, with `--kafka` a broker's; a line for each, or one sentence and status 1."""
    asked = set(sys.argv[1:])
    if asked - {"--s3a", "--kafka"}:
        print("usage: python -m engine.jars [--s3a] [--kafka]", file=sys.stderr)
        return 2
    try:
        paths = [Path(path) for path in fetch(s3a="--s3a" in asked)]
        paths += fetch_kafka() if "--kafka" in asked else []
        for path in paths:
            print(f"jar {path.name}")
    except EnvironmentNotReady as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
