"""The line of a sink in its target's schema: up to which epoch the rows there stand, written by the transaction of the rows."""

from __future__ import annotations

from typing import NamedTuple

from engine.connectors.postgres.sink.server import RowRefused, TargetServer, TargetTaken, TriedAgain
from engine.connectors.postgres.sink.tables import LEDGER, find_ledger, render_ledger
from engine.errors import SinkError


class LedgerLine(NamedTuple):
    """How far a sink is: `start` is the beginning whose ranges were taken, 0 before the first, `epoch` the end of the last."""

    start: int
    epoch: int


def ensure_ledger(server: TargetServer) -> None:
    """Make the table of positions where it is not there; another process may make it at the same time."""
    if find_ledger(server):
        return
    try:
        server.execute(
            f"CREATE TABLE IF NOT EXISTS {render_ledger(server)} (sink text PRIMARY KEY, target text NOT NULL UNIQUE, "
            "start bigint NOT NULL, epoch bigint NOT NULL, delivered_at timestamp with time zone NOT NULL)"
        )
    except SinkError:
        if not find_ledger(server):
            raise


def lock_line(server: TargetServer, app: str) -> LedgerLine:
    """Return the line of a sink, which no other process moves until the end; raises TargetTaken, TriedAgain."""
    ledger = _escape(server)
    try:
        server.execute(
            f"INSERT INTO {ledger} VALUES (%s, %s, 0, 0, now()) ON CONFLICT (sink) DO NOTHING",
            app,
            server.address.path,
        )
    except RowRefused as error:
        raise TargetTaken(f"sink {server.sink}: another sink writes {server.address.path}") from error
    lines = server.query(f"SELECT start, epoch FROM {ledger} WHERE sink = %s FOR UPDATE", app)
    if not lines:  # whoever had it has taken it away since the statement before
        raise TriedAgain(
            f"sink {server.sink}: its line in {server.address.schema}.{LEDGER} was removed meanwhile"
        )
    return LedgerLine(*lines[0])


def move_line(server: TargetServer, app: str, line: LedgerLine) -> None:
    """Write how far a sink is, as a part of the transaction that brings it there."""
    server.execute(
        f"UPDATE {_escape(server)} SET target = %s, start = %s, epoch = %s, delivered_at = now() WHERE sink = %s",
        server.address.path,
        line.start,
        line.epoch,
        app,
    )


def explain_other_sink(server: TargetServer, app: str) -> tuple[str, str] | None:
    """Return which other sink writes the target, and what to do; None if none does."""
    if not find_ledger(server):
        return None
    address, ledger = server.address, render_ledger(server)
    for (other,) in server.query(
        f"SELECT sink FROM {_escape(server)} WHERE target = %s AND sink <> %s", address.path, app
    ):
        quoted = other.replace("'", "''")
        return (
            f"the sink {other} writes {address.path}, as {address.schema}.{LEDGER} there says",
            f"name another table; or, if that sink is gone, DELETE FROM {ledger} WHERE sink = '{quoted}'",
        )
    return None


def remove_line(server: TargetServer, app: str, start: int) -> None:
    """Remove the line of a sink that was dropped, if no later beginning has written it since."""
    if find_ledger(server):
        server.execute(f"DELETE FROM {_escape(server)} WHERE sink = %s AND start <= %s", app, start)


def _escape(server: TargetServer) -> str:
    """Return the table of positions for a statement with parameters, which a percent sign would begin."""
    return render_ledger(server).replace("%", "%%")
