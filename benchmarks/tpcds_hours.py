"""TPC-DS as a project: all queries are views of one project, and its tables change from hour to hour.

Of an hour's rows some four in ten come with new orders of the three channels and two with withdrawn ones, with their returns;
lines and returns are corrected, parcels come back, stock is counted again. Some customers and addresses, a few items and a store
change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from benchmarks import tpcds_words as words
from benchmarks.epoch_cases import TableChange, replace_places, set_column
from benchmarks.tpcds_columns import build_ints, build_keys, build_money, draw_texts, read_cents
from benchmarks.tpcds_sales import CHANNELS, Channel, Prices, build_amounts
from benchmarks.tpcds_tables import KEYS, generate_tables
from benchmarks.tpcds_texts import arrange_columns, build_ddl, find_folder, read_queries, read_schema

HELD_BACK = {"orders": 20, "returns": 10, "inventory": 50}
"""One order, return or count in so many is new in a later hour."""
CHANNEL_SHARES = {"store": 0.5, "catalog": 0.3, "web": 0.2}


@dataclass
class ChannelState:
    """What is there of a channel: orders by their places, returns by the places of their rows."""

    channel: Channel
    owner: np.ndarray
    """Of each line the place of its order."""
    return_owner: np.ndarray
    is_whole: np.ndarray
    """Of each line whether it never comes back."""
    waiting: np.ndarray
    alive: np.ndarray
    is_back: np.ndarray
    """Of each return whether it has come, if its order is there."""


class TpcdsHours:
    """The 24 tables, which go on from hour to hour; the same seed gives the same rows. Raises MissingTexts without the texts."""

    def __init__(self, scale: float, seed: int = 1) -> None:
        folder = find_folder()
        self.schema = read_schema(folder)
        self.ddl, self.views = build_ddl(self.schema), read_queries(folder)
        self.chance = np.random.default_rng(seed)
        made = generate_tables(scale, seed)
        self.tables = {table: arrange_columns(made[table], fields) for table, fields in self.schema.items()}
        self.states = {channel.name: self._begin(channel) for channel in CHANNELS}
        counts = self.tables["inventory"].num_rows
        self.counted = np.arange(counts) % HELD_BACK["inventory"] != HELD_BACK["inventory"] - 1

    def _begin(self, channel: Channel) -> ChannelState:
        sales, returns = self.tables[channel.sales], self.tables[channel.returns]
        owner = sales.column(f"{channel.prefix}_{channel.number}").to_numpy() - 1
        return_owner = returns.column(f"{channel.returned}_{channel.number}").to_numpy() - 1
        most = self.tables["item"].num_rows + 1
        line, back = (
            number * most + rows.column(f"{prefix}_item_sk").to_numpy()
            for number, rows, prefix in (
                (owner.astype(np.int64), sales, channel.prefix),
                (return_owner.astype(np.int64), returns, channel.returned),
            )
        )
        waiting = np.arange(owner.max() + 1) % HELD_BACK["orders"] == HELD_BACK["orders"] - 1
        is_back = np.arange(len(return_owner)) % HELD_BACK["returns"] != HELD_BACK["returns"] - 1
        return ChannelState(channel, owner, return_owner, ~np.isin(line, back), waiting, ~waiting, is_back)

    def read(self, table: str) -> pa.Table:
        """Return a table's rows as they are now."""
        rows = self.tables[table]
        for state in self.states.values():
            if table == state.channel.sales:
                return rows.filter(pa.array(state.alive[state.owner]))
            if table == state.channel.returns:
                return rows.filter(pa.array(state.alive[state.return_owner] & state.is_back))
        return rows.filter(pa.array(self.counted)) if table == "inventory" else rows

    def generate_hour(self, changes: int) -> list[TableChange]:
        """Return the changes of the next hour, some `changes` rows together, and remember them.

        Raises ValueError where no orders are left that could come.
        """
        found: list[TableChange] = []
        for state in self.states.values():
            found += self._change_channel(state, changes * CHANNEL_SHARES[state.channel.name])
        return [*found, *self._count_again(changes), *self._change_rest(changes)]

    def _change_channel(self, state: ChannelState, changes: float) -> list[TableChange]:
        channel = state.channel
        orders = max(round(changes * 0.2 / (channel.most_lines / 2)), 1)
        come = self._draw(state.waiting, 2 * orders)
        if not len(come):
            raise ValueError("every order has come already: choose a larger scale, or fewer hours")
        gone = self._draw(state.alive, orders)
        found = [
            *self._move_orders(state, come, "insert"),
            *self._move_orders(state, gone, "delete"),
        ]
        kept = state.alive.copy()
        kept[gone] = False
        state.waiting[come] = False
        state.alive[gone], state.alive[come] = False, True
        return [
            *found,
            *self._move_returns(state, kept[state.return_owner], max(round(changes * 0.03), 1)),
            self._correct_lines(state, kept, max(round(changes * 0.17), 1)),
        ]

    def _move_orders(
        self, state: ChannelState, orders: np.ndarray, mode: Literal["insert", "delete"]
    ) -> list[TableChange]:
        channel = state.channel
        lines = np.isin(state.owner, orders)
        returns = np.isin(state.return_owner, orders) & state.is_back
        return [self._build(channel.sales, lines, mode), self._build(channel.returns, returns, mode)]

    def _move_returns(self, state: ChannelState, kept: np.ndarray, rows: int) -> list[TableChange]:
        """Parcels that come back, returns that are withdrawn, and returns with another fee."""
        table, prefix = state.channel.returns, state.channel.returned
        come, gone = self._draw(kept & ~state.is_back, 2 * rows), self._draw(kept & state.is_back, rows)
        is_other = kept & state.is_back
        is_other[gone] = False
        other = self._draw(is_other, rows)
        state.is_back[come], state.is_back[gone] = True, False
        found = [
            self._build(table, np.isin(np.arange(len(kept)), places), mode)
            for places, mode in ((come, "insert"), (gone, "delete"))
        ]
        taken = self.tables[table].take(pa.array(other))
        fee = self.chance.integers(50, 10_001, len(other))
        loss = (
            read_cents(taken.column(f"{prefix}_net_loss")) - read_cents(taken.column(f"{prefix}_fee")) + fee
        )
        taken = set_column(taken, f"{prefix}_fee", build_money(fee))
        return [*found, self._put(table, other, set_column(taken, f"{prefix}_net_loss", build_money(loss)))]

    def _correct_lines(self, state: ChannelState, orders: np.ndarray, rows: int) -> TableChange:
        """Lines that never come back with other pieces and without a coupon, and the amounts that follow."""
        channel = state.channel
        places = self._draw(orders[state.owner] & state.is_whole, rows)
        lines = self.tables[channel.sales].take(pa.array(places))
        pieces = lines.column(f"{channel.prefix}_quantity").to_numpy()
        cost, listed, price = (
            read_cents(lines.column(f"{channel.prefix}_{name}"))
            for name in ("wholesale_cost", "list_price", "sales_price")
        )
        none = np.zeros(len(places), dtype=np.int64)
        freight = (
            read_cents(lines.column(f"{channel.prefix}_ext_ship_cost")) // pieces if channel.is_sent else none
        )
        prices = Prices(
            self.chance.integers(1, 101, len(places)),
            cost,
            listed,
            price,
            freight,
            none,
            self.chance.integers(0, 10, len(places)),
        )
        for name, values in build_amounts(channel, prices).items():
            lines = set_column(lines, name, values)
        return self._put(channel.sales, places, lines)

    def _count_again(self, changes: int) -> list[TableChange]:
        """Counts of stock that come, that are withdrawn, and that are corrected."""
        rows = max(round(changes * 0.01), 1)
        come, gone = self._draw(~self.counted, 2 * rows), self._draw(self.counted, rows)
        kept = self.counted.copy()
        kept[gone] = False
        other = self._draw(kept, 3 * rows)
        self.counted[come], self.counted[gone] = True, False
        every = np.arange(len(self.counted))
        taken = self.tables["inventory"].take(pa.array(other))
        counts = build_ints(self.chance.integers(0, 1_000, len(other)))
        return [
            self._build("inventory", np.isin(every, come), "insert"),
            self._build("inventory", np.isin(every, gone), "delete"),
            self._put("inventory", other, set_column(taken, "inv_quantity_on_hand", counts)),
        ]

    def _change_rest(self, changes: int) -> list[TableChange]:
        """Customers who move and take another name, addresses, prices of items, and a store with another manager."""
        found = []
        for table, share in (
            ("customer", 0.02),
            ("customer_address", 0.01),
            ("item", 0.0004),
            ("store", 0.0),
        ):
            every = np.ones(self.tables[table].num_rows, dtype=bool)
            places = self._draw(every, max(round(changes * share), 1))
            taken = self.tables[table].take(pa.array(places))
            for name, values in self._draw_columns(table, len(places)).items():
                taken = set_column(taken, name, values)
            found.append(self._put(table, places, taken))
        return found

    def _draw_columns(self, table: str, rows: int) -> dict[str, pa.Array]:
        chance, addresses = self.chance, self.tables["customer_address"].num_rows
        if table == "customer":
            return {
                "c_last_name": draw_texts(chance, words.LAST_NAMES, rows),
                "c_current_addr_sk": build_keys(chance.integers(1, addresses + 1, rows)),
            }
        if table == "customer_address":
            return {
                "ca_city": draw_texts(chance, words.CITIES, rows),
                "ca_street_name": draw_texts(chance, words.STREETS, rows),
                "ca_zip": self._take("customer_address", "ca_zip", chance.integers(0, addresses, rows)),
            }
        if table == "item":
            return {"i_current_price": build_money(chance.integers(99, 10_000, rows))}
        return {
            "s_manager": draw_texts(chance, words.LAST_NAMES, rows),
            "s_number_employees": build_ints(chance.integers(200, 301, rows)),
        }

    def _take(self, table: str, column: str, places: np.ndarray) -> pa.Array:
        return self.tables[table].column(column).take(pa.array(places)).combine_chunks()

    def _draw(self, among: np.ndarray, rows: int) -> np.ndarray:
        places = np.flatnonzero(among)
        return np.sort(self.chance.choice(places, min(rows, len(places)), replace=False))

    def _build(self, table: str, among: np.ndarray, mode: Literal["insert", "delete"]) -> TableChange:
        rows = self.tables[table].filter(pa.array(among))
        return TableChange(table, mode, rows if mode == "insert" else rows.select(list(KEYS[table])))

    def _put(self, table: str, places: np.ndarray, rows: pa.Table) -> TableChange:
        """Put rows in their places, and return the change."""
        self.tables[table] = replace_places(self.tables[table], places, rows)
        return TableChange(table, "upsert", rows)
