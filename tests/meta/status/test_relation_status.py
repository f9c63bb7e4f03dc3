"""Where relations stand: rows that are counted, and those that are at most so many."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Delete, Hummock, Put
from engine.meta.status.relation_status import has_exact_row_count

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


@pytest.mark.parametrize(("later", "counted"), [([], True), ([Put], False), ([Delete], False)])
def test_rows_are_counted_while_no_file_may_hold_a_key_again(
    tmp_path: Path, later: list[type], counted: bool
) -> None:
    rows = pa.table({"id": [1, 2], "n": [1, 2]}, SCHEMA)
    with Hummock.open(tmp_path.as_uri(), auto_compact="off") as store:
        table = store.create_table("t", SCHEMA, ["id"])
        store.ingest_batch({table: [Put(rows)]})
        for kind in later:
            store.ingest_batch(
                {table: [kind(rows.slice(0, 1) if kind is Put else rows.slice(0, 1).select(["id"]))]}
            )
        found = store.version.tables["t"]
        assert has_exact_row_count(found) == counted
        assert found.row_count >= sum(batch.num_rows for batch in store.iter("t"))
        store.compact("t")
        found = store.refresh().tables["t"]
        assert has_exact_row_count(found) and found.row_count == sum(
            batch.num_rows for batch in store.iter("t")
        )
