"""The sources that are held to the contract: how each is offered changes, and which rows follow from them.

All feed `t (id BIGINT, n BIGINT)`, the id being the key but for Nexmark. What was offered is kept by key, so the rows that a table is
to hold are known without the engine. Of a source that passes its rows on (CREATE SOURCE) a view over `t`, `held`, tells what has come.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType

from engine.connectors import registry
from engine.connectors.contract.connector import Source
from engine.connectors.landing.tasks import SETTING
from engine.connectors.nexmark.events import NexmarkEvents
from engine.connectors.nexmark.source import NexmarkSource
from engine.connectors.sources import open_source
from engine.hummock import Hummock
from engine.hummock.object_store import open_object_store
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session
from tests.connectors.kafka.server import make_topic
from tests.connectors.postgres.server import get_server
from tests.connectors.sqlite_connector import JournalConnector

GONE: Final = "gone"
Change = tuple[int, int | None | str]
Rows = list[tuple[Any, ...]]


class SourceCase(ABC):
    """One source outside of the engine; what it was offered is kept in `rows`."""

    name: str
    with_spark = False
    settings: Mapping[str, str] = MappingProxyType({})
    """Variables of the processes that take it."""
    repeats_rows = True
    """Whether the same key may be offered again, and taken away."""
    has_columns = True
    """Whether its columns can change."""
    passes = False
    """Whether it is a source whose rows stand in a view alone."""
    columns = "id BIGINT PRIMARY KEY, n BIGINT"
    clause = ""
    """What stands behind the columns of a table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[int, int | None] = {}
        self.offers = 0

    @property
    @abstractmethod
    def options(self) -> str:
        """The WITH clause of the table."""

    @property
    def holder(self) -> str:
        """The relation whose rows tell what has come."""
        return "held" if self.passes else "t"

    def create(self, session: Session) -> None:
        """Create the table that is fed, or the source and a view that follows it."""
        if self.passes:
            session.sql(f"CREATE SOURCE t ({self.columns}) WITH ({self.options})")
            session.sql("CREATE MATERIALIZED VIEW held AS SELECT * FROM t")
        else:
            session.sql(f"CREATE TABLE t ({self.columns}) {self.clause} WITH ({self.options})")

    def held(self, session: Session) -> Rows:
        """Return the rows that have come."""
        if self.passes:
            session.flush().raise_for_all()
        session.store.refresh()
        batches = session.store.iter(self.holder)
        rows = (row for batch in batches for row in batch.to_pylist())
        return sorted(tuple(v for name, v in row.items() if not name.startswith("_")) for row in rows)

    def source(self, store: Hummock) -> Source:
        """Return the source as a process over the store has it."""
        return open_source(store, load_catalog(store.version).catalog.get("t"))

    def offer(self, *changes: Change) -> None:
        """Offer rows, later ones win; GONE takes a key away."""
        self.offers += 1
        for key, value in changes:
            if value == GONE:
                self.rows.pop(key, None)
            else:
                assert not isinstance(value, str)
                self.rows[key] = value
        self.write(changes)

    @abstractmethod
    def write(self, changes: tuple[Change, ...]) -> None:
        """Write an offer where the source is; without changes one that holds no row."""

    def offer_again(self) -> None:
        """Offer what was offered last once more, or touch the source without changing a row."""
        return None

    def expected(self) -> Rows:
        """Return the rows that follow from all offers."""
        return sorted(self.rows.items())

    def widen(self, key: int) -> None:
        """Offer a row with a column that the table lacks."""
        raise AssertionError(f"the columns of {self.name} do not change: ask `has_columns` first")

    def lose(self) -> str:
        """Offer a row without a column that the table needs; returns its name."""
        raise AssertionError(f"the columns of {self.name} do not change: ask `has_columns` first")

    def retype(self) -> str:
        """Offer a row whose column has values of another type; returns its name."""
        raise AssertionError(f"the columns of {self.name} do not change: ask `has_columns` first")

    def mend(self, session: Session) -> None:
        """Give the source its columns back."""
        return None


class Landing(SourceCase):
    """A landing folder with files of one format."""

    form = "csv"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.landing = folder / "landing"
        self.landing.mkdir(exist_ok=True)

    @property
    def options(self) -> str:
        return f"connector = 'landing', path = '{self.landing}', format = '{self.form}'"

    def write(self, changes: tuple[Change, ...]) -> None:
        rows = [
            {"id": key, "n": None if value == GONE else value, "_op": "delete" if value == GONE else "upsert"}
            for key, value in changes
        ]
        self.land(f"{self.offers:06d}", rows, {"id": pa.int64(), "n": pa.int64(), "_op": pa.string()})

    def land(self, name: str, rows: list[dict[str, Any]], columns: dict[str, pa.DataType]) -> None:
        """Write a file under another name and rename it."""
        hidden = self.landing / f".{name}"
        if self.form == "csv":
            with hidden.open("w", newline="") as file:
                lines = csv.DictWriter(file, list(columns))
                lines.writeheader()
                lines.writerows(rows)
        elif self.form == "json":
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(columns.items()))), hidden)
        hidden.rename(self.path(name))

    def path(self, name: str) -> Path:
        """Return the path of a file that was landed."""
        return self.landing / f"{name}.{'jsonl' if self.form == 'json' else self.form}"

    def offer_again(self) -> None:
        path = self.path(f"{self.offers:06d}")
        found, data = path.stat(), path.read_bytes()
        path.with_name(".again").write_bytes(data)
        os.utime(path.with_name(".again"), ns=(found.st_atime_ns, found.st_mtime_ns))
        path.with_name(".again").rename(path)

    def widen(self, key: int) -> None:
        self.rows[key] = 1
        self.land("wide", [{"id": key, "n": 1, "more": 2}], dict.fromkeys(("id", "n", "more"), pa.int64()))

    def lose(self) -> str:
        self.land("lost", [{"n": 1}], {"n": pa.int64()})
        return "id"

    def retype(self) -> str:
        self.land("odd", [{"id": 999, "n": "many"}], {"id": pa.int64(), "n": pa.string()})
        return "n"


class LandingCsv(Landing):
    name = "landing-csv"


class LandingJson(Landing):
    name, form = "landing-json", "json"


class LandingParquet(Landing):
    name, form = "landing-parquet", "parquet"


class LandingByTasks(LandingParquet):
    """The same, however few rows there are, read by Spark's tasks."""

    name = "landing-by-tasks"
    with_spark = True
    settings: Mapping[str, str] = MappingProxyType({SETTING: "0"})


class LandingS3(Landing):
    """The same in a bucket: what is written in the folder is put there."""

    name = "landing-s3"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.address = f"s3://landing/{uuid.uuid4().hex}/in"
        self.bucket = open_object_store(self.address)

    @property
    def options(self) -> str:
        return f"connector = 'landing', path = '{self.address}', format = '{self.form}'"

    def land(self, name: str, rows: list[dict[str, Any]], columns: dict[str, pa.DataType]) -> None:
        super().land(name, rows, columns)
        self.put(name)

    def put(self, name: str) -> None:
        """Put a file of the folder into the bucket."""
        path = self.path(name)
        self.bucket.put(path.name, path.read_bytes())

    def offer_again(self) -> None:
        self.put(f"{self.offers:06d}")


class LandingS3Parquet(LandingS3):
    name, form = "landing-s3-parquet", "parquet"


class Nexmark(SourceCase):
    """The generator; an offer is a second that passes."""

    name = "nexmark"
    repeats_rows = has_columns = False
    columns, clause = "auction BIGINT, price BIGINT", "APPEND ONLY"
    options = "connector = 'nexmark', type = 'bid', event_rate = '100'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.began, self.seconds = int(time.time()), 0

    def create(self, session: Session) -> None:
        super().create(session)
        self.source(session.store).poll()

    def source(self, store: Hummock) -> Source:
        relation = load_catalog(store.version).catalog.get("t")
        return NexmarkSource(store, relation, lambda: self.began + self.seconds)

    def write(self, changes: tuple[Change, ...]) -> None:
        self.seconds += bool(changes)

    def catch_up(self) -> None:
        """Let so many seconds have passed as by the clock of the machine: other processes have no other."""
        self.seconds = int(time.time()) + 1 - self.began

    def expected(self) -> Rows:
        made = NexmarkEvents(1, 100).generate_rows("bid", 0, self.seconds * 100).select(["auction", "price"])
        return sorted(tuple(row.values()) for row in made.to_pylist())


class NexmarkPassed(Nexmark):
    """The same passed on: a row that came twice would stand twice in the view."""

    name = "nexmark-source"
    passes = with_spark = True


class Delta(SourceCase):
    """A Delta table with its change data feed, which something else than Spark writes."""

    name = "delta-feed"
    with_spark = True
    feed = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.table = folder / "delta"
        if not self.table.exists():
            columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
            said = {"delta.enableChangeDataFeed": "true"} if self.feed else {}
            DeltaTable.create(str(self.table), columns, configuration=said)

    @property
    def options(self) -> str:
        return f"connector = 'delta', path = '{self.table}'"

    def write(self, changes: tuple[Change, ...]) -> None:
        last = dict(changes)
        new = {key: value for key, value in last.items() if value != GONE}
        rows = pa.table(
            {
                "id": pa.array(list(last), pa.int64()),
                "n": pa.array([new.get(key) for key in last], pa.int64()),
                "gone": pa.array([key not in new for key in last], pa.bool_()),
            }
        )
        if not changes:
            write_deltalake(str(self.table), rows.drop_columns(["gone"]), mode="append")
            return
        merge = DeltaTable(str(self.table)).merge(
            rows, "t.id = s.id", source_alias="s", target_alias="t", error_on_type_mismatch=False
        )
        merge = merge.when_matched_delete("s.gone").when_matched_update({"n": "s.n"})
        merge.when_not_matched_insert({"id": "s.id", "n": "s.n"}, "NOT s.gone").execute()

    def offer_again(self) -> None:
        DeltaTable(str(self.table)).optimize.compact()

    def widen(self, key: int) -> None:
        DeltaTable(str(self.table)).alter.add_columns([Field("more", PrimitiveType("long"))])
        self.offer((key, 1))

    def lose(self) -> str:
        self._anew(pa.table({"id": pa.array([1], pa.int64())}))
        return "n"

    def retype(self) -> str:
        self._anew(pa.table({"id": pa.array([1], pa.int64()), "n": ["many"]}))
        return "n"

    def mend(self, session: Session) -> None:
        ids, values = list(self.rows), list(self.rows.values())
        self._anew(pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(values, pa.int64())}))
        if self.passes:
            session.sql("DROP SOURCE t CASCADE")
            self.create(session)
        else:
            session.sql("ALTER TABLE t RESYNC")

    def _anew(self, rows: pa.Table) -> None:
        write_deltalake(str(self.table), rows, mode="overwrite", schema_mode="overwrite")


class DeltaWithoutFeed(Delta):
    name, feed = "delta-plain", False


class DeltaPassed(Delta):
    name, passes = "delta-source-feed", True


class DeltaPassedWithoutFeed(Delta):
    name, feed, passes = "delta-source-plain", False, True


class Journal(SourceCase):
    """The connector of docs/connectors.md, which no line of the engine knows."""

    name = "journal"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        registry.register(JournalConnector())
        self.path = folder / "journal.db"
        if not self.path.exists():
            self.run("CREATE TABLE journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT, id BIGINT, n)")

    @property
    def options(self) -> str:
        return f"connector = 'journal', path = '{self.path}'"

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose changes stand behind the block."""
        file = sqlite3.connect(self.path)
        try:
            with file:
                yield file
        finally:
            file.close()

    def run(self, *texts: str) -> None:
        """Run statements."""
        with self.open() as file:
            for text in texts:
                file.execute(text)

    def write(self, changes: tuple[Change, ...]) -> None:
        rows = [
            ("delete" if value == GONE else "put", key, None if value == GONE else value)
            for key, value in changes
        ]
        with self.open() as file:
            file.executemany("INSERT INTO journal (op, id, n) VALUES (?, ?, ?)", rows)

    def widen(self, key: int) -> None:
        self.run("ALTER TABLE journal ADD COLUMN more BIGINT")
        self.offer((key, 1))

    def lose(self) -> str:
        self.run("ALTER TABLE journal RENAME COLUMN n TO m", "INSERT INTO journal (op, id) VALUES ('put', 1)")
        return "n"

    def retype(self) -> str:
        self.run("INSERT INTO journal (op, id, n) VALUES ('put', 999, 'many')")
        return "n"

    def mend(self, session: Session) -> None:
        with self.open() as file:
            if "m" in [row[1] for row in file.execute("PRAGMA table_info(journal)")]:
                file.execute("ALTER TABLE journal RENAME COLUMN m TO n")
            file.execute("DELETE FROM journal WHERE n = 'many'")
            if file.execute("SELECT n FROM journal WHERE id = 1").fetchall():
                file.execute("UPDATE journal SET n = ? WHERE id = 1 AND n IS NULL", (self.rows.get(1),))


class Postgres(SourceCase):
    """A table of PostgreSQL, each offer a transaction."""

    name = "postgres-cdc"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.database = get_server().create_database()
        self.database.run(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)",
            "CREATE TABLE other (id BIGINT PRIMARY KEY)",
            "CREATE PUBLICATION tideline FOR TABLE t",
        )

    @property
    def options(self) -> str:
        return self.database.options("public.t")

    def write(self, changes: tuple[Change, ...]) -> None:
        with self.database.connect(autocommit=False) as connection:
            if not changes:
                connection.execute("INSERT INTO other SELECT count(*) FROM other")
            for key, value in changes:
                if value == GONE:
                    connection.execute("DELETE FROM t WHERE id = %s", (key,))
                    continue
                text = "INSERT INTO t (id, n) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n"
                connection.execute(text, (key, value))

    def offer_again(self) -> None:
        self.database.run("VACUUM t")

    def widen(self, key: int) -> None:
        self.database.run("ALTER TABLE t ADD COLUMN more BIGINT")
        self.offer((key, 1))

    def lose(self) -> str:
        self.database.run("ALTER TABLE t RENAME COLUMN n TO m", "INSERT INTO t (id) VALUES (999)")
        return "n"

    def retype(self) -> str:
        self.database.run("ALTER TABLE t ALTER n TYPE text", "INSERT INTO t VALUES (999, 'many')")
        return "n"

    def mend(self, session: Session) -> None:
        columns = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
        self.database.run("DELETE FROM t WHERE id = 999")
        if ("m",) in self.database.ask(columns):
            self.database.run("ALTER TABLE t RENAME COLUMN m TO n")
        self.database.run("ALTER TABLE t ALTER n TYPE bigint USING n::bigint")
        session.sql("ALTER TABLE t RESYNC")


class Kafka(SourceCase):
    """A topic with keys and tombstones, each offer a transaction."""

    name = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.topic = make_topic()

    @property
    def options(self) -> str:
        return self.topic.options(envelope="upsert", poll_messages="100000000")

    def write(self, changes: tuple[Change, ...]) -> None:
        messages = [
            (str(key), None if value == GONE else json.dumps({"id": key, "n": value}))
            for key, value in changes
        ]
        self.topic.write_transaction(messages or [("1", "{")], commit=bool(messages))

    def offer_again(self) -> None:
        self.topic.write_transaction([("1", None)], commit=False)

    def widen(self, key: int) -> None:
        self.rows[key] = 1
        self.topic.write((str(key), json.dumps({"n": 1, "more": 2})))

    def lose(self) -> str:
        self.topic.write((None, '{"n": 1}'))
        return "key"

    def retype(self) -> str:
        self.topic.write(("999", '{"n": "many"}'))
        return "n"


SERVERS: Final = {Postgres: pytest.mark.postgres, Kafka: pytest.mark.kafka}
"""Cases that need a server, with the marks of tests that start one."""
CASES: tuple[type[SourceCase], ...] = (
    LandingCsv,
    LandingJson,
    LandingParquet,
    LandingByTasks,
    LandingS3,
    LandingS3Parquet,
    Nexmark,
    NexmarkPassed,
    Journal,
    Delta,
    DeltaWithoutFeed,
    DeltaPassed,
    DeltaPassedWithoutFeed,
    Postgres,
    Kafka,
)
PARAMETERS = [pytest.param(case, id=case.name, marks=SERVERS.get(case, ())) for case in CASES]
