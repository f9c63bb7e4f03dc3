"""TPC-H's 22 views over rows that come, change and go in epochs, run as a driver; DuckDB judges them."""

from __future__ import annotations

import sys
import time

from benchmarks import tpch
from engine.session import Session
from tests.cluster.patience import Patient
from tests.oracle.batch import assert_views_equal_duckdb
from tests.oracle.data_epochs import create_tables, queries, write_in_epochs

SHARE = 0.001
JUDGED_EVERY = 7


def main(store: str, scale: float, epochs: int) -> None:
    """Run the epochs; prints a line when all is equal."""
    data = tpch.generate_tables(scale)
    views = queries("tpch")
    with Session(store, dialect="postgres") as session:
        create_tables(session, "tpch")
        for name, query in views.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        patient = Patient(session)
        for epoch in write_in_epochs(patient, data, tpch.KEYS, epochs, SHARE):  # type: ignore[arg-type]
            print(f"epoch {epoch}", flush=True)
            began = time.monotonic()
            patient.flush()
            print(f"took {time.monotonic() - began:.1f} s", flush=True)
            if epoch % JUDGED_EVERY == JUDGED_EVERY - 1:
                patient.settle()
                assert_views_equal_duckdb(session, tuple(data), views, f"epoch {epoch}")
        patient.settle()
        assert_views_equal_duckdb(session, tuple(data), views, "at the end")
        print(f"equal: {len(views)} views, {patient.failures} failures on the way", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
