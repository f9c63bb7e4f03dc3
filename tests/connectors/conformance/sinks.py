"""The sinks that are held to the contract: how each is made over `t (id, v)`, and what stands at its other end."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from abc import ABC, abstractmethod
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from engine.hummock.object_store import open_object_store
from engine.session import Session
from tests.connectors.kafka.server import make_topic
from tests.connectors.kafka.sink.topics import check_epochs, read_committed
from tests.connectors.postgres.server import get_server
from tests.connectors.postgres.sink.targets import AUDIT, place
from tests.connectors.sinks.conftest import applied
from tests.connectors.sinks.delta.logs import versions

Held = dict[int, str]


class SinkCase(ABC):
    """One sink, and the reader of what it has delivered."""

    name: str
    with_spark = False

    def __init__(self, folder: Path, session: Session) -> None:
        self.folder, self.session = folder, session

    @abstractmethod
    def create(self) -> None:
        """Create the sink `s` without running it."""

    @abstractmethod
    def held(self) -> Held:
        """Return what a reader ends up with; fails where something was applied twice."""

    @abstractmethod
    def written(self) -> object:
        """Return something that another write would change."""


class Files(SinkCase):
    """Files of changes."""

    name, form = "file-parquet", "parquet"
    rows_per_file = 3
    compression = ""

    @property
    def out(self) -> Path:
        """The folder of the files."""
        return self.folder / "out"

    @property
    def place(self) -> str:
        """The option that says where the files go."""
        return f"path = '{self.out}'"

    def create(self) -> None:
        said = (
            f"connector = 'file', {self.place}, format = '{self.form}', rows_per_file = {self.rows_per_file}"
            f"{self.compression}"
        )
        self.session.sql(f"CREATE SINK s FROM t WITH ({said})", build=False)

    def files(self) -> dict[str, bytes]:
        """Return the files by name, in the order of their names."""
        return {path.name: path.read_bytes() for path in sorted(self.out.glob("s-*"))}

    def changes(self) -> list[dict]:
        """Return all rows in the order of the files' names."""
        found: list[dict] = []
        for data in self.files().values():
            if self.form == "parquet":
                found += pq.read_table(io.BytesIO(data)).to_pylist()
            else:
                text = gzip.decompress(data) if self.compression else data
                found += [json.loads(line) for line in text.splitlines()]
        return found

    def held(self) -> Held:
        return applied(self.changes())  # each change fits what came before it

    def written(self) -> object:
        return sorted((path.name, path.stat().st_mtime_ns) for path in self.out.glob("s-*"))


class JsonFiles(Files):
    name, form = "file-jsonl", "jsonl"


class PackedFiles(JsonFiles):
    name, compression = "file-jsonl-gz", ", compression = 'gzip'"


class FilesOnS3(Files):
    """The same in a bucket."""

    name = "file-s3"

    def __init__(self, folder: Path, session: Session) -> None:
        super().__init__(folder, session)
        self.address = f"s3://sinks/{uuid.uuid4().hex}/out"
        self.bucket = open_object_store(self.address)

    @property
    def place(self) -> str:
        return f"url = '{self.address}'"

    def files(self) -> dict[str, bytes]:
        return {info.path: self.bucket.get(info.path) or b"" for info in self.bucket.list("s-")}

    def written(self) -> object:
        return [(info.path, info.modified, info.etag) for info in self.bucket.list("s-")]


class JsonFilesOnS3(FilesOnS3):
    name, form = "file-s3-jsonl", "jsonl"


class Table(SinkCase):
    """Another table of the store."""

    name = "table"

    def create(self) -> None:
        self.session.sql("CREATE TABLE copy (id BIGINT PRIMARY KEY, v STRING)")
        self.session.sql("CREATE SINK s INTO copy FROM t", build=False)

    def held(self) -> Held:
        self.session.store.refresh()
        batches = self.session.store.iter("copy")
        return {row["id"]: row["v"] for batch in batches for row in batch.to_pylist()}

    def written(self) -> object:
        return len(self.session.store.refresh().tables["copy"].log)


class Delta(SinkCase):
    """A Delta table, read by another reader than Spark."""

    name = "delta"
    with_spark = True

    @property
    def table(self) -> Path:
        """The folder of the table."""
        return self.folder / "delta"

    def create(self) -> None:
        said = f"connector = 'delta', path = '{self.table}'"
        self.session.sql(f"CREATE SINK s FROM t WITH ({said})", build=False)

    def held(self) -> Held:
        if not self.table.exists():
            return {}
        found = versions(self.table)
        assert found == sorted(set(found)), "a transaction occurs twice in the log, or out of order"
        rows = DeltaTable(str(self.table)).to_pyarrow_table().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["v"] for row in rows}

    def written(self) -> object:
        return versions(self.table)


class Postgres(SinkCase):
    """A table of PostgreSQL, of which a trigger notes each change."""

    name = "postgres"

    def __init__(self, folder: Path, session: Session) -> None:
        super().__init__(folder, session)
        self.database = get_server().create_database()
        self.database.run(*AUDIT)

    def create(self) -> None:
        said = ", ".join(f"{name} = '{value}'" for name, value in place(self.database).items())
        options = f"connector = 'postgres', hostname = '127.0.0.1', {said}"
        self.session.sql(f"CREATE SINK s FROM t WITH ({options})", build=False)

    def held(self) -> Held:
        rows: Held = {}
        for what, key, value in self.database.ask("SELECT what, id, v FROM audit ORDER BY number"):
            assert (key in rows) == (what != "INSERT"), f"{what} of {key} was applied twice"
            assert what != "UPDATE" or rows[key] != value, f"{key} was written twice"
            rows[key] = value
            if what == "DELETE":
                del rows[key]
        assert rows == dict(self.database.ask("SELECT id, v FROM t"))
        return rows

    def written(self) -> object:
        return self.database.ask("SELECT max(number) FROM audit")


class Kafka(SinkCase):
    """A topic of two partitions, read by a consumer that sees committed transactions only."""

    name = "kafka"
    transaction_rows = 2

    def __init__(self, folder: Path, session: Session) -> None:
        super().__init__(folder, session)
        self.topic = make_topic(2)

    def create(self) -> None:
        options = self.topic.options(envelope="upsert", transaction_rows=str(self.transaction_rows))
        self.session.sql(f"CREATE SINK s FROM t WITH ({options})", build=False)

    def held(self) -> Held:
        return check_epochs(read_committed(self.topic))

    def written(self) -> object:
        return [(one.partition, one.offset) for one in read_committed(self.topic)]


CASES: tuple[type[SinkCase], ...] = (
    *(Files, JsonFiles, PackedFiles, FilesOnS3, JsonFilesOnS3),
    *(Table, Delta, Postgres, Kafka),
)


def mark_server(case: type[SinkCase]) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marker of cases that need a PostgreSQL, or a Kafka."""
    if case is Kafka:
        return (pytest.mark.kafka,)
    return (pytest.mark.postgres,) if case is Postgres else ()


PARAMETERS = [pytest.param(case, id=case.name, marks=mark_server(case)) for case in CASES]
