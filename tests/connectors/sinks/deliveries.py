"""What tests of sinks to servers share: rows of a table t (id, v), and deliveries that fail or do not."""

from __future__ import annotations

import pyarrow as pa

from engine.session import Session


def put(session: Session, rows: dict[int, str | None]) -> None:
    """Write rows of t; None takes a key away."""
    new = {key: value for key, value in rows.items() if value is not None}
    gone = [key for key, value in rows.items() if value is None]
    if new:
        ids = pa.array(list(new), pa.int64())
        session.write("t", pa.table({"id": ids, "v": list(new.values())}))
    if gone:
        session.write("t", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")


def deliver(session: Session) -> None:
    """Deliver all sinks; fails where one does."""
    session.store.refresh()
    reports = session.sinks.run(wait_seconds=120)
    assert not [report.error for report in reports if report.error], reports


def find_error(session: Session) -> str:
    """Deliver all sinks, one of which fails; return its error."""
    session.store.refresh()
    (error,) = [report.error for report in session.sinks.run(wait_seconds=120) if report.error]
    return error
