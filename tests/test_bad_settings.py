"""Settings outside of statements that cannot work: stores, credentials, Sparks, variables, Dagster. Each is told in a sentence.

Java and jars that are missing are told of by `test_jars.py` and `cli/test_commands.py`; masters and servers that do not answer,
an address that the driver needs and an archive that is not there by `runtime/spark/test_masters.py` and `test_connect.py`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import boto3
import pytest

from dagster_tideline.component import TidelineModelsComponent
from dagster_tideline.settings import VARIABLES, Settings
from engine.cli.commands import main
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing import bucket
from engine.connectors.landing.tasks import TASK_THRESHOLD
from engine.errors import EnvironmentNotReady, StorageError, TidelineError
from engine.hummock.object_store import open_object_store
from engine.hummock.object_store.delayed import delay_requests
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.object_store.s3 import S3ObjectStore
from engine.runtime import compaction_tasks
from engine.runtime.spark.masters import read_driver_memory
from engine.runtime.spark.probe import read_executor_timeout
from engine.runtime.spark.session import connect
from engine.runtime.writes.driver_rows import DRIVER_LIMIT
from engine.session import Session
from engine.verification import should_verify
from tests.connectors.bad_settings import Bad, check_refused
from tests.proxy import proxy

KEY, SECRET = "AKIATOPKEYOFTESTS", "top/secret/of/tests"


EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


class Refusing(BaseHTTPRequestHandler):
    """A service with a right to nothing but to list what lies below a prefix; `asked` is what it was asked to do."""

    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        self.asked.append(self.command)
        listed = self.command == "GET" and "prefix=mine%2F" in self.path
        self.send_response(200 if listed else 403)
        self.send_header("Content-Length", str(len(EMPTY) if listed else 0))
        self.end_headers()
        self.wfile.write(EMPTY if listed else b"")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class ReadOnly(Refusing):
    """A service whose buckets are there and take nothing."""

    def answer(self) -> None:
        self.asked.append(self.command)
        self.send_response(200 if self.command in ("GET", "HEAD") else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer


class Busy(Refusing):
    """A service that has too much to do for its first five requests, and refuses the others."""

    def answer(self) -> None:
        self.asked.append(self.command)
        self.send_response(503 if len(self.asked) <= 5 else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer


@contextmanager
def served(kind: type[Refusing], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let buckets be those of a service; gives what it was asked to do."""
    Refusing.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield Refusing.asked
        server.shutdown()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let buckets be those of a service that refuses these credentials, but for one prefix."""
    with served(Refusing, monkeypatch) as asked:
        yield asked


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let buckets be those of a service that lets these credentials look, and nothing else."""
    with served(ReadOnly, monkeypatch) as asked:
        yield asked


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A store with one table; no Spark is started."""
    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    with Session((tmp_path / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        yield session


def told_by_status(store: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one sentence with which `tideline status` ends."""
    with pytest.raises(SystemExit) as ended:
        main(["status", "--store", store])
    output = capsys.readouterr()
    assert ended.value.code == 1 and not output.out
    (line,) = output.err.splitlines()
    assert line.startswith("error: ") and "Traceback" not in line
    assert KEY not in line and SECRET not in line
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("store", "what", "now"),
    [
        ("gs://bucket/x", '"gs://bucket/x" is no address of a store', "file:///path or s3://bucket/prefix"),
        ("/tmp/store", '"/tmp/store" is no address of a store', "file:///path or s3://bucket/prefix"),
        ("s3://", '"s3://" is no address of a store', "file:///path or s3://bucket/prefix"),
        ("file://host/store", "three slashes and a full path", "file:///path"),
        ("s3://Bad_Bucket!/x", "bucket Bad_Bucket! cannot be used: that is no name", "s3://bucket/prefix"),
        (
            "s3://tideline-no-such-bucket/x",
            "there is no store at s3://tideline-no",
            "`tideline init` makes one",
        ),
    ],
)
def test_an_address_of_a_store_that_cannot_be_meant_is_told(
    store: str, what: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = told_by_status(store, capsys)
    assert what in output and now in output


def test_a_bucket_whose_name_the_service_does_not_take_is_told() -> None:
    with pytest.raises(
        StorageError, match="bucket b cannot be used: that is no name of a bucket; write s3://"
    ):
        Session("s3://b/x")


def test_a_bucket_that_is_not_there_is_not_made(lake: Session, tmp_path: Path) -> None:
    bucket = f"none-{uuid.uuid4().hex}"
    asked = f"CREATE SINK x FROM t WITH (connector = 'file', url = 's3://{bucket}/out')"
    check_refused(lake, tmp_path, Bad(asked, "url", f"there is no bucket {bucket}", "make the bucket"))
    asked = f"CREATE TABLE x (PRIMARY KEY (id)) WITH (connector = 'delta', path = 's3://{bucket}/t')"
    check_refused(lake, tmp_path, Bad(asked, "path", "there is no such bucket", "correct its path"))
    with pytest.raises(StorageError, match="no bucket"):
        open_object_store(f"s3://{bucket}", create=False)


@pytest.mark.parametrize(
    ("changed", "what", "now"),
    [
        ({"AWS_ENDPOINT_URL": "nowhere"}, "Invalid endpoint: nowhere", "set AWS_ENDPOINT_URL to http"),
        ({"AWS_PROFILE": "nobody"}, "profile (nobody)", "AWS_PROFILE"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, "Partial credentials", "set AWS_ACCESS_KEY_ID and AWS_SECRET"),
        ({"AWS_DEFAULT_REGION": "no where"}, "'no where'", "correct AWS_DEFAULT_REGION"),
        (
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "Unable to locate credentials",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
    ],
)
def test_credentials_and_addresses_of_a_service_that_cannot_work_are_told_by_their_variable(
    changed: dict[str, str],
    what: str,
    now: str,
    refusing: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name, value in changed.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    output = told_by_status("s3://bucket/x", capsys)
    assert output.startswith("bucket bucket cannot be used: ") and what in output and now in output
    assert not refusing


def test_credentials_that_are_refused_are_told_without_them_and_nothing_is_written(
    refusing: list[str], lake: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = told_by_status("s3://bucket/x", capsys)
    assert "403" in output and "the credentials are refused" in output and "AWS_ACCESS_KEY_ID" in output
    asked = [
        Bad(
            "CREATE SINK x FROM t WITH (connector = 'file', url = 's3://b/out')", "url", "refused", "correct"
        ),
        Bad(
            "CREATE TABLE x (PRIMARY KEY (id)) WITH (connector = 'delta', path = 's3://b/t')",
            "path",
            "the Delta table at s3://b/t can't be read",
            "the credentials are refused",
        ),
        Bad(
            "CREATE TABLE x (id INT PRIMARY KEY) WITH (connector = 'landing', path = 's3://b/in')",
            "path",
            "s3://b/in/ cannot be listed",
            "the credentials are refused, or have no right to it; correct them (AWS_ACCESS_KEY_ID",
        ),
    ]
    for bad in asked:
        output = check_refused(lake, tmp_path, bad)
        assert KEY not in output and SECRET not in output
    with pytest.raises(StorageError, match="the credentials are refused"):
        Session("s3://bucket/x")
    assert set(refusing) == {"HEAD", "GET"}


def test_the_first_request_of_a_bucket_is_repeated_while_its_service_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(Busy, monkeypatch) as asked:
        with pytest.raises(StorageError, match=r"bucket bucket cannot be used: .*403"):
            open_object_store("s3://bucket/x")
        assert asked == ["HEAD"] * 6


def test_a_bucket_that_may_not_be_written_is_told_when_the_sink_is_created(
    read_only: list[str], lake: Session, tmp_path: Path
) -> None:
    asked = "CREATE SINK x FROM t WITH (connector = 'file', url = 's3://b/out')"
    message = check_refused(
        lake, tmp_path, Bad(asked, "url", "s3://b/out/x-probe.parquet cannot be written", "have no right")
    )
    assert KEY not in message and SECRET not in message and read_only == ["HEAD", "POST"]


def test_asking_whether_a_bucket_may_be_written_leaves_nothing_in_it(lake: Session) -> None:
    address = f"s3://asked-{uuid.uuid4().hex}"
    objects = open_object_store(address)
    assert isinstance(objects, S3ObjectStore)
    lake.sql(f"CREATE SINK x FROM t WITH (connector = 'file', url = '{address}/out')", build=False)
    assert not list(objects.list(""))
    client = boto3.client("s3")
    assert "Uploads" not in client.list_multipart_uploads(Bucket=objects.bucket)


def test_a_right_to_list_a_prefix_is_all_that_landing_there_takes(
    refusing: list[str], lake: Session, tmp_path: Path
) -> None:
    lake.sql("CREATE TABLE x (id INT PRIMARY KEY) WITH (connector = 'landing', path = 's3://b/mine')")
    assert refusing == ["GET"]
    text = "CREATE TABLE y (id INT PRIMARY KEY) WITH (connector = 'landing', path = 's3://b/mined')"
    check_refused(lake, tmp_path, Bad(text, "path", "s3://b/mined/ cannot be listed", "or their rights"))


def test_a_service_that_takes_no_connections_is_told_without_the_password_in_its_address(
    s3_server: str,
    lake: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bucket, "PATIENCE_SECONDS", 0.0)
    text = "CREATE TABLE x (id INT PRIMARY KEY) WITH (connector = 'landing', path = 's3://bucket/in')"
    landing = Bad(text, "path", "s3://bucket/in/ cannot be listed", "whether the service runs")
    with proxy(int(s3_server.rpartition(":")[2])) as door:
        door.refuse()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{SECRET.replace('/', '')}@127.0.0.1:{door.port}")
        said = [told_by_status("s3://bucket/x", capsys), check_refused(lake, tmp_path, landing)]
    for line in said:
        assert f"127.0.0.1:{door.port}" in line and "AWS_ENDPOINT_URL" in line
        assert SECRET.replace("/", "") not in line


@pytest.mark.parametrize(
    ("spark", "what", "now"),
    [
        ("sprak://host:7077", '"sprak://host:7077" names no Spark', "write local[2], spark://host:port"),
        ("nonsense", '"nonsense" names no Spark', "SPARK_REMOTE"),
        ("http://host:4040", "names no Spark", "sc://host:port"),
        ("local[x]", '"local[x]" names no Spark', "local[2]"),
        ("k8s://", '"k8s://" names no Spark', "k8s://…"),
        ("sc://", "is no address of a Spark Connect server", "write sc://host:port"),
        ("sc://localhost:x", "is no address of a Spark Connect server", "write sc://host:port"),
        (f"sc://host:x/;token={SECRET}", '"sc://host:x/" is no address', "write sc://host:port"),
    ],
)
def test_a_text_that_names_no_spark_is_told_before_one_is_started(
    spark: str, what: str, now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentNotReady) as handed:
        connect(spark)
    monkeypatch.setenv("SPARK_REMOTE", spark)
    with pytest.raises(EnvironmentNotReady) as found:
        connect()
    assert str(handed.value) == str(found.value)
    assert what in str(found.value) and now in str(found.value) and SECRET not in str(found.value)


@pytest.mark.parametrize(
    ("variable", "value", "read", "now"),
    [
        ("TIDELINE_DRIVER_MEMORY", "lots", read_driver_memory, "such as 4g"),
        ("TIDELINE_DRIVER_MEMORY", "0g", read_driver_memory, "such as 4g"),
        ("TIDELINE_EXECUTOR_SECONDS", "soon", read_executor_timeout, "such as 120"),
        ("TIDELINE_EXECUTOR_SECONDS", "0", read_executor_timeout, "such as 120"),
        ("TIDELINE_EXECUTOR_SECONDS", "1e30", read_executor_timeout, "such as 120"),
        ("TIDELINE_LANDING_MEMORY", "-1", ReadLimits.from_environment, "such as 256"),
        ("TIDELINE_LANDING_TASKS_MB", "all", TASK_THRESHOLD.read, "such as 1024"),
        ("TIDELINE_DRIVER_ROWS_MB", "much", DRIVER_LIMIT.read, "such as 64"),
        ("TIDELINE_COMPACTION_TASKS_MB", "large", compaction_tasks.TASK_THRESHOLD.read, "such as 512"),
        ("TIDELINE_VERIFY", "always", should_verify, "1"),
        ("TIDELINE_STORE_DELAY_MS", "slow", lambda: delay_requests(LocalObjectStore(Path("/"))), "as 80"),
    ],
)
def test_a_variable_that_is_no_number_is_told_with_one(
    variable: str, value: str, read: Callable[[], object], now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(TidelineError) as caught:
        read()
    assert variable in str(caught.value) and value in str(caught.value) and now in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "now"),
    [
        ("TIDELINE_HOME", "/etc/hostname", "name a folder"),
        ("TIDELINE_ASSETS", "/etc/hostname", "name a folder"),
        ("TIDELINE_ASSETS", "/no/such/folder", "make it, or correct its path"),
        ("TIDELINE_STORE", "gs://bucket/x", "write file:///path or s3://bucket/prefix"),
        ("TIDELINE_STORE", "/tmp/store", "write file:///path or s3://bucket/prefix"),
        ("TIDELINE_EVENT_SECONDS", "-1", "greater than or equal to 0"),
        ("TIDELINE_EPOCHS_IN_FLIGHT", "0", "greater than or equal to 1"),
        ("TIDELINE_EPOCHS_IN_FLIGHT", "2.5", "valid integer"),
        ("TIDELINE_MAX_LAG_SECONDS", "nan", "greater than 0"),
        ("TIDELINE_SENSOR_WAIT", "soon", "valid number"),
    ],
)
def test_a_projects_variable_that_cannot_be_meant_is_told_before_a_folder_is_made(
    variable: str, value: str, now: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(EnvironmentNotReady, match=f"{variable} is '{value}'") as caught:
        Settings.of_environment(tmp_path)
    assert now in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_what_a_component_says_is_checked_as_the_environment_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES.values():
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EnvironmentNotReady, match="TIDELINE_STORE is 'gs://bucket/x': that is no address"):
        TidelineModelsComponent(store="gs://bucket/x").build_project_defs(tmp_path, tmp_path)
