"""What a database lacks is told by CREATE TABLE, with what to do, before anything is made here or there."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from engine.connectors.source_trial import try_source
from engine.errors import SqlError, TidelineError
from engine.session import Session
from tests.connectors.postgres.server import PASSWORD, PASSWORD_VARIABLE, Database
from tests.connectors.postgres.test_source import PAIR, create, poll

pytestmark = pytest.mark.postgres


@pytest.fixture
def prepared(database: Database) -> Database:
    """A database with a table a that can be followed, and some that cannot."""
    database.run(
        "CREATE TABLE a (id bigint PRIMARY KEY, n bigint, made bigint GENERATED ALWAYS AS (id + 1) STORED)",
        "CREATE TABLE bag (id bigint, n bigint)",
        "CREATE TABLE still (id bigint PRIMARY KEY, n bigint)",
        "ALTER TABLE still REPLICA IDENTITY NOTHING",
        "CREATE TABLE coded (id bigint PRIMARY KEY, n bigint NOT NULL UNIQUE)",
        "CREATE TABLE parts (id bigint PRIMARY KEY, n bigint) PARTITION BY RANGE (id)",
        "CREATE TABLE outside (id bigint PRIMARY KEY, n bigint)",
        "CREATE TABLE odd (id numeric PRIMARY KEY, boxes box[])",
        "CREATE PUBLICATION tideline FOR TABLE a, bag, still, coded, parts, odd",
        "CREATE PUBLICATION half FOR TABLE a WITH (publish = 'insert')",
        "CREATE PUBLICATION filtered FOR TABLE a WHERE (id > 5)",
        "CREATE PUBLICATION few FOR TABLE a (id)",
    )
    return database


@pytest.mark.parametrize(
    ("name", "columns", "options", "words"),
    [
        ("a", PAIR, {"hostname": "no-such-host.invalid"}, ("no-such-host.invalid",)),
        ("a", PAIR, {"port": "1"}, ("refused",)),
        ("a", PAIR, {"database": "nowhere"}, ('database "nowhere" does not exist',)),
        ("a", PAIR, {"username": "nobody"}, ("password authentication failed",)),
        ("a", PAIR, {"password_variable": "TIDELINE_TESTS_UNSET"}, ("TIDELINE_TESTS_UNSET", "is not set")),
        ("missing", PAIR, {}, ("there is no table public.missing", "the publication tideline has public.a")),
        (
            "a",
            PAIR,
            {"publication": "none"},
            ("there is no publication none", "CREATE PUBLICATION", '"public"."a"'),
        ),
        ("outside", PAIR, {}, ("has no table public.outside", 'ALTER PUBLICATION "tideline" ADD TABLE')),
        ("a", PAIR, {"publication": "half"}, ("leaves out: update, delete, truncate", "SET (publish")),
        ("a", PAIR, {"publication": "filtered"}, ("tells only rows", "(id > 5)")),
        ("a", PAIR, {"publication": "few"}, ("does not tell column n",)),
        ("parts", PAIR, {}, ("has partitions", "publish_via_partition_root = true")),
        ("still", PAIR, {}, ("REPLICA IDENTITY NOTHING", "REPLICA IDENTITY DEFAULT")),
        ("odd", "id DOUBLE PRIMARY KEY", {}, ("the same for several values of numeric", "id DECIMAL(38, 9)")),
        (
            "odd",
            "id DECIMAL(9, 2) PRIMARY KEY, boxes ARRAY<STRING>",
            {},
            ("box[] in public.odd", "boxes STRING"),
        ),
        ("bag", PAIR, {}, ("does not tell the rows of public.bag apart", "PRIMARY KEY")),
        ("a", "id BIGINT, n BIGINT, PRIMARY KEY (n)", {}, ("the key (n) does not tell the rows", "id")),
        ("coded", "id BIGINT, n BIGINT, PRIMARY KEY (n)", {}, ("goes by (id)", "REPLICA IDENTITY FULL")),
        (
            "a",
            "id BIGINT PRIMARY KEY, m BIGINT",
            {},
            ("public.a has no column m", "its columns are id, n, made"),
        ),
        (
            "a",
            "id BIGINT PRIMARY KEY, n INT",
            {},
            ("column n is int here and bigint in public.a", "write n BIGINT"),
        ),
        (
            "a",
            "id BIGINT PRIMARY KEY, n BIGINT NOT NULL",
            {},
            ("may be null in public.a", "leave NOT NULL out"),
        ),
        ("a", "id BIGINT PRIMARY KEY, made BIGINT", {}, ("is generated", "leave it out")),
    ],
)
def test_what_cannot_be_followed_is_refused(
    lake: Session,
    prepared: Database,
    name: str,
    columns: str,
    options: dict[str, str],
    words: tuple[str, ...],
) -> None:
    with pytest.raises(SqlError) as refused:
        create(lake, prepared, name, columns, **options)
    said = str(refused.value)
    assert all(word in said for word in words), said
    assert PASSWORD not in said
    assert not lake.catalog.relations
    assert not prepared.ask(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{prepared.name}'")


def test_a_wrong_password_and_missing_rights_are_told(
    lake: Session, prepared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"r_{uuid.uuid4().hex[:12]}"
    prepared.run(f"CREATE ROLE {role} LOGIN PASSWORD 'other-secret'")
    with pytest.raises(SqlError, match="password authentication failed"):
        create(lake, prepared, "a", PAIR, username=role)
    monkeypatch.setenv("TIDELINE_TESTS_OTHER", "other-secret")
    options = {"username": role, "password_variable": "TIDELINE_TESTS_OTHER"}
    with pytest.raises(SqlError, match="may not replicate") as refused:
        create(lake, prepared, "a", PAIR, **options)
    assert f'ALTER ROLE "{role}" REPLICATION' in str(refused.value)
    prepared.run(f"ALTER ROLE {role} REPLICATION")
    with pytest.raises(SqlError, match=r"may not read public\.a") as refused:
        create(lake, prepared, "a", PAIR, **options)
    assert f'GRANT SELECT ON "public"."a" TO "{role}"' in str(refused.value)
    prepared.run(f"GRANT SELECT ON a TO {role}")
    create(lake, prepared, "a", PAIR, **options)
    prepared.run("INSERT INTO a VALUES (1, 1)")
    assert poll(lake)[0].rows == 1
    prepared.run("INSERT INTO a VALUES (2, 1)")
    assert poll(lake)[0].rows == 1


def test_a_slot_of_another_plugin_or_database_is_refused(
    lake: Session, prepared: Database, database: Database
) -> None:
    slot = f"{database.name}_other"
    prepared.run(f"SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')")
    with pytest.raises(SqlError, match="has the output plugin test_decoding"):
        create(lake, prepared, "a", PAIR, slot=slot, publication="tideline")
    prepared.run(f"SELECT pg_drop_replication_slot('{slot}')")
    Database(database.port, "postgres").run(
        f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"
    )
    with pytest.raises(SqlError, match="is of the database postgres"):
        create(lake, prepared, "a", PAIR, slot=slot, publication="tideline")
    Database(database.port, "postgres").run(f"SELECT pg_drop_replication_slot('{slot}')")


def test_no_secret_is_kept_or_shown(lake: Session, prepared: Database, tmp_path: Path) -> None:
    create(lake, prepared, "a", PAIR)
    poll(lake)
    lake.close()
    assert PASSWORD_VARIABLE in str(lake.catalog.get("a").options)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()


def test_a_source_is_tried_in_words(lake: Session, prepared: Database) -> None:
    create(lake, prepared, "a", PAIR)

    def tell() -> list[str]:
        found = try_source(lake.store, lake.catalog.get("a"), lake.open_spark)
        return [f"{one.asked} {one.works}: {one.words}" for one in found]

    first = tell()
    assert [one.split(":")[0] for one in first] == ["connect True", "read True", "resume True"]
    assert "begin with a snapshot" in first[2]
    poll(lake)
    assert "it goes on after 0/" in tell()[2] and "holds back" in tell()[2]
    prepared.run(f"SELECT pg_drop_replication_slot('{prepared.name}')")
    assert tell()[2].startswith("resume False") and "RESYNC" in tell()[2]
    prepared.run("DROP TABLE a")
    assert tell()[1].startswith("read False")
    with pytest.raises(TidelineError, match=r"is gone|there is no table"):
        lake.sql("ALTER TABLE a RESYNC")
