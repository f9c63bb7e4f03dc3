"""The cases of `benchmarks.epochs`: base tables, the view, and the changes of an epoch, with the content as it stands now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

CHUNK = 1_000_000
DAYS, CATEGORIES = 60, 200
SEGMENTS, STATUSES = 8, 5


@dataclass(frozen=True)
class TableChange:
    """What one epoch does to one table; of a deletion `rows` holds the keys."""

    table: str
    mode: Literal["insert", "upsert", "delete"]
    rows: pa.Table


@dataclass(frozen=True)
class Smaller:
    """What a case is held against for its flatness: the same over a base so many times smaller, with so many changes an epoch."""

    times: int = 100
    changes: int = 1_000
    at_most: float = 1.3
    comparison: str = "on a base 100 x smaller"


class BenchmarkCase(ABC):
    """A view over base tables that change; it knows their content at every moment, so that any engine can be given it."""

    name: str
    title: str
    ddl: ClassVar[Mapping[str, str]]
    query: str
    key: tuple[str, ...]
    times_recompute: float
    streaming_loses: str | None = None
    merges: bool = True
    """Whether there is a MERGE that one writes by hand for it."""
    sizes: tuple[int, ...] = ()
    """The numbers of changes that it is measured with, the largest judged; without any, those of all cases."""
    most_seconds: float | None = None
    smaller = Smaller()

    def __init__(self, rows: int, seed: int = 7) -> None:
        self.rows, self.chance = rows, np.random.default_rng(seed)
        self.view = f"v_{self.name}"

    def build_twin(self) -> BenchmarkCase:
        """Return the case that the flatness of this one is measured against."""
        return type(self)(self.rows // self.smaller.times)

    @abstractmethod
    def generate_content(self, table: str) -> Iterator[pa.Table]:
        """Yield a base table's rows as they are now, in chunks."""

    @abstractmethod
    def generate_changes(self, changes: int) -> list[TableChange]:
        """Return the changes of the next epoch, `changes` rows together, and remember them."""


class _Bids(BenchmarkCase):
    """Bids that are only ever added."""

    def __init__(self, rows: int, auctions: int, seed: int = 7) -> None:
        super().__init__(rows, seed)
        self.auctions, self.next_id = auctions, 0
        self.bids = [self._make_bids(min(CHUNK, rows - start)) for start in range(0, rows, CHUNK)]

    def _make_bids(self, rows: int) -> pa.Table:
        start, self.next_id = self.next_id, self.next_id + rows
        days = self.chance.integers(0, DAYS, rows) * 86_400_000_000
        at = days + self.chance.integers(0, 86_400_000_000, rows) + 1_700_006_400_000_000
        columns = {
            "id": np.arange(start, start + rows),
            "auction": self.chance.integers(0, self.auctions, rows),
            "price": self.chance.integers(1, 10_000, rows),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
        return pa.table({name: columns[name] for name in self.columns})

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of a bid."""

    def generate_content(self, table: str) -> Iterator[pa.Table]:
        """Yield a base table's rows as they are now, in chunks."""
        yield from self.bids

    def generate_changes(self, changes: int) -> list[TableChange]:
        """Return the changes of the next epoch, `changes` rows together, and remember them."""
        self.bids.append(self._make_bids(changes))
        return [TableChange("bid", "insert", self.bids[-1])]


class BidGroups(_Bids):
    """Count, sum and maximum by auction: as many groups as half the bids."""

    name, title = "groups", "count, sum, max of bids by auction"
    ddl: ClassVar[Mapping[str, str]] = {
        "bid": "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT) APPEND ONLY"
    }
    query = (
        "SELECT auction, count(*) AS bids, sum(price) AS total, max(price) AS high FROM bid GROUP BY auction"
    )
    key, times_recompute = ("auction",), 10.0
    columns = ("id", "auction", "price")

    def __init__(self, rows: int, seed: int = 7) -> None:
        super().__init__(rows, max(rows // 2, 1), seed)


class Categories(_Bids):
    """Bids joined with their auctions, aggregated by category and day."""

    name, title = "categories", "bids JOIN auctions, by category and day"
    ddl: ClassVar[Mapping[str, str]] = {
        "auction": "CREATE TABLE auction (id BIGINT PRIMARY KEY, category BIGINT, seller BIGINT)",
        "bid": "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, at TIMESTAMP) APPEND ONLY",
    }
    query = (
        "SELECT a.category, CAST(b.at AS DATE) AS day, count(*) AS bids, sum(b.price) AS total "
        "FROM bid b JOIN auction a ON b.auction = a.id GROUP BY a.category, CAST(b.at AS DATE)"
    )
    key, times_recompute = ("category", "day"), 5.0
    columns = ("id", "auction", "price", "at")
    streaming_loses = "a stream joined with a table does not follow changes of the table"

    def __init__(self, rows: int, seed: int = 7) -> None:
        super().__init__(rows, max(rows // 5, 1), seed)
        self.auction = pa.table(
            {
                "id": np.arange(self.auctions),
                "category": self.chance.integers(0, CATEGORIES, self.auctions),
                "seller": self.chance.integers(0, max(self.auctions // 10, 1), self.auctions),
            }
        )

    def generate_content(self, table: str) -> Iterator[pa.Table]:
        """Yield a base table's rows as they are now, in chunks."""
        yield from [self.auction] if table == "auction" else self.bids


class Orders(BenchmarkCase):
    """Orders kept wide with their customers; of the changes 69 % update orders, 20 % insert, 10 % delete, 1 % are customers."""

    name, title = "wide", "orders LEFT JOIN customers, kept wide"
    ddl: ClassVar[Mapping[str, str]] = {
        "customer": "CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING, nation BIGINT, segment STRING)",
        "orders": "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, ordered DATE, status STRING, amount BIGINT)",
    }
    query = (
        "SELECT o.id, o.customer, o.ordered, o.status, o.amount, c.name, c.nation, c.segment "
        "FROM orders o LEFT JOIN customer c ON o.customer = c.id"
    )
    key, times_recompute = ("id",), 5.0
    streaming_loses = "a stream cannot retract: it follows neither updates nor deletes"

    def __init__(self, rows: int, seed: int = 7) -> None:
        super().__init__(rows, seed)
        self.customers = max(rows // 4, 1)
        self.customer = self._make_customers(np.arange(self.customers))
        self.orders = self._make_orders(np.arange(rows))
        self.alive = np.ones(rows, dtype=bool)

    def _make_customers(self, ids: np.ndarray) -> pa.Table:
        names = np.char.add(
            "Customer#", np.char.zfill(self.chance.integers(0, 10**9, len(ids)).astype(str), 9)
        )
        segments = pa.array([f"SEGMENT {n}" for n in range(SEGMENTS)])
        return pa.table(
            {
                "id": ids,
                "name": pa.array(names.tolist()),
                "nation": self.chance.integers(0, 25, len(ids)),
                "segment": segments.take(pa.array(self.chance.integers(0, SEGMENTS, len(ids)))),
            }
        )

    def _make_orders(self, ids: np.ndarray) -> pa.Table:
        """One order in twenty names a customer that is not there."""
        statuses = pa.array(["open", "paid", "packed", "sent", "returned"][:STATUSES])
        return pa.table(
            {
                "id": ids,
                "customer": self.chance.integers(0, self.customers * 20 // 19 + 1, len(ids)),
                "ordered": pa.array(self.chance.integers(19_000, 20_000, len(ids)).astype(np.int32)).cast(
                    pa.date32()
                ),
                "status": statuses.take(pa.array(self.chance.integers(0, STATUSES, len(ids)))),
                "amount": self.chance.integers(100, 100_000, len(ids)),
            }
        )

    def generate_content(self, table: str) -> Iterator[pa.Table]:
        """Yield a base table's rows as they are now, in chunks."""
        whole = self.customer if table == "customer" else self.orders.filter(pa.array(self.alive))
        for start in range(0, whole.num_rows, CHUNK):
            yield whole.slice(start, CHUNK)

    def generate_changes(self, changes: int) -> list[TableChange]:
        """Return the changes of the next epoch, `changes` rows together, and remember them."""
        customers = min(max(changes // 100, 1), self.customers)
        inserts, deletes = changes // 5, changes // 10
        updates = changes - customers - inserts - deletes
        touched = self.chance.choice(np.flatnonzero(self.alive), updates + deletes, replace=False)
        new = np.arange(len(self.alive), len(self.alive) + inserts)
        upserted = self._make_orders(np.concatenate([touched[:updates], new]))
        changed = self._make_customers(self.chance.choice(self.customers, customers, replace=False))
        self.alive[touched[updates:]] = False
        self.alive = np.append(self.alive, np.ones(inserts, dtype=bool))
        self.orders = replace_rows(self.orders, upserted)
        self.customer = replace_rows(self.customer, changed)
        return [
            TableChange("customer", "upsert", changed),
            TableChange("orders", "upsert", upserted),
            TableChange("orders", "delete", pa.table({"id": touched[updates:]})),
        ]


def replace_rows(rows: pa.Table, by: pa.Table) -> pa.Table:
    """Return rows whose ids are their places, with those of `by` in the places of their ids, or appended."""
    ids = by.column("id").to_numpy()
    places = np.arange(max(rows.num_rows, int(ids.max()) + 1))
    places[ids] = np.arange(len(ids)) + rows.num_rows
    return pa.concat_tables([rows, by]).combine_chunks().take(pa.array(places))


def replace_places(rows: pa.Table, places: np.ndarray, by: pa.Table) -> pa.Table:
    """Return rows with those of `by` in the given places."""
    at = np.arange(rows.num_rows)
    at[places] = len(at) + np.arange(len(places))
    return pa.concat_tables([rows, by]).take(pa.array(at)).combine_chunks()


def set_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """Return rows with other values in a column, which keeps its type."""
    at = rows.column_names.index(name)
    field = rows.schema.field(at)
    return rows.set_column(at, field, values.cast(field.type))
