"""Options that name a table of PostgreSQL, and those of a table that follows one: by which slot and publication."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.connectors.contract.connector import StatementProblem, source_options
from engine.connectors.named_secrets import NamedSecret, validate_name
from engine.errors import SourceError
from engine.sql.catalog import Relation

CONNECTOR = "postgres-cdc"
ADDRESS_OPTIONS: Mapping[str, str] = {
    "hostname": "the server's name or address, or the folder of its socket",
    "port": "the server's port; 5432 without it",
    "database": "the database in which the table is",
    "username": "the role that reads, with the right to replicate",
    "password_variable": (
        "the name of the secret that is the password; without it PGPASSWORD, or the file of "
        "passwords ~/.pgpass"
    ),
    "sslmode": "how the connection is secured, as libpq has it: prefer without it, or require, verify-full",
    "table": "the table, with its schema: 'public.orders'; the schema is public without it",
}
"""The options that name a table of a database, of sources and sinks."""
OPTIONS: Mapping[str, str] = {
    "connector": "'postgres-cdc': rows follow a table of PostgreSQL",
    **ADDRESS_OPTIONS,
    "slot": "the replication slot, which is made if there is none; tables with one slot commit together",
    "publication": "the publication that the table is in; without it the one with the name of the slot",
}
"""The options of the source and what they mean; `docs/reference.md` is made of this."""
_NEEDED = ("hostname", "database", "username", "table", "slot")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_LIKE = "WITH (connector = 'postgres-cdc', hostname = …, database = …, username = …, table = 'public.orders', slot = …)"


@dataclass(frozen=True)
class PostgresAddress:
    """A table of a database, and how it is reached."""

    hostname: str
    port: int
    database: str
    username: str
    password_variable: str
    sslmode: str
    schema: str
    table: str

    @property
    def address(self) -> str:
        """The database, as messages name it."""
        return f"PostgreSQL at {self.hostname}:{self.port}, database {self.database}"

    @property
    def path(self) -> str:
        """The table with its schema."""
        return f"{self.schema}.{self.table}"

    @property
    def sql_name(self) -> str:
        """The table with its schema, as PostgreSQL's SQL has it."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in (self.schema, self.table))

    def read_password(self) -> str | None:
        """Return the password that the options name, None if they name none; raises SourceError if it is not there."""
        if not self.password_variable:
            return None
        return NamedSecret(self.password_variable, "password_variable").read()


@dataclass(frozen=True)
class PostgresSettings(PostgresAddress):
    """The options of one table that follows one of PostgreSQL."""

    slot: str
    publication: str

    @property
    def group(self) -> str:
        """What tables share that are taken together."""
        return f"{self.hostname}:{self.port}/{self.database}/{self.slot}"


def validate_options(options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option that is missing or means nothing, None if all do."""
    for name in _NEEDED:
        if not options.get(name, "").strip():
            return StatementProblem("", f"the connector {CONNECTOR} needs {name}", f"write {_LIKE}")
    if not _SLOT.fullmatch(options["slot"]):
        message = f"slot = '{options['slot']}' is no name of a replication slot"
        return StatementProblem(
            "slot", message, "small letters, digits and _, 63 at most: slot = 'tideline_shop'"
        )
    return validate_address(options)


def validate_address(options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option of a table's address that means nothing, None if all do."""
    port = options.get("port", "5432")
    if not port.strip().isdecimal() or not 0 < int(port) < 65_536:
        return StatementProblem("port", f"port = '{port}' is no port", "write port = '5432'")
    problem = validate_name(options, "password_variable")
    if problem is not None:
        return problem
    sslmode = options.get("sslmode", "prefer")
    if sslmode not in _SSL_MODES:
        hint = f"write one of {', '.join(_SSL_MODES)}"
        return StatementProblem("sslmode", f"sslmode = '{sslmode}' is unknown", hint)
    schema, _, table = options["table"].rpartition(".")
    if not table or "." in schema:
        hint = "write table = 'schema.name', as PostgreSQL has them, without quotes"
        return StatementProblem("table", f"table = '{options['table']}' names no table", hint)
    return None


def parse_address(options: Mapping[str, str]) -> PostgresAddress:
    """Return the table that options name, which are valid."""
    schema, _, table = options["table"].rpartition(".")
    return PostgresAddress(
        hostname=options["hostname"],
        port=int(options.get("port", "5432")),
        database=options["database"],
        username=options["username"],
        password_variable=options.get("password_variable", ""),
        sslmode=options.get("sslmode", "prefer"),
        schema=schema or "public",
        table=table,
    )


def parse_settings(options: Mapping[str, str]) -> PostgresSettings:
    """Return the settings that options say, which are valid."""
    address = dataclasses.asdict(parse_address(options))
    return PostgresSettings(
        **address, slot=options["slot"], publication=options.get("publication") or options["slot"]
    )


def read_settings(relation: Relation) -> PostgresSettings:
    """Return the settings of a table; raises SourceError for options that do not fit."""
    options = source_options(relation)
    wrong = validate_options(options)
    if wrong is not None:
        raise SourceError(f"table {relation.name}: {wrong.message}: {wrong.hint}")
    return parse_settings(options)
