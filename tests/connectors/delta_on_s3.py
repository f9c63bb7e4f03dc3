"""A process whose Spark may have the file system s3a: it lets a table follow a Delta table and prints the table's rows.

`python -m tests.connectors.delta_on_s3 STORE PATH`
"""

from __future__ import annotations

import json
import sys

from engine.connectors.source_trial import try_source
from engine.session import Session
from tests.connectors.delta_tables import held, poll


def main(url: str, path: str) -> None:
    """Create the table if it is not there, take what is pending, and print what it holds."""
    with Session(url, "local[1]") as session:
        session.sql(
            f"CREATE TABLE IF NOT EXISTS t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{path}')"
        )
        taken = poll(session).rows
        session.sql("ALTER TABLE t RESYNC")
        told = session.notices
        tried = try_source(session.store, session.catalog.get("t"), lambda: session.computing)
        works = [finding.works for finding in tried]
        print(json.dumps([taken, held(session), told, works]))


if __name__ == "__main__":
    main(*sys.argv[1:])
