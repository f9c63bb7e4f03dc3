"""What a real database holds is discovered: the statements work once what they need first has been run there."""

from __future__ import annotations

import re

import pytest

from engine.connectors.contract.discovery import FoundTable
from engine.connectors.discovery import discover_tables
from engine.errors import SourceError
from engine.session import Session
from tests.connectors.postgres.server import PASSWORD, PASSWORD_VARIABLE, Database

pytestmark = pytest.mark.postgres


def find(database: Database, query: str = "", /, **options: str) -> dict[str, FoundTable]:
    """Return the tables of a database by the names that they get here."""
    place = f"postgresql://tideline@127.0.0.1:{database.port}/{database.name}{query}"
    given = {"password_variable": PASSWORD_VARIABLE, **options}
    return {table.name: table for table in discover_tables(place, given)}


TABLES = (
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    'CREATE TABLE "Odd Names" ("Id" int PRIMARY KEY, "a b" text)',
    "CREATE TABLE many (b int, a bigint, n numeric(12, 2), x numeric, m mood, u uuid, j jsonb, t int[], at timestamptz, "
    "twice int GENERATED ALWAYS AS (b * 2) STORED, PRIMARY KEY (b, a))",
    "CREATE TABLE keyless (n int)",
    'CREATE TABLE "a.b" (id int PRIMARY KEY)',
    "CREATE TABLE chosen (id int PRIMARY KEY, code text NOT NULL UNIQUE)",
    "CREATE SCHEMA other",
    "CREATE TABLE other.chosen (id int PRIMARY KEY)",
    "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10)",
)


def test_every_statement_works_once_the_publication_is_there(lake: Session, database: Database) -> None:
    database.run(*TABLES)
    found = find(database)
    assert set(found) == {"odd_names", "many", "keyless", "a_b", "public_chosen", "other_chosen", "parts"}
    assert {column.name: column.type for column in found["many"].columns} == {
        "b": "int", "a": "bigint", "n": "decimal(12,2)", "x": "decimal(38, 9)", "m": "string", "u": "string",
        "j": "string", "t": "array<int>", "at": "timestamp",
    }  # fmt: skip
    assert found["many"].key == ("b", "a") and found["public_chosen"].key == ("id",)
    assert any("twice: generated" in note for note in found["many"].notes)
    assert "has a dot in a name" in found["a_b"].needs[-1]
    assert "PRIMARY KEY there" in found["keyless"].needs[-1]
    shared = {need for table in found.values() for need in table.needs if "publication" in need}
    assert len(shared) == 1
    first = re.search(r"run there: (CREATE PUBLICATION .*)", shared.pop())
    assert first is not None
    database.run(first[1], "INSERT INTO \"Odd Names\" VALUES (1, 'x')", "INSERT INTO parts VALUES (3)")
    found = find(database)
    for name, table in found.items():
        assert bool(table.needs) == (name in ("keyless", "a_b")), table.needs
        if not table.needs:
            lake.sql(table.format_statement())
    assert not [one.error for one in lake.poll() if one.error]
    assert [tuple(row.values()) for row in lake.sql("SELECT * FROM odd_names").to_pylist()] == [(1, "x")]
    assert lake.sql("SELECT id FROM parts").to_pylist() == [{"id": 3}]


def test_what_a_table_needs_is_told_by_name(database: Database) -> None:
    database.run(
        *TABLES,
        "CREATE PUBLICATION narrow FOR TABLE chosen, keyless",
        "ALTER TABLE chosen REPLICA IDENTITY NOTHING",
    )
    found = find(database, "?publication=narrow&schema=public")
    assert set(found) == {"odd_names", "many", "keyless", "a_b", "chosen", "parts"}
    assert "REPLICA IDENTITY NOTHING" in found["chosen"].needs[0]
    assert "ALTER PUBLICATION" in found["many"].needs[0] and found["many"].options["publication"] == "narrow"


def test_the_key_is_the_one_that_postgresql_tells(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL)",
        "CREATE UNIQUE INDEX code ON t (code)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX code",
    )
    assert find(database)["t"].key == ("code",)


def test_who_may_not_replicate_is_told_once_for_all(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE hidden (id int PRIMARY KEY)")
    role = f"reader_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'", f"GRANT SELECT ON t TO {role}")
    found = find(database, username=role)
    assert set(found) == {"t"} and "may not replicate" in found["t"].needs[0]


def test_a_database_that_is_not_there_is_told(database: Database) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        find(database, database="nowhere")
