"""A statement whose settings cannot work is refused when it is run: in words, at its place, before anything is made.

Others are told of by `test_table_options.py`, `test_confinement.py`, `test_source.py`, `sinks/test_sinks.py` and
`sinks/delta/test_copies.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.jars import has_s3a
from engine.session import Session
from tests.connectors.bad_settings import TABLES, Bad, check_refused, furnished


def landing(options: str, columns: str = "id INT PRIMARY KEY") -> str:
    return f"CREATE TABLE x ({columns}) WITH (connector = 'landing', {options})"


def delta(options: str, columns: str = "id BIGINT PRIMARY KEY, v STRING") -> str:
    return f"CREATE TABLE x ({columns}) WITH (connector = 'delta', {options})"


def passing(connector: str, options: str, columns: str) -> str:
    return f"CREATE SOURCE x ({columns}) WITH (connector = '{connector}', {options})"


def nexmark(options: str, columns: str = "auction BIGINT") -> str:
    return passing("nexmark", options, columns).replace("SOURCE x", "SOURCE bid")


def sink(connector: str, options: str, source: str = "t") -> str:
    return f"CREATE SINK x FROM {source} WITH (connector = '{connector}', {options})"


TIMED = "id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 minutes'"
OUTSIDE = "name a folder that holds it in the environment variable TIDELINE_ALLOWED_PATHS"

SOURCES = [
    Bad(landing("path = ''"), "path", "needs a folder", "path = 'folder'"),
    Bad(landing("path = 'nowhere'"), "path", "there is no folder", "create it, or correct its path"),
    Bad(landing("path = 'file'"), "path", "file is a file", "name the folder"),
    Bad(landing("path = 'file/in'"), "path", "there is no folder", "create it, or correct its path"),
    Bad(landing("path = '../out'"), "path", "lies outside of", OUTSIDE),
    Bad(landing("path = 's3://other/in'"), "path", "no place of this project", "TIDELINE_ALLOWED_PATHS"),
    Bad(landing("path = 's3://no-bucket/../other'"), "path", "no address of a bucket", "s3://bucket/prefix"),
    Bad(landing("path = 's3://no-bucket/in'"), "path", "no bucket no-bucket", "create it, or correct"),
    Bad(landing("path = 's3://no-bucket!/in'"), "path", "that is no name of a bucket", "s3://bucket/prefix"),
    Bad(landing("path = 'file:///tmp'"), "path", "not read from file://", "path = 'folder'"),
    Bad(landing("path = 'https://h/in'"), "path", "not read from https://", "'s3://bucket/prefix'"),
    Bad(landing("path = 'landing', zip_level = '9'"), "zip_level", "no option zip_level", "options"),
    Bad(landing("path = 'landing', format = 'xml'"), "format", '"xml" is unknown', "csv, json, parquet"),
    Bad(landing("path = 'landing', formt = 'csv'"), "formt", "no option formt", "did you mean format?"),
    Bad(landing("path = 'landing', delimiter = ''"), "delimiter", "can't be used", ""),
    Bad(
        landing("path = 'landing', format = 'json', delimiter = ';'"),
        "delimiter",
        "delimiter is of CSV",
        "leave delimiter or format out",
    ),
    Bad(
        landing("path = 'landing', format = 'parquet', null = 'NA'"),
        "null",
        "null is of CSV",
        "leave null or format out",
    ),
    Bad(landing("path = 'landing', path = 'empty'"), "path", "occurs twice", "once"),
    Bad(landing("path = 'landing', retention_seconds = '-1'"), "retention_seconds", "above 0", "3600"),
    Bad(
        landing("path = 'landing', idle_timeout = 'soon'", TIMED).replace(") WITH", ") APPEND ONLY WITH"),
        "idle_timeout",
        "'soon' means nothing",
        "write idle_timeout = '1 minute'",
    ),
    Bad(delta("path = 'nowhere'"), "path", "there is no folder", "correct its path"),
    Bad(delta("path = 'file'"), "path", "file is a file", "correct its path"),
    Bad(delta("path = 'notes'"), "path", "no Delta table at notes", "name the folder that holds one"),
    Bad(delta("path = '../out'"), "path", "lies outside of", OUTSIDE),
    Bad(delta("path = 'gs://b/x'"), "path", "gs: is no place that is read", "s3://bucket/prefix"),
    Bad(delta("path = 's3://other/t'"), "path", "no place of this project", "TIDELINE_ALLOWED_PATHS"),
    Bad(delta("path = 's3://no-bucket/t'"), "path", "there is no such bucket", "correct its path"),
    Bad(delta("path = 'cut'"), "path", "does not tell its schema at version 7", "restore it"),
    Bad(delta("path = 'damaged'"), "path", "of the Delta table at damaged can't be read", ""),
    Bad(delta("path = 'lake', version = '3'"), "version", "no option version", "options are connector, path"),
    Bad(delta("path = 'lake'", "id BIGINT, v STRING"), "connector", "needs a PRIMARY KEY", "PRIMARY KEY (…)"),
    Bad(delta("path = 'lake'", "PRIMARY KEY (nr)"), "nr", "has no column nr", "its columns are id, v"),
    Bad(
        delta("path = 'lake'", "id BIGINT PRIMARY KEY, w STRING"),
        "w ",
        "no column w",
        "its columns are id, v",
    ),
    Bad(delta("path = 'lake'", "id INT PRIMARY KEY"), "id", "id is int here and bigint", "write id BIGINT"),
    Bad(
        delta("path = 'variant'", "id BIGINT PRIMARY KEY, v STRING"), "v ", "variant", "leave the column out"
    ),
    Bad(
        delta("path = 'variant'", "PRIMARY KEY (id)"), "(", "v of the Delta table is variant", "list the col"
    ),
    Bad(delta("path = 'interval'", "PRIMARY KEY (id)"), "(", "interval day to second", "list the columns"),
    Bad(nexmark("type = 'bids', max_events = '9'"), "type", "'bids' is unknown", "person, auction, bid"),
    Bad(nexmark("event_rate = '0'"), "event_rate", "no whole number from 1", "write event_rate = '100'"),
    Bad(nexmark("event_rate = '1e3'"), "event_rate", "no whole number", "write event_rate = '100'"),
    Bad(nexmark(f"event_rate = '{10**20}'"), "event_rate", "to 1000000000000", "write event_rate = '100'"),
    Bad(nexmark(f"max_events = '{10**20}'"), "max_events", "to 1000000000000", "write max_events = '100'"),
    Bad(nexmark("max_events = '9', seed = '-1'"), "seed", "no whole number from 0", "write seed = '100'"),
    Bad(nexmark("seed = '1'"), "connector", "the events never end", "give event_rate, max_events, or both"),
    Bad(nexmark("max_events = '9'", "auctoin BIGINT"), "connector", "no column auctoin", "they have id"),
    Bad(nexmark("max_events = '9'", "auction DATE"), "connector", "auction is date", "write auction BIGINT"),
    Bad(nexmark("max_events = '9'", "channel INT"), "connector", "channel is int", "write channel STRING"),
    Bad(
        landing("path = 'landing'").replace("'landing',", "'kinesis',"),
        "connector",
        "'kinesis'",
        "connectors are",
    ),
    Bad(
        landing("path = 'landing'").replace("'landing',", "'',"),
        "connector",
        "connector ''",
        "connectors are",
    ),
]

PASSED = [
    Bad(
        passing("landing", "path = 'landing'", "id INT"),
        "connector",
        "landing needs the rows that came before",
        "CREATE TABLE … WITH (connector = …) keeps them",
    ),
    Bad(passing("file", "path = 'landing'", "id INT"), "connector", "no connector 'file'", "connectors are"),
    Bad("CREATE SOURCE x (id INT)", "SOURCE", "a source needs a connector", "connector = 'nexmark'"),
    Bad(
        "CREATE SOURCE x WITH (connector = 'nexmark', type = 'bid')",
        "x WITH",
        "x needs columns",
        "behind its name",
    ),
    Bad(
        passing("nexmark", "max_events = '9'", "auction BIGINT"),
        "connector",
        "type 'x' is unknown",
        "one of person, auction, bid",
    ),
    Bad(
        nexmark("max_events = '9'", "auction BIGINT PRIMARY KEY"),
        "connector",
        "bid has a PRIMARY KEY, but nothing holds the keys",
        "leave PRIMARY KEY out, or CREATE TABLE",
    ),
    Bad(
        nexmark("max_events = '9'", "auction BIGINT DEFAULT 3"),
        "connector",
        "auction has a DEFAULT",
        "in a view over the source",
    ),
    Bad(
        nexmark("max_events = '9'", "auction BIGINT, n BIGINT GENERATED ALWAYS AS (auction + 1)"),
        "connector",
        "n is generated",
        "in a view over the source",
    ),
    Bad(
        nexmark("max_events = '9', retention_seconds = '60'"),
        "retention_seconds",
        "no option of a source",
        "no row of a source is kept",
    ),
    Bad(
        nexmark("max_events = '9'").replace(") WITH", ") APPEND ONLY WITH"),
        "SOURCE",
        "APPEND ONLY is no clause of a source",
        "leave it out",
    ),
    Bad(
        passing("delta", "path = 'lake'", "id BIGINT, v STRING"),
        "connector",
        "needs a PRIMARY KEY",
        "PRIMARY KEY (…)",
    ),
    Bad(passing("delta", "path = 'nowhere'", "PRIMARY KEY (id)"), "path", "no folder", "correct its path"),
    Bad(
        passing("delta", "path = 'lake', idle_timeout = '1 minute'", "PRIMARY KEY (id)"),
        "idle_timeout",
        "option of tables with a watermark",
        "leave it out",
    ),
]

SINKS = [
    Bad(sink("file", "format = 'jsonl'"), "CREATE", "needs a path or a url", "path = 'folder'"),
    Bad(sink("file", "path = 'out', url = 'file:///x'"), "url", "one place", "path = 'folder'"),
    Bad(sink("file", "path = 'out', format = 'avro'"), "format", '"avro" is not offered', "parquet or jsonl"),
    Bad(sink("file", "path = 'out', fromat = 'jsonl'"), "fromat", "no option fromat", "did you mean format?"),
    Bad(sink("file", "path = '../out'"), "path", "may not write there", OUTSIDE),
    Bad(sink("file", "path = 'file'"), "path", "file is a file", "name a folder"),
    Bad(sink("file", "path = 'file/in'"), "path", "file is a file", "name a folder"),
    Bad(sink("file", "path = 'lake'"), "path", "lake holds a Delta table", "connector = 'delta'"),
    Bad(sink("file", "url = 'gs://b/x'"), "url", "no address for files", "s3://bucket/prefix"),
    Bad(sink("file", "url = 's3://other/x'"), "url", "no place of this project", "TIDELINE_ALLOWED_PATHS"),
    Bad(sink("file", "url = 's3://no-bucket/x'"), "url", "there is no bucket no-bucket", "make the bucket"),
    Bad(
        sink("file", "path = 'out', compression = 'lz4'"), "compression", '"lz4" is not offered', "none, gzip"
    ),
    Bad(sink("delta", "path = 'out', compression = 'gzip'"), "compression", "no option compr", "options are"),
    Bad(sink("file", "path = 'out', rows_per_file = '0'"), "rows_per_file", "a number from 1", "= 500000"),
    Bad(sink("file", "path = 'out', retention = 'soon'"), "retention", "no time span", "'7 days'"),
    Bad(sink("file", "path = 'out', type = 'append'"), "type", 'not "append"', "type = 'append-only'"),
    Bad(sink("file", "path = 'out', type = 'append-only'"), "t ", "changes and deletes", "type = 'upsert'"),
    Bad(sink("pulsar", "path = 'out'"), "connector", "of a sink is file or delta", "connector = 'file'"),
    Bad("CREATE SINK x FROM t WITH (conector = 'file')", "conector", "no option conector", "mean connector?"),
    Bad(
        "CREATE SINK x AS SELECT id, count(*) AS n FROM t GROUP BY id WITH (connector = 'file', path = 'file')",
        "path",
        "file is a file",
        "name a folder",
    ),
    Bad("CREATE SINK x FROM t INTO qqq", "qqq", "there is no table qqq", "SHOW TABLES"),
    Bad("CREATE SINK x FROM t INTO plain", "plain", "plain is a view", "CREATE TABLE"),
    Bad("CREATE SINK x FROM t INTO narrow", "narrow", "has no column v", "columns of narrow are id, n"),
    Bad("CREATE SINK x FROM t INTO other", "other", "v is string in t and int in other", "CAST it to int"),
    Bad("CREATE SINK x FROM t INTO keyless", "keyless", "has no PRIMARY KEY", "give the table a PRIMARY KEY"),
    Bad("CREATE SINK x FROM plain INTO narrow", "plain", "keeps no changes", "CREATE MATERIALIZED VIEW"),
    Bad(sink("delta", "path = 'file'"), "path", "file is a file", "name a folder"),
    Bad(sink("delta", "path = 'notes'"), "path", "notes holds files and no Delta table", "an empty folder"),
    Bad(sink("delta", "path = 'out', type = 'append-only'"), "t ", "changes and deletes", "type = 'upsert'"),
    Bad(
        sink("delta", "path = 'out', partition_by = 'w'"), "partition_by", "no column w", "columns are id, v"
    ),
    Bad(sink("delta", "path = 'out', cluster_by = 'w'"), "cluster_by", "no column w", "columns are id, v"),
    Bad(
        sink("delta", "path = 'out', partition_by = 'id', cluster_by = 'v'"), "cluster_by", "not both", "one"
    ),
    Bad(sink("delta", "path = 'out', partiton_by = 'id'"), "partiton_by", "no option", "mean partition_by?"),
    Bad(sink("delta", "path = 'out'", "timed"), "connector", "at is time(6)", "at::STRING"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's home with folders that statements name."""
    made = tmp_path / "home"
    furnished(made)
    monkeypatch.setenv("TIDELINE_HOME", str(made))
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", "s3://no-bucket:s3://no-bucket!")
    return made


@pytest.fixture
def world(home: Path, tmp_path: Path) -> Iterator[Session]:
    """A store with tables; whoever asks for Spark fails."""

    def no_spark() -> SparkSession:
        raise AssertionError("this is to be refused without Spark")

    with Session((tmp_path / "store").as_uri(), no_spark) as session:
        for text in TABLES:
            session.sql(text)
        yield session


@pytest.mark.parametrize(
    "bad", [*SOURCES, *PASSED, *SINKS], ids=lambda bad: bad.sql.partition("WITH")[2] or bad.sql
)
def test_what_cannot_work_is_refused_at_its_place_before_anything_is_made(
    world: Session, home: Path, bad: Bad
) -> None:
    check_refused(world, home, bad)


def test_a_folder_that_has_come_by_then_is_taken_from(world: Session, home: Path) -> None:
    (home / "nowhere").mkdir()
    world.sql(landing("path = 'nowhere'"))
    assert "x" in world.catalog.relations


def test_a_table_that_is_there_is_not_looked_at_again(world: Session, home: Path) -> None:
    world.sql(landing("path = 'empty'"))
    (home / "empty").rmdir()
    world.sql(landing("path = 'empty'").replace("TABLE", "TABLE IF NOT EXISTS"))


TAKEN = [
    Bad(
        "CREATE MATERIALIZED VIEW x WITH (connector = 'delta', path = 'file') AS SELECT id FROM t",
        "path",
        "file is a file",
        "name a folder",
    ),
    Bad(sink("delta", "path = 'typed'"), "path", "v is string and int in the Delta table", "CAST it to int"),
    Bad(sink("delta", "path = 'odd'"), "path", "v is string and variant in the Delta table", "another path"),
    Bad(sink("delta", "path = 'parted'"), "path", "partitioned by v", "partition_by = 'v'"),
    Bad(
        sink("delta", "path = 'flat', partition_by = 'v'"),
        "path",
        "not partitioned",
        "leave partition_by out",
    ),
    Bad(sink("delta", "path = 'flat', cluster_by = 'id'"), "cluster_by", "not clustered", "CLUSTER BY"),
    Bad(sink("delta", "path = 'damaged'"), "path", "while reading file", "put this right"),
    Bad(sink("delta", "path = 'own'"), "path", "the Delta table of kept", "name another path"),
    *(
        []
        if has_s3a()
        else [Bad(sink("delta", "url = 's3://no-bucket/x'"), "url", "no file system", "engine.jars --s3a")]
    ),
    Bad(
        "CREATE MATERIALIZED VIEW x WITH (connector = 'delta', path = 'own') AS SELECT id FROM t",
        "path",
        "sink kept_delta writes",
        "name another path",
    ),
    Bad(
        "CREATE MATERIALIZED VIEW x WITH (connector = 'delta', path = 'flat') AS SELECT id FROM t",
        "path",
        "this view did not create",
        "name another path",
    ),
]


@pytest.mark.long
def test_a_delta_table_that_cannot_take_a_views_rows_is_told_when_the_sink_is_created(
    home: Path, tmp_path: Path, spark: SparkSession
) -> None:
    for name, columns, by in (
        ("flat", "id BIGINT, v STRING", ""),
        ("typed", "id BIGINT, v INT", ""),
        ("odd", "id BIGINT, v VARIANT", ""),
        ("parted", "id BIGINT, v STRING", "PARTITIONED BY (v)"),
    ):
        spark.sql(f"CREATE TABLE delta.`{home / name}` ({columns}) USING delta {by}").collect()
    with Session((tmp_path / "store").as_uri(), spark) as session:
        for text in TABLES:
            session.sql(text)
        own = "CREATE MATERIALIZED VIEW kept WITH (connector = 'delta', path = 'own') AS SELECT id FROM t"
        session.sql(own)
        session.sinks.wait(60)  # the delivery, which goes on beside it, commits
        for bad in TAKEN:
            check_refused(session, home, bad)
