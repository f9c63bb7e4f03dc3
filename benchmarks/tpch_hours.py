"""TPC-H as a project: all queries are views of one project, and the eight tables change from hour to hour.

Of an hour's rows some four in ten come with new orders and two with withdrawn ones, as in the specification's refresh functions
(clause 5.3), and three are lines that are corrected; the rest are customers, parts, supplies and suppliers that change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.epoch_cases import TableChange, replace_places, set_column
from benchmarks.tpch import KEYS, generate_tables, to_decimals

QUERIES = Path(__file__).parent.parent / "tests" / "oracle" / "tpch"
HELD_BACK = 20
"""One order in so many is new in a later hour."""
LINES = 4
"""So many lines an order has on average."""


def read_ddl() -> dict[str, str]:
    """Return the statements that create the tables, by table."""
    statements = (QUERIES / "schema.sql").read_text().split(";")
    return {text.split()[2]: text.strip() for text in statements if text.strip()}


def read_views() -> dict[str, str]:
    """Return the queries, by name."""
    return {path.stem: path.read_text() for path in sorted(QUERIES.glob("q*.sql"))}


class TpchHours:
    """The eight tables, which go on from hour to hour; the same seed gives the same rows."""

    ddl: Mapping[str, str] = read_ddl()
    views: Mapping[str, str] = read_views()

    def __init__(self, scale: float, seed: int = 1) -> None:
        self.chance = np.random.default_rng(seed)
        self.tables = generate_tables(scale, seed)
        keys = self.tables["orders"].column("o_orderkey").to_numpy()
        self.owner = np.searchsorted(keys, self.tables["lineitem"].column("l_orderkey").to_numpy())
        """Of each line the place of its order."""
        self.waiting = np.arange(len(keys)) % HELD_BACK == HELD_BACK - 1
        self.alive = ~self.waiting

    def read(self, table: str) -> pa.Table:
        """Return a table's rows as they are now."""
        rows = self.tables[table]
        if table == "orders":
            return rows.filter(pa.array(self.alive))
        return rows.filter(pa.array(self.alive[self.owner])) if table == "lineitem" else rows

    def generate_hour(self, changes: int) -> list[TableChange]:
        """Return the changes of the next hour, some `changes` rows together, and remember them.

        Raises ValueError where no orders are left that could come.
        """
        orders = max(changes // (10 * (1 + LINES)), 1)
        come = self._draw(self.waiting, 4 * orders)
        if not len(come):
            raise ValueError("every order has come already: choose a larger scale, or fewer hours")
        gone = self._draw(self.alive, 2 * orders)
        self.waiting[come] = False
        self.alive[gone], self.alive[come] = False, True
        found = []
        for table, places in (("orders", np.arange(len(self.alive))), ("lineitem", self.owner)):
            rows = self.tables[table]
            left = rows.filter(pa.array(np.isin(places, gone))).select(list(KEYS[table]))
            found.append(TableChange(table, "insert", rows.filter(pa.array(np.isin(places, come)))))
            found.append(TableChange(table, "delete", left))
        kept = self.alive.copy()
        kept[come] = False
        return [*found, self._correct_lines(kept, 3 * changes // 10), *self._change_rest(changes // 10)]

    def _draw(self, among: np.ndarray, rows: int) -> np.ndarray:
        places = np.flatnonzero(among)
        return np.sort(self.chance.choice(places, min(rows, len(places)), replace=False))

    def _correct_lines(self, orders: np.ndarray, rows: int) -> TableChange:
        """Lines of some orders with other pieces, and the amount that follows."""
        places = self._draw(orders[self.owner], rows)
        lines = self.tables["lineitem"].take(pa.array(places))
        pieces = self.chance.integers(1, 51, len(places))
        before = (lines.column("l_quantity").cast(pa.float64()).to_numpy()).astype(np.int64)
        cents = np.rint(lines.column("l_extendedprice").cast(pa.float64()).to_numpy() * 100).astype(np.int64)
        lines = set_column(lines, "l_quantity", to_decimals(pieces * 100))
        lines = set_column(lines, "l_extendedprice", to_decimals(cents // before * pieces))
        return self._put("lineitem", places, lines)

    def _change_rest(self, rows: int) -> list[TableChange]:
        """Customers, supplies, parts and a supplier that change."""
        found = []
        for table, column, share, least, most in (
            ("customer", "c_acctbal", 0.4, -99_999, 1_000_000),
            ("partsupp", "ps_supplycost", 0.4, 100, 100_001),
            ("part", "p_retailprice", 0.2, 90_000, 200_000),
            ("supplier", "s_acctbal", 0.01, -99_999, 1_000_000),
        ):
            all_rows = np.ones(self.tables[table].num_rows, dtype=bool)
            places = self._draw(all_rows, max(int(rows * share), 1))
            taken = self.tables[table].take(pa.array(places))
            amounts = to_decimals(self.chance.integers(least, most, len(places)))
            found.append(self._put(table, places, set_column(taken, column, amounts)))
        return found

    def _put(self, table: str, places: np.ndarray, rows: pa.Table) -> TableChange:
        """Put rows in their places, and return the change."""
        self.tables[table] = replace_places(self.tables[table], places, rows)
        return TableChange(table, "upsert", rows)
