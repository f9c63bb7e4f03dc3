"""When rows were written: by the epochs of the files that hold them, as a column that a scan adds to a table's own.

A file that no compaction has put together is of one commit. Of a compacted one it is known only that its rows are not newer than
the epoch up to which it was put together.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from engine.hummock.epoch import micros_of
from engine.hummock.version import SstInfo, TableVersion

WRITTEN_AT = "_rw_timestamp"
WRITTEN_AT_TYPE = pa.timestamp("us", "UTC")


class WriteTimes:
    """The times of the files that make up a table at an epoch."""

    def __init__(self, table: TableVersion, epoch: int) -> None:
        self._epochs = {sst.sst_id: entry.epoch for entry in table.log for sst in entry.ssts}
        self._compacted = max(g.upto for g in table.generations if g.upto <= epoch)

    def append_time(self, rows: pa.Table, sst: SstInfo) -> pa.Table:
        """Return rows of a file with the time at which they were written, or before which they were."""
        at = micros_of(self._epochs.get(sst.sst_id, self._compacted))
        times: pa.Array[Any] = pa.repeat(pa.scalar(at, pa.int64()), rows.num_rows).cast(WRITTEN_AT_TYPE)
        return rows.append_column(WRITTEN_AT, times)
