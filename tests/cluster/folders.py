"""Delta tables in a folder of the driver's machine, run as a driver: says of each statement how it went, a line each.

`python -m tests.cluster.folders STORE FOLDER`: what a source reads in the folder is written by the Rust writer, which is here.
"""

from __future__ import annotations

import sys

import pyarrow as pa
from deltalake import write_deltalake

from engine.connectors.sources import poll_all
from engine.errors import SourceError, SqlError
from engine.session import Session

ROWS = 300_000
"""More than a sink into a Delta table writes without tasks."""


def main(store: str, folder: str) -> None:
    """Run statements that name the folder, then take and deliver what those that were run ask for."""
    write_deltalake(f"{folder}/lake", pa.table({"id": [1, 2], "v": ["a", "b"]}))
    with Session(store) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        session.sql(f"INSERT INTO t SELECT id, 'x' FROM range({ROWS})")
        for name, text in statements(folder).items():
            print(f"{name}: {made(session, text)}", flush=True)
        taken = poll_all(session.catalog, session.store, None, lambda: session.computing)
        print("taken:", [(report.table, report.rows, report.error) for report in taken])
        print(
            "delivered:",
            [(report.error, report.lag_rows) for report in session.flush(sink_seconds=120).sinks],
        )
        print("there:", *sorted(name for name in session.catalog.relations if not name.startswith("_")))


def made(session: Session, text: str) -> str:
    """Run a statement; returns "made", or what it is refused with, in one line."""
    try:
        session.sql(text)
    except (SqlError, SourceError) as error:
        return " ".join(str(error).split())
    return "made"


def statements(folder: str) -> dict[str, str]:
    """Return what is run, by a name for each."""
    lake, out = f"(connector = 'delta', path = '{folder}/lake')", f"connector = 'delta', path = '{folder}/out"
    return {
        "table": f"CREATE TABLE a (PRIMARY KEY (id)) WITH {lake}",
        "source": f"CREATE SOURCE b (PRIMARY KEY (id)) WITH {lake}",
        "sink": f"CREATE SINK s FROM t WITH ({out}/s')",
        "view": f"CREATE MATERIALIZED VIEW v WITH ({out}/v') AS SELECT v, count(*) AS n FROM t GROUP BY v",
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
