"""TPC-DS's three channels: orders with their lines, and returns of lines, with amounts of money that agree.

Some customers buy much more than others, a few items sell each day, and some orders of the catalog and the web repeat what the
same customer has bought in a store shortly before, so that queries across the channels find rows. One line in fifty is large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcds_columns import FIRST_DATE, build_ints, build_keys, build_money, draw_keys

SOLD_DAYS = 1_826
"""Sales are of the first five years, so that parcels and returns come before the last day."""
BUSY = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.3, 1.3, 1.3, 2.0, 2.0])
"""How much is sold in a month."""
AGAIN = {"catalog": 0.3, "web": 0.25}
"""The share of orders that repeat a line of the stores."""
RETURNED = 0.1


@dataclass(frozen=True)
class Channel:
    """A way of selling: the names of its tables and columns, the column with an order's number, and the most lines of one."""

    name: str
    prefix: str
    number: str
    most_lines: int
    is_sent: bool = True

    @property
    def sales(self) -> str:
        """The table of lines."""
        return f"{self.name}_sales"

    @property
    def returns(self) -> str:
        """The table of returned lines."""
        return f"{self.name}_returns"

    @property
    def returned(self) -> str:
        """What the columns of returned lines begin with."""
        return f"{self.prefix[0]}r"


CHANNELS = (
    Channel("store", "ss", "ticket_number", 20, is_sent=False),
    Channel("catalog", "cs", "order_number", 14),
    Channel("web", "ws", "order_number", 14),
)


@dataclass(frozen=True)
class Prices:
    """Of each line the pieces, and in cents a piece its cost, list price, price and freight; percents of coupon and tax."""

    quantity: np.ndarray
    cost: np.ndarray
    listed: np.ndarray
    price: np.ndarray
    freight: np.ndarray
    coupon: np.ndarray
    tax: np.ndarray

    def take(self, places: np.ndarray) -> Prices:
        """Return those of some lines."""
        return Prices(**{name: values[places] for name, values in vars(self).items()})

    def compute_amounts(self) -> dict[str, np.ndarray]:
        """Return the columns of money that the stores have, and the others that a parcel has, in cents."""
        sales, cost = self.quantity * self.price, self.quantity * self.cost
        coupon = sales * self.coupon // 100
        paid = sales - coupon
        tax, freight = paid * self.tax // 100, self.quantity * self.freight
        return {
            "wholesale_cost": self.cost,
            "list_price": self.listed,
            "sales_price": self.price,
            "ext_discount_amt": self.quantity * (self.listed - self.price),
            "ext_sales_price": sales,
            "ext_wholesale_cost": cost,
            "ext_list_price": self.quantity * self.listed,
            "ext_tax": tax,
            "coupon_amt": coupon,
            "net_paid": paid,
            "net_paid_inc_tax": paid + tax,
            "net_profit": paid - cost,
            "ext_ship_cost": freight,
            "net_paid_inc_ship": paid + freight,
            "net_paid_inc_ship_tax": paid + freight + tax,
        }


ONLY_SENT = ("ext_ship_cost", "net_paid_inc_ship", "net_paid_inc_ship_tax")


def build_amounts(channel: Channel, prices: Prices) -> dict[str, pa.Array]:
    """Return a channel's columns of pieces and money by name."""
    amounts = prices.compute_amounts().items()
    money = {name: cents for name, cents in amounts if channel.is_sent or name not in ONLY_SENT}
    return {
        f"{channel.prefix}_quantity": build_ints(prices.quantity),
        **{f"{channel.prefix}_{name}": build_money(cents) for name, cents in money.items()},
    }


@dataclass(frozen=True)
class Lines:
    """The lines of a channel: of each the place of its order, its item and prices; of each order the customer and the day."""

    owner: np.ndarray
    item: np.ndarray
    prices: Prices
    customer: np.ndarray
    day: np.ndarray


def make_sales(sizes: Mapping[str, int], customers: pa.Table, seed: int) -> dict[str, pa.Table]:
    """Return the six tables of the channels."""
    found: dict[str, pa.Table] = {}
    store: Lines | None = None
    for number, channel in enumerate(CHANNELS):
        chance = np.random.default_rng((seed, 200 + number))
        lines = _draw_lines(channel, sizes, chance, store)
        store = store or lines
        sales = _make_lines(channel, sizes, chance, lines)
        found[channel.sales] = sales
        found[channel.returns] = _make_returns(channel, sizes, chance, lines, sales)
    return found


def _draw_lines(
    channel: Channel, sizes: Mapping[str, int], chance: np.random.Generator, store: Lines | None
) -> Lines:
    orders = max(sizes[channel.sales] * 2 // (channel.most_lines + 1), 1)
    owner = np.repeat(np.arange(orders), chance.integers(1, channel.most_lines + 1, orders))
    customers, items = sizes["customer"], sizes["item"]
    loyal = chance.random(orders) < 0.5
    customer = draw_keys(chance, customers, orders)
    customer[loyal] = draw_keys(chance, customers // 10, int(loyal.sum()))
    day = _draw_days(chance, orders)
    item = chance.integers(1, items + 1, len(owner))
    hot = chance.random(len(owner)) < 0.05
    item[hot] = chance.integers(1, max(items // 200, 5) + 1, int(hot.sum()))
    if store is not None:
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        again = np.flatnonzero(chance.random(orders) < AGAIN[channel.name])
        model = _draw_models(chance, store, len(again))
        customer[again] = store.customer[store.owner[model]]
        day[again] = np.minimum(
            store.day[store.owner[model]] + chance.integers(1, 150, len(again)), SOLD_DAYS - 1
        )
        item[first[again]] = store.item[model]
    # An order has an item once.
    _, kept = np.unique(owner * (items + 1) + item, return_index=True)
    kept.sort()
    return Lines(owner[kept], item[kept], _draw_prices(chance, len(kept)), customer, day)


def _draw_days(chance: np.random.Generator, orders: int) -> np.ndarray:
    days = np.datetime64("1998-01-01") + np.arange(SOLD_DAYS)
    weight = BUSY[days.astype("datetime64[M]").astype(int) % 12]
    return chance.choice(SOLD_DAYS, orders, p=weight / weight.sum())


def _draw_models(chance: np.random.Generator, store: Lines, rows: int) -> np.ndarray:
    """Return the places of some lines of the stores, half of them among those that are returned."""
    found = chance.integers(0, len(store.owner), rows)
    back = choose_returned(store)
    half = np.arange(rows) % 2 == 0
    found[half] = back[chance.integers(0, len(back), int(half.sum()))]
    return found


def choose_returned(lines: Lines) -> np.ndarray:
    """Return the places of the lines that come back: one in ten, and of large ones one in three."""
    at = np.arange(len(lines.owner))
    large = lines.prices.quantity * lines.prices.price > 1_000_000
    hashed = (at * 2_654_435_761 + 97) % 2**32 / 2**32
    return np.flatnonzero(hashed < np.where(large, 1 / 3, RETURNED))


def _draw_prices(chance: np.random.Generator, rows: int) -> Prices:
    large = chance.random(rows) < 0.02
    quantity = np.where(large, chance.integers(85, 101, rows), chance.integers(1, 101, rows))
    cost = np.where(large, chance.integers(8_500, 10_001, rows), chance.integers(100, 10_001, rows))
    listed = cost * np.where(large, chance.integers(150, 201, rows), chance.integers(100, 201, rows)) // 100
    price = listed * np.where(large, chance.integers(80, 101, rows), chance.integers(40, 101, rows)) // 100
    coupon = np.where(chance.random(rows) < 0.8, 0, chance.integers(1, 101, rows))
    return Prices(
        quantity,
        cost,
        listed,
        price,
        listed * chance.integers(0, 51, rows) // 100,
        coupon,
        chance.integers(0, 10, rows),
    )


def _make_lines(
    channel: Channel, sizes: Mapping[str, int], chance: np.random.Generator, lines: Lines
) -> pa.Table:
    orders, owner, prefix = len(lines.day), lines.owner, channel.prefix
    time_step = 86_400 // sizes["time_dim"]
    whole = {  # what an order has once
        "sold_date_sk": np.where(chance.random(orders) < 0.01, 0, FIRST_DATE + lines.day),
        f"{channel.number}": np.arange(1, orders + 1),
    }
    times = chance.integers(0, sizes["time_dim"], orders) * time_step
    people = ("",) if not channel.is_sent else ("bill_", "ship_")
    for who in people:
        same = chance.random(orders) < 0.7  # who gets it is most often who pays
        for column, table in (
            ("customer_sk", "customer"),
            ("cdemo_sk", "customer_demographics"),
            ("hdemo_sk", "household_demographics"),
            ("addr_sk", "customer_address"),
        ):
            drawn = lines.customer if column == "customer_sk" else draw_keys(chance, sizes[table], orders)
            if who == "ship_":
                other = draw_keys(chance, sizes[table], orders)
                drawn = np.where(same & (other > 0), whole[f"bill_{column}"], other)
            whole[f"{who}{column}"] = drawn
    each = {"promo_sk": "promotion"}  # what each line has
    if channel.is_sent:
        each |= {"ship_mode_sk": "ship_mode", "warehouse_sk": "warehouse"}
    if channel.name == "catalog":
        whole["call_center_sk"] = draw_keys(chance, sizes["call_center"], orders)
        each["catalog_page_sk"] = "catalog_page"
    elif channel.name == "web":
        whole["web_site_sk"] = draw_keys(chance, sizes["web_site"], orders)
        each["web_page_sk"] = "web_page"
    else:
        whole["store_sk"] = draw_keys(chance, sizes["store"], orders)
    columns = {name: build_keys(values[owner]) for name, values in whole.items()}
    columns |= {name: build_keys(draw_keys(chance, sizes[table], len(owner))) for name, table in each.items()}
    columns["item_sk"] = build_ints(lines.item)
    columns["sold_time_sk"] = build_ints(times[owner])
    if channel.is_sent:
        columns["ship_date_sk"] = build_ints(
            FIRST_DATE + lines.day[owner] + chance.integers(1, 125, len(owner))
        )
    named = {f"{prefix}_{name}": values for name, values in columns.items()}
    return pa.table({**named, **build_amounts(channel, lines.prices)})


def _make_returns(
    channel: Channel, sizes: Mapping[str, int], chance: np.random.Generator, lines: Lines, sales: pa.Table
) -> pa.Table:
    places = choose_returned(lines)
    rows, owner = len(places), lines.owner[places]
    sold = sales.take(pa.array(places))
    prefix, returned = channel.prefix, channel.returned
    prices = lines.prices.take(places)
    begun = (
        sold.column(f"{prefix}_ship_date_sk").to_numpy() if channel.is_sent else FIRST_DATE + lines.day[owner]
    )
    columns = {
        "returned_date_sk": build_ints(begun + chance.integers(1, 150, rows)),
        "item_sk": sold.column(f"{prefix}_item_sk"),
        channel.number: sold.column(f"{prefix}_{channel.number}"),
        "reason_sk": build_keys(draw_keys(chance, sizes["reason"], rows)),
    }
    times = build_ints(chance.integers(0, sizes["time_dim"], rows) * (86_400 // sizes["time_dim"]))
    columns["return_time_sk" if channel.name == "store" else "returned_time_sk"] = times
    kinds = ("customer_sk", "cdemo_sk", "hdemo_sk", "addr_sk")
    if channel.name == "store":
        columns |= {f"{name}": sold.column(f"{prefix}_{name}") for name in (*kinds, "store_sk")}
    else:
        is_same = pa.array(chance.random(rows) < 0.8)
        for name in kinds:
            paid, got = (sold.column(f"{prefix}_{who}_{name}") for who in ("bill", "ship"))
            columns[f"refunded_{name}"] = paid
            columns[f"returning_{name}"] = pc.if_else(is_same, paid, got)
        kept = ("call_center_sk", "catalog_page_sk", "ship_mode_sk", "warehouse_sk")
        columns |= {
            name: sold.column(f"{prefix}_{name}")
            for name in (kept if channel.name == "catalog" else ("web_page_sk",))
        }
    pieces = np.where(chance.random(rows) < 0.5, prices.quantity, chance.integers(1, prices.quantity + 1))
    named = {f"{returned}_{name}": values for name, values in columns.items()}
    return pa.table({**named, **build_return_amounts(channel, replace(prices, quantity=pieces), chance)})


def build_return_amounts(
    channel: Channel, prices: Prices, chance: np.random.Generator
) -> dict[str, pa.Array]:
    """Return the columns of pieces and money of returned lines by name; `prices` holds the pieces that came back."""
    rows = len(prices.quantity)
    amount = prices.quantity * prices.price
    tax, freight = amount * prices.tax // 100, prices.quantity * prices.freight
    fee = chance.integers(50, 10_001, rows)
    cash = amount * chance.integers(0, 101, rows) // 100
    charge = (amount - cash) * chance.integers(0, 101, rows) // 100
    named = {
        "return_amount" if channel.name == "catalog" else "return_amt": amount,
        "return_tax": tax,
        "return_amt_inc_tax": amount + tax,
        "fee": fee,
        "return_ship_cost": freight,
        "refunded_cash": cash,
        "reversed_charge": charge,
        "account_credit" if channel.name == "web" else "store_credit": amount - cash - charge,
        "net_loss": tax + fee + freight + amount // 2,
    }
    return {
        f"{channel.returned}_return_quantity": build_ints(prices.quantity),
        **{f"{channel.returned}_{name}": build_money(cents) for name, cents in named.items()},
    }
