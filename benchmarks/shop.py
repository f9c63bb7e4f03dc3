"""A shop's seven tables as Arrow, by NumPy, and what happens to them hour by hour; the same seed gives the same rows.

Sizes follow the scale, the number of changed rows of an hour does not. Of an hour's rows some three in ten are orders, a
quarter of them new and the others one step further; nearly as many are clicks, a fifth each lines and moves of stock. A few
lines are corrected; a few orders are withdrawn with their lines, a few clicks forgotten. Products, shoppers and a vendor change
now and then. Some rows have values that a view must leave out: an unknown tier, no shopper, no pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.epoch_cases import TableChange, replace_rows
from benchmarks.shop_views import VIEWS
from benchmarks.tpch import to_decimals

DDL: Mapping[str, str] = {
    "vendors": (
        "CREATE TABLE vendors (id BIGINT PRIMARY KEY, name STRING NOT NULL, country STRING, lead_days INT, "
        "changed TIMESTAMP NOT NULL)"
    ),
    "products": (
        "CREATE TABLE products (id BIGINT PRIMARY KEY, title STRING NOT NULL, category STRING, brand STRING, vendor BIGINT, "
        "list_price DECIMAL(10, 2), cost DECIMAL(10, 2), kilos DECIMAL(6, 2), active BOOLEAN, changed TIMESTAMP NOT NULL)"
    ),
    "shoppers": (
        "CREATE TABLE shoppers (id BIGINT PRIMARY KEY, mail STRING, joined DATE, tier STRING, country STRING, region STRING, "
        "changed TIMESTAMP NOT NULL)"
    ),
    "orders": (
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, shopper BIGINT, state STRING, total DECIMAL(12, 2), "
        "rebate DECIMAL(12, 2), freight DECIMAL(12, 2), paid_by STRING, voucher STRING, placed TIMESTAMP NOT NULL, "
        "changed TIMESTAMP NOT NULL, loaded TIMESTAMP NOT NULL)"
    ),
    "order_lines": (
        "CREATE TABLE order_lines (id BIGINT PRIMARY KEY, order_id BIGINT NOT NULL, product BIGINT NOT NULL, "
        "pieces INT NOT NULL, price DECIMAL(10, 2) NOT NULL, percent_off DECIMAL(5, 2), loaded TIMESTAMP NOT NULL)"
    ),
    "clicks": (
        "CREATE TABLE clicks (id BIGINT PRIMARY KEY, shopper BIGINT, visit STRING, kind STRING, page STRING, product BIGINT, "
        "referrer STRING, device STRING, country STRING, region STRING, at TIMESTAMP NOT NULL, loaded TIMESTAMP NOT NULL)"
    ),
    "stock_moves": (
        "CREATE TABLE stock_moves (id BIGINT PRIMARY KEY, product BIGINT NOT NULL, warehouse BIGINT NOT NULL, "
        "kind STRING NOT NULL, pieces INT NOT NULL, at TIMESTAMP NOT NULL, loaded TIMESTAMP NOT NULL)"
    ),
}
ROWS = {
    "vendors": 2_000,
    "products": 40_000,
    "shoppers": 250_000,
    "orders": 500_000,
    "clicks": 1_000_000,
    "stock_moves": 750_000,
}
"""Rows at scale 1; an order has three lines on average."""
HOUR = 3_600_000_000
NOW = np.datetime64("2026-03-01", "us").astype(np.int64)
PAST_DAYS = {"orders": 90, "clicks": 14, "stock_moves": 90}
STATES = ("new", "accepted", "sent", "arrived", "cancelled", "returned", "draft")
NEXT_STATE = np.array([1, 2, 3, 5, 4, 5, 0])
CANCELLED, OPEN_STATES = 4, 3
STATE_SHARES = (0.05, 0.07, 0.10, 0.66, 0.07, 0.04, 0.01)
TIERS = ("plain", "bronze", "silver", "gold", "staff")
COUNTRIES = ("AT", "BR", "CA", "DE", "FR", "IN", "IT", "JP", "PL", "US")
REGIONS = ("north", "south", "east", "west", "centre")
CATEGORIES = (
    "books",
    "toys",
    "garden",
    "kitchen",
    "sport",
    "music",
    "tools",
    "pets",
    "office",
    "shoes",
    "lamps",
    "tea",
)
PAYMENTS = ("card", "transfer", "wallet", "invoice")
CLICK_KINDS = ("page", "look", "basket", "checkout", "bought", "ping")
CLICK_SHARES = (0.34, 0.32, 0.14, 0.08, 0.06, 0.06)
DEVICES = ("phone", "desktop", "tablet")
MOVE_KINDS = ("restock", "reserve", "cancel_back", "return_back")
RESTOCK, RESERVE, CANCEL_BACK = range(3)
WAREHOUSES = 10
PRICE, MONEY, PERCENT, KILOS = (pa.decimal128(*digits) for digits in ((10, 2), (12, 2), (5, 2), (6, 2)))
TIME = pa.timestamp("us", "UTC")


class ShopTable:
    """One table's rows, each in the place of its id, and which of them are there."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows, self.alive = rows, np.ones(rows.num_rows, dtype=bool)

    def read(self) -> pa.Table:
        """Return the rows that are there."""
        return self.rows.filter(pa.array(self.alive))

    def put(self, rows: pa.Table) -> None:
        """Put rows in the places of their ids."""
        self.rows = replace_rows(self.rows, rows)
        self.alive = np.append(self.alive, np.zeros(self.rows.num_rows - len(self.alive), dtype=bool))
        self.alive[rows.column("id").to_numpy()] = True

    def delete(self, ids: np.ndarray) -> None:
        """Take rows away."""
        self.alive[ids] = False

    def draw(self, chance: np.random.Generator, rows: int, among: np.ndarray | None = None) -> np.ndarray:
        """Return ids of so many rows that are there (and among some), fewer where there are not so many."""
        ids = np.flatnonzero(self.alive if among is None else self.alive & among)
        return chance.choice(ids, min(rows, len(ids)), replace=False)

    def take(self, ids: np.ndarray) -> pa.Table:
        """Return some rows."""
        return self.rows.take(pa.array(ids))


class Shop:
    """The seven tables of a shop, which go on from hour to hour."""

    ddl, views = DDL, VIEWS

    def __init__(self, scale: float, seed: int = 1) -> None:
        self.chance, self.hour = np.random.default_rng(seed), 0
        counts = {name: max(int(rows * scale), 10) for name, rows in ROWS.items()}
        self.vendors, self.products, self.shoppers = (
            ShopTable(make(np.arange(counts[name])))
            for name, make in (
                ("vendors", self._make_vendors),
                ("products", lambda ids: self._make_products(ids, counts["vendors"])),
                ("shoppers", self._make_shoppers),
            )
        )
        orders = np.arange(counts["orders"])
        self.orders = ShopTable(self._make_orders(orders, self._draw_past("orders", len(orders))))
        self.order_lines = ShopTable(self._make_lines(0, orders))
        clicks = np.arange(counts["clicks"])
        self.clicks = ShopTable(self._make_clicks(clicks, self._draw_past("clicks", len(clicks))))
        moves = np.arange(counts["stock_moves"])
        self.stock_moves = ShopTable(self._make_moves(moves, self._draw_past("stock_moves", len(moves))))

    def read(self, table: str) -> pa.Table:
        """Return a table's rows as they are now."""
        found: ShopTable = getattr(self, table)
        return found.read()

    def generate_hour(self, changes: int) -> list[TableChange]:
        """Return the changes of the next hour, some `changes` rows together, and remember them."""
        self.hour += 1
        lines, withdrawn = self._change_orders(changes)
        found = [*withdrawn, *lines, *self._change_clicks(changes), *self._change_catalogue(changes)]
        for each in found:
            table: ShopTable = getattr(self, each.table)
            if each.mode == "delete":
                table.delete(each.rows.column("id").to_numpy())
            else:
                table.put(each.rows)
        return found

    def _change_orders(self, changes: int) -> tuple[list[TableChange], list[TableChange]]:
        """Orders that come, go on and are withdrawn; their lines, and the stock that they reserve and give back."""
        at = self._draw_hour(compute_share(changes, 0.06))
        new = self._make_orders(len(self.orders.alive) + np.arange(len(at)), at, first=True)
        new_lines = self._make_lines(len(self.order_lines.alive), new.column("id").to_numpy(), at)
        gone = self.orders.draw(self.chance, compute_share(changes, 0.004))
        state = pc.index_in(self.orders.rows.column("state"), pa.array(STATES)).to_numpy()
        is_open = (state < OPEN_STATES) | ((state == OPEN_STATES) & (self.chance.random(len(state)) < 0.05))
        is_open[gone] = False
        moved = self.orders.draw(self.chance, compute_share(changes, 0.17), is_open)
        after = np.where(self.chance.random(len(moved)) < 0.1, CANCELLED, NEXT_STATE[state[moved]])
        is_back = np.isin(self.order_lines.rows.column("order_id").to_numpy(), moved[after == CANCELLED])
        gone_lines = np.flatnonzero(
            np.isin(self.order_lines.rows.column("order_id").to_numpy(), gone) & self.order_lines.alive
        )
        is_left = np.ones(len(self.order_lines.alive), dtype=bool)
        is_left[gone_lines] = False
        corrected = self.order_lines.take(
            self.order_lines.draw(self.chance, compute_share(changes, 0.012), is_left)
        )
        corrected = _set_column(corrected, "pieces", self._draw_pieces(len(corrected)))
        going_on = _set_column(self.orders.take(moved), "state", pa.array(STATES).take(pa.array(after)))
        going_on = _set_column(going_on, "changed", _to_times(self._draw_hour(len(moved))))
        back = self.order_lines.take(np.flatnonzero(is_back & is_left & self.order_lines.alive))
        orders = [
            TableChange("orders", "upsert", pa.concat_tables([new, going_on])),
            TableChange("orders", "delete", pa.table({"id": gone})),
        ]
        return [
            TableChange("order_lines", "upsert", pa.concat_tables([new_lines, corrected])),
            TableChange("order_lines", "delete", pa.table({"id": gone_lines})),
            *self._change_stock(changes, new_lines, back),
        ], orders

    def _change_stock(self, changes: int, reserved: pa.Table, back: pa.Table) -> list[TableChange]:
        """Stock that lines reserve and give back, that is delivered, and moves that were none."""
        restocked = compute_share(changes, 0.03)
        product = np.concatenate(
            [
                *(rows.column("product").to_numpy() for rows in (reserved, back)),
                self._draw_ids("products", restocked),
            ]
        )
        kind = np.repeat([RESERVE, CANCEL_BACK, RESTOCK], [len(reserved), len(back), restocked])
        taken = [rows.column("pieces").to_numpy() for rows in (reserved, back)]
        pieces = np.concatenate([-taken[0], taken[1], self.chance.integers(20, 200, restocked)])
        ids = len(self.stock_moves.alive) + np.arange(len(kind))
        moves = self._make_moves(ids, self._draw_hour(len(kind)), (product, kind, pieces))
        voided = self.stock_moves.draw(self.chance, compute_share(changes, 0.002))
        return [
            TableChange("stock_moves", "insert", moves),
            TableChange("stock_moves", "delete", pa.table({"id": voided})),
        ]

    def _change_clicks(self, changes: int) -> list[TableChange]:
        """Clicks that come, and some of one shopper that are forgotten."""
        at = self._draw_hour(compute_share(changes, 0.29))
        forgotten = self.clicks.draw(self.chance, compute_share(changes, 0.008))
        return [
            TableChange(
                "clicks", "insert", self._make_clicks(len(self.clicks.alive) + np.arange(len(at)), at)
            ),
            TableChange("clicks", "delete", pa.table({"id": forgotten})),
        ]

    def _change_catalogue(self, changes: int) -> list[TableChange]:
        """Shoppers, products and one vendor that change, and some that are new."""
        shoppers = np.concatenate(
            [
                self.shoppers.draw(self.chance, compute_share(changes, 0.005)),
                len(self.shoppers.alive) + np.arange(compute_share(changes, 0.001)),
            ]
        )
        products = self.products.take(self.products.draw(self.chance, compute_share(changes, 0.0015)))
        products = _set_column(products, "list_price", self._draw_money(len(products), 30_000, PRICE))
        products = _set_column(products, "cost", self._draw_money(len(products), 15_000, PRICE))
        fresh = len(self.products.alive) + np.arange(compute_share(changes, 0.0005))
        vendor = self.vendors.take(self.vendors.draw(self.chance, 1))
        vendor = _set_column(vendor, "lead_days", pa.array(self._draw_lead_days(1)))
        return [
            TableChange("shoppers", "upsert", self._make_shoppers(shoppers)),
            TableChange(
                "products",
                "upsert",
                pa.concat_tables([products, self._make_products(fresh, len(self.vendors.alive))]),
            ),
            TableChange("vendors", "upsert", vendor),
        ]

    def _make_vendors(self, ids: np.ndarray) -> pa.Table:
        return pa.table(
            {
                "id": ids,
                "name": _number("Vendor", ids),
                "country": self._pick(COUNTRIES, len(ids)),
                "lead_days": pa.array(self._draw_lead_days(len(ids))),
                "changed": _to_times(self._draw_hour(len(ids))),
            }
        )

    def _make_products(self, ids: np.ndarray, vendors: int) -> pa.Table:
        cost = self.chance.integers(100, 20_000, len(ids))
        return pa.table(
            {
                "id": ids,
                "title": _number("Product", ids),
                "category": self._pick(CATEGORIES, len(ids)),
                "brand": _number("Brand", self.chance.integers(0, 200, len(ids))),
                "vendor": self.chance.integers(0, vendors, len(ids)),
                "list_price": to_decimals(cost * 17 // 10, PRICE),
                "cost": to_decimals(cost, PRICE),
                "kilos": self._draw_money(len(ids), 3_000, KILOS),
                "active": self.chance.random(len(ids)) < 0.95,
                "changed": _to_times(self._draw_hour(len(ids))),
            }
        )

    def _make_shoppers(self, ids: np.ndarray) -> pa.Table:
        days = self.chance.integers(18_000, 20_500, len(ids)).astype(np.int32)
        return pa.table(
            {
                "id": ids,
                "mail": pc.binary_join_element_wise(_number("shopper", ids), pa.scalar("example.com"), "@"),
                "joined": pa.array(days).cast(pa.date32()),
                "tier": self._pick(TIERS, len(ids), (0.5, 0.2, 0.15, 0.12, 0.03)),
                "country": self._pick(COUNTRIES, len(ids)),
                "region": self._pick(REGIONS, len(ids)),
                "changed": _to_times(self._draw_hour(len(ids))),
            }
        )

    def _make_orders(self, ids: np.ndarray, at: np.ndarray, first: bool = False) -> pa.Table:
        rows = len(ids)
        total = self.chance.integers(500, 90_000, rows)
        states = pa.repeat(STATES[0], rows) if first else self._pick(STATES, rows, STATE_SHARES)
        return pa.table(
            {
                "id": ids,
                "shopper": self._lose(pa.array(self._draw_ids("shoppers", rows)), 0.005),
                "state": states,
                "total": to_decimals(np.where(self.chance.random(rows) < 0.002, -total, total), MONEY),
                "rebate": self._draw_money(rows, 2_000, MONEY),
                "freight": self._draw_money(rows, 1_500, MONEY),
                "paid_by": self._pick(PAYMENTS, rows),
                "voucher": self._lose(_number("SAVE", self.chance.integers(0, 50, rows)), 0.8),
                "placed": _to_times(at),
                "changed": _to_times(at),
                "loaded": _to_times(at + HOUR),
            }
        )

    def _make_lines(self, start: int, orders: np.ndarray, at: np.ndarray | None = None) -> pa.Table:
        """One to five lines of each order."""
        owner = np.repeat(np.arange(len(orders)), self.chance.integers(1, 6, len(orders)))
        rows = len(owner)
        loaded = np.full(len(orders), NOW) if at is None else at + HOUR
        return pa.table(
            {
                "id": start + np.arange(rows),
                "order_id": orders[owner],
                "product": self._draw_ids("products", rows),
                "pieces": self._draw_pieces(rows),
                "price": self._draw_money(rows, 30_000, PRICE),
                "percent_off": self._lose(self._draw_money(rows, 3_000, PERCENT), 0.4),
                "loaded": _to_times(loaded[owner]),
            }
        )

    def _make_clicks(self, ids: np.ndarray, at: np.ndarray) -> pa.Table:
        rows = len(ids)
        product = self._draw_ids("products", rows)
        return pa.table(
            {
                "id": ids,
                "shopper": self._lose(pa.array(self._draw_ids("shoppers", rows)), 0.02),
                "visit": _number("visit", self.chance.integers(0, max(rows // 5, 1), rows)),
                "kind": self._lose(self._pick(CLICK_KINDS, rows, CLICK_SHARES), 0.005),
                "page": _number("/p/", product),
                "product": self._lose(pa.array(product), 0.3),
                "referrer": self._lose(self._pick(("search", "mail", "friend"), rows), 0.5),
                "device": self._pick(DEVICES, rows),
                "country": self._pick(COUNTRIES, rows),
                "region": self._pick(REGIONS, rows),
                "at": _to_times(at),
                "loaded": _to_times(at + HOUR),
            }
        )

    def _make_moves(
        self, ids: np.ndarray, at: np.ndarray, given: Sequence[np.ndarray] | None = None
    ) -> pa.Table:
        """Moves of stock, of given products, kinds and pieces or of any."""
        rows = len(ids)
        if given is None:
            kind = self.chance.choice(len(MOVE_KINDS), rows, p=(0.3, 0.6, 0.06, 0.04))
            many = self.chance.integers(20, 200, rows)
            given = (
                self._draw_ids("products", rows),
                kind,
                np.where(kind == RESTOCK, many, np.where(kind == RESERVE, -1, 1) * (many % 5 + 1)),
            )
        product, kind, pieces = given
        return pa.table(
            {
                "id": ids,
                "product": product,
                "warehouse": self.chance.integers(0, WAREHOUSES, rows),
                "kind": pa.array(MOVE_KINDS).take(pa.array(kind)),
                "pieces": pa.array(pieces.astype(np.int32)),
                "at": _to_times(at),
                "loaded": _to_times(at + HOUR),
            }
        )

    def _draw_past(self, table: str, rows: int) -> np.ndarray:
        return NOW - self.chance.integers(0, PAST_DAYS[table] * 24 * HOUR, rows)

    def _draw_hour(self, rows: int) -> np.ndarray:
        """Return moments of the hour that is under way."""
        return NOW + self.hour * HOUR - self.chance.integers(0, HOUR, rows)

    def _draw_ids(self, table: str, rows: int) -> np.ndarray:
        found: ShopTable = getattr(self, table)
        return self.chance.integers(0, len(found.alive), rows)

    def _draw_pieces(self, rows: int) -> pa.Array:
        return pa.array(self.chance.integers(0, 7, rows).astype(np.int32))

    def _draw_lead_days(self, rows: int) -> np.ndarray:
        return self.chance.integers(2, 40, rows).astype(np.int32)

    def _draw_money(self, rows: int, most: int, kind: pa.Decimal128Type) -> pa.Array:
        return to_decimals(self.chance.integers(0, most, rows), kind)

    def _pick(self, values: Sequence[str], rows: int, shares: Sequence[float] | None = None) -> pa.Array:
        return pa.array(values).take(pa.array(self.chance.choice(len(values), rows, p=shares)))

    def _lose(self, values: pa.Array, share: float) -> pa.Array:
        """Return values of which a share is null."""
        return pc.if_else(
            pa.array(self.chance.random(len(values)) < share), pa.scalar(None, values.type), values
        )


def compute_share(changes: int, share: float) -> int:
    """Return a share of an hour's changes, one row at least."""
    return max(int(changes * share), 1)


def _set_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _number(prefix: str, number: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix), pa.array(number).cast(pa.string()), "")


def _to_times(moments: np.ndarray) -> pa.Array:
    return pa.array(moments.astype(np.int64)).cast(TIME)
