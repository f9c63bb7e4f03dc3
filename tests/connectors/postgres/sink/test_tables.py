"""What a table or a database lacks is told by CREATE SINK, with what to run there, before anything is made here or there."""

from __future__ import annotations

import uuid

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.connectors.postgres.server import PASSWORD, Database
from tests.connectors.postgres.sink.targets import place, write
from tests.connectors.sinks.deliveries import deliver

pytestmark = pytest.mark.postgres


@pytest.fixture
def source(lake: Session) -> Session:
    """A session with a table t of one row."""
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, d DECIMAL(10, 2))")
    lake.sql("INSERT INTO t VALUES (1, 'a', 1.5)")
    return lake


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("id bigint PRIMARY KEY, v text", ("has no column d", 'ADD COLUMN "d" numeric(10,2)')),
        ("id int PRIMARY KEY, v text, d numeric", ("column id is bigint here and integer", "TYPE bigint")),
        (
            "id bigint PRIMARY KEY, v text, d numeric(9,2)",
            ("column d is decimal(10,2) here", "TYPE numeric(10,2)"),
        ),
        ("id bigint PRIMARY KEY, v char(9), d numeric", ("column v is string here", "TYPE text")),
        ("id bigint PRIMARY KEY, v text, d double precision", ("does not hold every numeric(10,2)",)),
        ("id bigint PRIMARY KEY, v text[], d numeric", ("text[] is no text",)),
        ("id bigint, v text, d numeric", ("no unique index of the view's key (id)", 'ADD UNIQUE ("id")')),
        ("id bigint, v text, d numeric, UNIQUE (id, v)", ("no unique index of the view's key (id)",)),
        ("id bigint, v text, d numeric, UNIQUE (id) DEFERRABLE", ("no unique index",)),
        (
            "id bigint PRIMARY KEY, v text, d numeric, w int NOT NULL",
            ("column w of public.there is NOT NULL without a DEFAULT", "DROP NOT NULL"),
        ),
        (
            "id bigint PRIMARY KEY, v text GENERATED ALWAYS AS ('x') STORED, d numeric",
            ("column v of public.there is generated", "leave it out"),
        ),
        (
            "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text, d numeric",
            ("column id of public.there is generated",),
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    table: str, words: tuple[str, ...], source: Session, database: Database
) -> None:
    database.run(f"CREATE TABLE there ({table})")
    with pytest.raises(SqlError) as refused:
        source.sql(write(**place(database, "there")))
    assert all(word in str(refused.value) for word in words), refused.value
    assert "s" not in source.catalog.relations
    assert database.ask("SELECT to_regclass('tideline_sinks')") == [(None,)]


@pytest.mark.parametrize(
    "table",
    [
        "id bigint PRIMARY KEY, v text, d numeric, w int NOT NULL DEFAULT 5, x serial",
        "d numeric(20,4), v varchar(5), id numeric UNIQUE",
        "id bigint PRIMARY KEY, v text, d numeric, g int GENERATED ALWAYS AS (1) STORED",
        "id bigint, v text, d numeric, PRIMARY KEY (id) INCLUDE (v)",
    ],
)
def test_a_table_that_holds_the_rows_is_taken(table: str, source: Session, database: Database) -> None:
    database.run(f"CREATE TABLE there ({table})")
    source.sql(write(**place(database, "there")))
    deliver(source)
    source.sql("UPDATE t SET v = 'b'")
    deliver(source)
    assert database.ask("SELECT id::int, v, d::text::float FROM there") == [(1, "b", 1.5)]


def test_tables_of_partitions_are_taken(source: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE there (id bigint PRIMARY KEY, v text, d numeric) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF there FOR VALUES FROM (0) TO (100)",
    )
    source.sql(write(**place(database, "there")))
    deliver(source)
    assert database.ask("SELECT id, v FROM low") == [(1, "a")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": "1"}, ("refused",)),
        ({"database": "nowhere"}, ('database "nowhere" does not exist',)),
        ({"username": "nobody"}, ("password authentication failed",)),
        ({"table": "missing.t"}, ("there is no schema missing", 'CREATE SCHEMA "missing"')),
        ({"table": "seen"}, ("public.seen is a view", "name a table")),
        ({"sslmode": "require"}, ("SSL",)),
    ],
)
def test_what_is_not_there_is_told(
    options: dict[str, str], words: tuple[str, ...], source: Session, database: Database
) -> None:
    database.run("CREATE VIEW seen AS SELECT 1::bigint AS id, 'a'::text AS v, 1::numeric AS d")
    with pytest.raises(SqlError) as refused:
        source.sql(write(**{**place(database), **options}))
    assert all(word in str(refused.value) for word in words), refused.value
    assert PASSWORD not in str(refused.value)


def test_missing_rights_are_told_with_what_grants_them(
    source: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"r_{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("TIDELINE_TESTS_OTHER", "other-secret")
    database.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'other-secret'",
        "CREATE SCHEMA shop",
        f"REVOKE TEMPORARY ON DATABASE {database.name} FROM PUBLIC",
    )
    options = place(database, "shop.t", username=role, password_variable="TIDELINE_TESTS_OTHER")

    def refuse(*words: str) -> None:
        with pytest.raises(SqlError) as refused:
            source.sql(write(**options))
        said = str(refused.value)
        assert all(word in said for word in words), said
        database.run(said.rpartition("\n")[2].strip())  # what it says is what has to be run

    refuse("may not make temporary tables", "GRANT TEMPORARY ON DATABASE")
    refuse("may not use the schema shop", 'GRANT USAGE ON SCHEMA "shop"')
    refuse("may not create shop.t and shop.tideline_sinks", 'GRANT CREATE ON SCHEMA "shop"')
    database.run("CREATE TABLE shop.t (id bigint PRIMARY KEY, v text, d numeric)")
    refuse("may not SELECT, INSERT, UPDATE, DELETE in shop.t", "GRANT SELECT, INSERT, UPDATE, DELETE ON")
    database.run("ALTER TABLE shop.t ENABLE ROW LEVEL SECURITY")
    refuse("row level security hides rows", "BYPASSRLS")
    source.sql(write(**options))
    deliver(source)
    database.run(f"REVOKE UPDATE ON shop.t FROM {role}")
    source.sql("UPDATE t SET v = 'b'")
    (report,) = source.sinks.run(wait_seconds=60)
    assert report.error is not None and 'GRANT UPDATE ON "shop"."t"' in report.error


def test_two_sinks_do_not_write_one_table(
    source: Session, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source.sql(write("a", **place(database)), build=False)
    with pytest.raises(SqlError, match="sink a writes postgresql://"):
        source.sql(write("b", **place(database)))
    with Session((tmp_path_factory.mktemp("other") / "store").as_uri()) as other:
        other.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, d DECIMAL(10, 2))")
        other.sql(write("b", **place(database)), build=False)
        deliver(source)
        (report,) = other.sinks.run(wait_seconds=60)
        assert (
            report.error is not None
            and "DELETE FROM" in report.error
            and "/a writes public.t" in report.error
        )
        other.sql("DROP SINK b")
        with pytest.raises(SqlError, match=r"/a writes public\.t, as public\.tideline_sinks there says"):
            other.sql(write("c", **place(database)))
        source.sql("DROP SINK a")
        other.sql(write("c", **place(database)))


def test_names_of_any_kind_are_quoted(lake: Session, database: Database) -> None:
    schema, table = 'S"1; 100%', "T'; --%s"
    database.run('CREATE SCHEMA "S""1; 100%"')
    lake.sql('CREATE TABLE t (`i d"` BIGINT PRIMARY KEY, `v%s` STRING)')
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    quoted = f"{schema}.{table}".replace("'", "''")
    options = {**place(database), "table": "TABLE"}
    lake.sql(write(**options).replace("'TABLE'", f"'{quoted}'"))
    deliver(lake)
    lake.sql('DELETE FROM t WHERE `i d"` = 1')
    lake.sql("UPDATE t SET `v%s` = 'c'")
    deliver(lake)
    assert database.ask('SELECT "i d""", "v%s" FROM "S""1; 100%"."T\'; --%s"') == [(2, "c")]
    lake.sql("DROP SINK s")
    assert database.ask('SELECT count(*) FROM "S""1; 100%".tideline_sinks') == [(0,)]
