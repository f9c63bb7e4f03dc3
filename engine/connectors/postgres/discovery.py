"""Tables of a PostgreSQL database that could be followed: all that the role may read, or those of one schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit

from engine.connectors.contract.discovery import FoundColumn, FoundTable, keep_columns, to_table_name
from engine.connectors.postgres.columns import (
    FollowingTable,
    PostgresTable,
    PostgresType,
    find_server_problem,
    find_table_problem,
    read_table,
    suggest_type,
)
from engine.connectors.postgres.connection import quote_name
from engine.connectors.postgres.server import PostgresServer
from engine.connectors.postgres.settings import CONNECTOR, OPTIONS, parse_settings, validate_options
from engine.errors import SourceError
from engine.sql.catalog import RelationColumn

SCHEMES = ("postgresql", "postgres")
_OF_URL = ("schema", *(name for name in OPTIONS if name not in ("connector", "table")))
_DIGITS = re.compile(r"numeric\((\d+),(\d+)\)")
_LIST = (
    "SELECT n.nspname::text, c.relname::text, c.reltuples::bigint FROM pg_catalog.pg_class AS c JOIN "
    "pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND "
    "c.relpersistence = 'p' AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema' AND "
    "(%s::text IS NULL OR n.nspname = %s::text) AND pg_catalog.has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 2"
)


def discover_tables(place: str, given: Mapping[str, str]) -> Iterator[FoundTable]:
    """Yield the tables of a database, by an address as `postgresql://role@host:5432/shop?schema=public`."""
    options, schema = _parse_address(place, given)
    settings = parse_settings({**options, "table": "public.found"})
    with PostgresServer(settings) as server:
        listed = server.query(_LIST, schema, schema)
        ((published,),) = server.query(
            "SELECT count(*) FROM pg_catalog.pg_publication WHERE pubname = %s", settings.publication
        )
        needs = list[str]()
        problem = find_server_problem(server)
        if problem is not None:
            needs.append(f"{problem.message}: {problem.hint}")
        named = (one for one in listed if not _has_dot(one))
        names = ", ".join(f"{quote_name(its)}.{quote_name(name)}" for its, name, _ in named)
        if not published and names:
            needs.append(
                f"there is no publication {settings.publication}: run there: CREATE PUBLICATION "
                f"{quote_name(settings.publication)} FOR TABLE {names} WITH (publish_via_partition_root = true)"
            )
        names_here = [to_table_name(name) for _, name, _ in listed]
        for (its, name, rows), here in zip(listed, names_here, strict=True):
            here = here if names_here.count(here) == 1 else to_table_name(its, name)
            own = options | {"table": f"{its}.{name}"}
            if _has_dot((its, name)):
                need = "it has a dot in a name, which the option table does not take: rename it there"
                yield FoundTable(here, own["table"], (), (), own, (*needs, need))
                continue
            found = _describe(server.narrow(parse_settings(own)), here, own, is_published=bool(published))
            if found is not None:
                about = (f"about {rows:,} rows",) if rows >= 0 else ()
                yield replace(found, needs=(*needs, *found.needs), notes=(*about, *found.notes))


def _has_dot(listed: Sequence[object]) -> bool:
    """Tell whether schema or table have a dot in their names, by which nobody could tell them apart."""
    return any("." in str(name) for name in listed[:2])


def _describe(
    server: PostgresServer, name: str, options: dict[str, str], *, is_published: bool
) -> FoundTable | None:
    """Return a table, None if it has gone meanwhile."""
    there = read_table(server)
    if there is None:
        return None
    told = [column for column in there.columns if column.is_published and not column.is_generated]
    columns, notes = keep_columns(
        FoundColumn(one.name, _choose_type(one.type), one.type.shown) for one in told
    )
    generated = [one.name for one in there.columns if one.is_generated]
    if generated:
        notes = (*notes, f"{', '.join(generated)}: generated, so PostgreSQL does not tell the values")
    key = _choose_key(there, [column.name for column in columns])
    found = FoundTable(name, server.settings.path, columns, key, options, notes=notes)
    if not key:
        need = f"nothing tells the rows of {found.path} apart: give it a PRIMARY KEY there"
        return replace(found, needs=(need,))
    listed = tuple(RelationColumn(one.name, one.type, nullable=one.name not in key) for one in columns)
    problem = find_table_problem(server, there, FollowingTable(name, listed, key), looks_up=is_published)
    return found if problem is None else replace(found, needs=(f"{problem.message}: {problem.hint}",))


def _choose_key(table: PostgresTable, columns: list[str]) -> tuple[str, ...]:
    """Return the columns of the unique index that the table here can have as its key, the one that PostgreSQL tells first."""
    identity = {column.name.lower() for column in table.columns if column.in_identity}
    keys = [{name.lower() for name in key} for key in table.keys]
    keys = [key for key in keys if key <= set(columns)]
    keys.sort(key=lambda key: (not key <= identity, key != identity, len(key), sorted(key)))
    return tuple(name for name in columns if keys and name in keys[0])


def _choose_type(its: PostgresType) -> str:
    digits = _DIGITS.fullmatch(its.shown)
    if digits is not None and 0 < int(digits[1]) <= 38 and int(digits[2]) <= int(digits[1]):
        return f"decimal({digits[1]},{digits[2]})"
    return suggest_type(its)


def _parse_address(place: str, given: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """Return the options of an address, those that are given beside it first, and the schema that it is narrowed to."""
    try:
        url = urlsplit(place)
        port = url.port
    except ValueError:  # its words are not shown: a password may be among them
        raise SourceError(
            "that is no address: its host or port cannot be read: write postgresql://role@host:5432/database"
        ) from None
    if "@" in url.path + url.query + url.fragment:
        raise SourceError(
            "an @ stands behind the host of that address: write it as %40 in a name; a password has no place there"
        )
    if url.password is not None:
        raise SourceError(
            "a password has no place in an address, where others see it: set PGPASSWORD, or add --with password_variable=NAME"
        )
    query = dict(parse_qsl(url.query))
    for name in (*query, *given):
        if name not in _OF_URL:
            raise SourceError(f"option {name} is unknown: use {', '.join(_OF_URL)}")
    database = unquote(url.path.strip("/"))
    base = {"connector": CONNECTOR, "hostname": url.hostname or "localhost", "port": str(port or 5432)}
    base |= {"database": database, "username": unquote(url.username or "")}
    base["slot"] = re.sub(r"[^a-z0-9_]", "_", f"tideline_{database.lower()}")[:63]
    options = {**base, **query, **given}
    schema = options.pop("schema", None)
    if options["port"] == "5432":
        del options["port"]
    wrong = validate_options({**options, "table": "public.found"})
    if wrong is not None:
        like = "postgresql://role@host:5432/database"
        raise SourceError(f"{wrong.message}: {wrong.hint if wrong.option else f'write {like}'}")
    return options, schema
