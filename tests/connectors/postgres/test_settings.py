"""Options of a table that follows PostgreSQL: what is refused before any server is asked, and that no password is shown."""

from __future__ import annotations

import importlib

import pytest

from engine.connectors.postgres import connection
from engine.connectors.postgres.settings import parse_settings, validate_options
from engine.errors import SourceError, SqlError
from engine.session import Session

GIVEN = {
    "connector": "postgres-cdc",
    "hostname": "127.0.0.1",
    "port": "1",
    "database": "shop",
    "username": "reader",
    "table": "public.orders",
    "slot": "tideline_shop",
}


def write(columns: str = "id BIGINT PRIMARY KEY, n BIGINT", clause: str = "", **options: str) -> str:
    """Return a CREATE TABLE; an option that is empty is left out."""
    texts = {name: value for name, value in {**GIVEN, **options}.items() if value}
    return f"CREATE TABLE t ({columns}) {clause} WITH ({', '.join(f'{n} = {v!r}' for n, v in texts.items())})"


def test_options_are_read() -> None:
    settings = parse_settings({**GIVEN, "table": "orders"})
    assert (settings.schema, settings.table, settings.publication) == ("public", "orders", "tideline_shop")
    assert settings.group == "127.0.0.1:1/shop/tideline_shop"
    assert validate_options(GIVEN) is None


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (write(hostname=""), ("needs hostname",)),
        (write(slot=""), ("needs slot",)),
        (write(port="many"), ("port = 'many' is no port", "5432")),
        (write(port="70000"), ("is no port",)),
        (write(slot="Tideline-1"), ("no name of a replication slot", "small letters")),
        (write(sslmode="maybe"), ("sslmode = 'maybe' is unknown", "verify-full")),
        (write(table="a.b.c"), ("names no table", "schema.name")),
        (write(password_variable="hunter 2"), ("is the name of a variable, and no password",)),
        (write(password="x"), ("has no option password", "did you mean")),
        (write(tabel="x"), ("has no option tabel", "did you mean table?")),
        (write("id BIGINT"), ("needs a PRIMARY KEY",)),
        (write("id BIGINT PRIMARY KEY", "APPEND ONLY"), ("is APPEND ONLY", "changed and deleted")),
        (write("id BIGINT PRIMARY KEY, n BIGINT DEFAULT 5"), ("has a DEFAULT", "in a view")),
        (write().replace("CREATE TABLE", "CREATE SOURCE"), ("needs the rows that came before",)),
    ],
)
def test_a_bad_option_is_refused_with_what_to_write(
    lake: Session, statement: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(SqlError) as refused:
        lake.sql(statement)
    assert all(word in str(refused.value) for word in words), refused.value
    assert "t" not in lake.catalog.relations


def test_without_psycopg_it_is_said_what_to_install(lake: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", lack)
    with pytest.raises(SourceError, match=r"pip install 'tideline\[postgres-source\]'"):
        connection.load_psycopg()
    with pytest.raises(SqlError, match=r"pip install 'tideline\[postgres-source\]'"):
        lake.sql(write())
    assert "t" not in lake.catalog.relations


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = parse_settings({**GIVEN, "password_variable": "SHOP_PASSWORD"})
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(
        SourceError, match="the variable SHOP_PASSWORD, which password_variable names, is not set"
    ):
        settings.read_password()
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    assert settings.read_password() == "secret"
    assert "secret" not in repr(settings)
