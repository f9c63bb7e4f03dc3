"""A sink's epoch of 1,000 changes into a Delta table of 1M rows, beside the MERGE of the same changes written by hand.

    python -m benchmarks.delta_sink [rows] [changes] [rounds]

Both run in one process, on one Spark, in turns, each into a table of its own that was laid out by one write of the same
rows. Half of the changes are updates, a quarter insertions, a quarter deletions, spread over all keys. The hand-written
MERGE reads them from a Parquet file that is there already; the sink reads them from the change log, commits its
promise, the table and the acknowledgement. Printed are seconds by round, the medians and their ratio.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.tables import SETTINGS
from engine.runtime.spark.session import EngineSpark
from engine.session import Session

MERGE = (
    "MERGE INTO delta.`{table}` AS t USING parquet.`{changes}` AS s ON t.id = s.id "
    "WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET t.v = s.v, t.name = s.name "
    "WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (id, v, name) VALUES (s.id, s.v, s.name)"
)


def make_rows(ids: np.ndarray, number: int) -> pa.Table:
    """Return rows for some keys as round `number` writes them."""
    names = pa.array([f"name {key} {number}" for key in ids])
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(ids * 7 + number), "name": names})


def main(rows: int, changes: int, rounds: int) -> None:
    """Run both in turns and print what they took."""
    chance = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder, Session((Path(folder) / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, name STRING)")
        keys = np.arange(rows)
        session.write("t", make_rows(keys, 0))
        session.spark.range(1).collect()
        started = time.perf_counter()
        session.sql(f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{folder}/sink')")
        session.sinks.wait()
        print(f"first load of {rows:,} rows: {time.perf_counter() - started:.2f} s")
        session.sinks.run()  # a sink that was slow once is waited for from here on
        spark = EngineSpark.of(session.spark).separate(SETTINGS).session
        spark.sql(f"CREATE TABLE delta.`{folder}/hand` USING delta AS SELECT * FROM delta.`{folder}/sink`")
        times: dict[str, list[float]] = {"sink": [], "by hand": []}
        for number in range(1, rounds + 1):
            picked = chance.choice(keys, 3 * changes // 4, replace=False)
            gone, changed = picked[: changes // 4], picked[changes // 4 :]
            new = np.arange(keys.max() + 1, keys.max() + 1 + changes - len(picked))
            put = make_rows(np.concatenate([changed, new]), number)
            _write_changes(Path(folder) / f"changes{number}", put, make_rows(gone, number))
            session.write("t", put)
            session.write("t", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
            keys = np.setdiff1d(np.concatenate([keys, new]), gone)
            for kind in ("sink", "by hand") if number % 2 else ("by hand", "sink"):
                started = time.perf_counter()
                if kind == "sink":
                    (report,) = session.sinks.run(wait_seconds=3600)
                    assert report.error is None and report.rows == changes, report
                else:
                    changed_rows = Path(folder) / f"changes{number}"
                    spark.sql(MERGE.format(table=f"{folder}/hand", changes=changed_rows)).collect()
                times[kind].append(time.perf_counter() - started)
            print(f"round {number}: " + ", ".join(f"{kind} {times[kind][-1]:.2f} s" for kind in times))
        _check(spark, folder)
        middle = {kind: statistics.median(seconds[1:] or seconds) for kind, seconds in times.items()}
        ratio = middle["sink"] / middle["by hand"]
        print(f"{changes:,} changes into {rows:,} rows, medians without the first round:")
        print(f"sink {middle['sink']:.2f} s, MERGE by hand {middle['by hand']:.2f} s, ratio {ratio:.2f}")


def _write_changes(path: Path, put: pa.Table, gone: pa.Table) -> None:
    put = put.append_column("op", pa.array(["u"] * put.num_rows))
    gone = gone.append_column("op", pa.array(["d"] * gone.num_rows))
    pq.write_table(pa.concat_tables([put, gone]), path)


def _check(spark: SparkSession, folder: str) -> None:
    one, other = (f"SELECT * FROM delta.`{folder}/{name}`" for name in ("sink", "hand"))
    differ = spark.sql(f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})").count()
    assert differ == 0, f"the tables differ by {differ} rows"


if __name__ == "__main__":
    given = [int(text.replace(",", "")) for text in sys.argv[1:]]
    main(*(given + [1_000_000, 1_000, 7][len(given) :]))
