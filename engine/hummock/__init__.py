"""The storage engine: a multi-version, columnar, Hummock-style LSM on plain object storage; usable by itself.

The verbs in one place; what they raise stands with each of them (`store.py`).

>>> store = Hummock.open(f"{folder}/verbs")
>>> schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
>>> orders = store.create_table("orders", schema, primary_key=["id"])
>>> first = store.ingest_batch({orders: Put(pa.table({"id": [1, 2], "item": ["tea", "milk"]}))})
>>> with store.epoch() as batch:  # gathered, and committed at the end of the block
...     batch.put(orders, pa.table({"id": [1, 3], "item": ["coffee", "bread"]}))
...     batch.delete(orders, pa.table({"id": [2]}))
>>> store.multi_get(orders, pa.table({"id": [3, 2, 1]})).column("item").to_pylist()
['bread', None, 'coffee']
>>> [row["item"] for rows in store.iter(orders) for row in rows.to_pylist()]
['coffee', 'bread']
>>> [row["item"] for rows in store.iter(orders, epoch=first) for row in rows.to_pylist()]
['tea', 'milk']
>>> changes = [row for rows in store.iter_log(orders, after=first) for row in rows.to_pylist()]
>>> [(row["_op"], row["id"]) for row in changes]
[('update', 1), ('delete', 2), ('insert', 3)]
>>> orders = store.alter_table(orders, add=[pa.field("n", pa.int64())])
>>> store.get(orders, {"id": 3})
{'id': 3, 'item': 'bread', 'n': None}
>>> pinned = store.pin(orders, first, seconds=60)  # readable at `first`, whatever is compacted and collected
>>> report = store.compact(orders)
>>> store.get(orders, {"id": 1}, epoch=first)["item"]
'tea'
>>> store.close()
"""

from engine.hummock.reads.reader import Reader
from engine.hummock.rows.row_hash import vnode_of, xxhash64
from engine.hummock.store import Hummock
from engine.hummock.upkeep.pins import Pin
from engine.hummock.version import (
    Commit,
    Compaction,
    LogEntry,
    SstInfo,
    Table,
    TableOptions,
    TableVersion,
    Version,
    with_new_keys,
    without_new_keys,
)
from engine.hummock.writes.batch import Delete, Put
from engine.hummock.writes.epoch_batch import EpochBatch

__all__ = [
    "Commit",
    "Compaction",
    "Delete",
    "EpochBatch",
    "Hummock",
    "LogEntry",
    "Pin",
    "Put",
    "Reader",
    "SstInfo",
    "Table",
    "TableOptions",
    "TableVersion",
    "Version",
    "vnode_of",
    "with_new_keys",
    "without_new_keys",
    "xxhash64",
]
