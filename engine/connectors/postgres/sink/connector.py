"""The connector of sinks that keep a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import xxhash
from pyspark.sql import SparkSession

from engine.connectors.postgres.settings import (
    ADDRESS_OPTIONS,
    PostgresAddress,
    parse_address,
    validate_address,
)
from engine.connectors.postgres.sink.ledger import explain_other_sink, remove_line
from engine.connectors.postgres.sink.server import TargetServer
from engine.connectors.postgres.sink.tables import (
    LEDGER,
    Problem,
    SinkShape,
    check_columns,
    check_creation,
    check_server,
    check_target,
    read_target,
)
from engine.connectors.postgres.sink.target import APP, PostgresSink
from engine.connectors.sinks.contract import SinkConnector, TargetContext
from engine.connectors.sinks.option_parsing import build_option_error
from engine.connectors.sinks.options import SinkOptions
from engine.errors import SinkError, SourceError
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import CreateSink

CONNECTOR = "postgres"
_NEEDED = ("hostname", "database", "username", "table")
_LIKE = "WITH (connector = 'postgres', hostname = …, database = …, username = …, table = 'public.orders')"
POSTGRES_OPTIONS: Mapping[str, str] = {
    **ADDRESS_OPTIONS,
    "username": "the role that writes",
    "table": "the table, with its schema: 'public.orders', which is made if there is none; the schema is public without it",
}


class PostgresSinkConnector(SinkConnector):
    """Tables of PostgreSQL: all that waits is one transaction, which counts once."""

    name = CONNECTOR
    options = POSTGRES_OPTIONS
    title = "Of tables of PostgreSQL"
    alone = True

    def resolve_options(self, statement: CreateSink) -> dict[str, str]:
        """Return the address of the table."""
        options = statement.options
        if options.get("vnode_groups", "1") != "1":
            hint = "leave vnode_groups out: all that waits is one transaction"
            message = "readers of their own would commit parts of an epoch"
            raise build_option_error(statement, "vnode_groups", message, hint)
        for name in _NEEDED:
            if not options.get(name, "").strip():
                where = name if name in options else "connector"
                raise build_option_error(
                    statement, where, f"the connector {CONNECTOR} needs {name}", f"write {_LIKE}"
                )
        if (wrong := validate_address(options)) is not None:
            raise build_option_error(statement, wrong.option, wrong.message, wrong.hint)
        address = parse_address(options)
        if address.table == LEDGER:
            message = f"{address.path} is the table in which sinks note how far they are"
            raise build_option_error(statement, "table", message, "name another table")
        for what, name in (("schema", address.schema), ("table", address.table)):
            if "\0" in name or len(name.encode()) > 63:
                message = f"the name of the {what} is no name in PostgreSQL, which takes 63 bytes"
                raise build_option_error(statement, "table", message, "name another")
        kept = {name: options[name] for name in ("password_variable",) if options.get(name)}
        return {
            "connector": CONNECTOR,
            "url": f"postgresql://{address.hostname}:{address.port}/{address.database}/{address.path}",
            "hostname": address.hostname,
            "port": str(address.port),
            "database": address.database,
            "username": address.username,
            "sslmode": address.sslmode,
            "table": address.path,
            **kept,
        }

    def prepare(
        self, store_url: str, relation: Relation, statement: CreateSink, spark: Callable[[], SparkSession]
    ) -> Relation:
        """Return the sink with its name in the table of positions, once the database was asked whether it takes the rows."""
        app = f"tideline/{xxhash.xxh64_hexdigest(store_url)}/{relation.name}"
        shape = SinkShape.of(relation, app, SinkOptions.of(relation.options).upsert)
        try:
            problem = _find_problem(parse_address(relation.options), relation.name, shape)
        except (SinkError, SourceError) as error:
            raise build_option_error(statement, "hostname", str(error), "put this right") from error
        if problem is not None:
            where = problem.option if problem.option in statement.places else "connector"
            raise build_option_error(statement, where, problem.message, problem.remedy)
        return msgspec.structs.replace(relation, options={**relation.options, APP: app})

    def open_target(self, opening: TargetContext) -> PostgresSink:
        """Open the table, which is connected to for each delivery."""
        return PostgresSink(opening.store, opening.relation, opening.start)

    def forget(self, relation: Relation, start: int) -> str:
        """Remove the line of a sink that was dropped; return what is left to do where that cannot be."""
        address = parse_address(relation.options)
        try:
            with TargetServer(address, relation.name) as server:
                remove_line(server, relation.options[APP], start)
        except (SinkError, SourceError) as error:
            quoted = relation.options[APP].replace("'", "''")
            return (
                f"the line of {relation.name} in {address.schema}.{LEDGER} could not be removed ({error}); before another sink "
                f"writes {address.path}, run there: DELETE FROM {address.schema}.{LEDGER} WHERE sink = '{quoted}'"
            )
        return ""


def _find_problem(address: PostgresAddress, sink: str, shape: SinkShape) -> Problem | None:
    """Return the first reason why a table cannot take the rows of a sink, None if it can; raises SinkError."""
    for problem in check_columns(shape.columns, shape.key):
        return problem
    with TargetServer(address, sink) as server:
        for problem in check_server(server):
            return problem
        table = read_target(server, shape.rights)
        for problem in check_creation(server, table is not None):
            return problem
        if table is not None:
            for problem in check_target(server, table, shape):
                return problem
        other = explain_other_sink(server, shape.app)
    return None if other is None else Problem(*other)
