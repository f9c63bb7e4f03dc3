"""TPC-H tables at any scale as Arrow, by NumPy, after the column rules of the public specification (clause 4.2.3).

Made in blocks, each from its own seed, so that a table of any size passes through little memory and any block can be
made again. Three things depart from the specification, so that every query has rows at scale 0.01: one part in fifty
is of a kind that queries 17 and 19 look for, one order in two thousand is a bulk order (query 18), and at least one
supplier has complaints (query 16). Comments are drawn from a pool of sentences.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import tpch_text as text

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
BASE_ROWS = {"supplier": 10_000, "customer": 150_000, "part": 200_000, "orders": 1_500_000}
BLOCK = 50_000
MONEY = pa.decimal128(15, 2)
FIRST_DAY = np.datetime64("1992-01-01").astype(int)
LAST_ORDER_DAY = np.datetime64("1998-12-31").astype(int) - 151
CURRENT_DAY = np.datetime64("1995-06-17").astype(int)
SOUGHT_PART = 50
BULK_ORDER = 2_000
_TABLE_NUMBER = {name: number for number, name in enumerate(KEYS)}


def generate_tables(scale: float, seed: int = 1) -> dict[str, pa.Table]:
    """Return all eight tables; the same scale and seed give the same rows."""
    return {name: pa.concat_tables(generate_blocks(name, scale, seed)).combine_chunks() for name in KEYS}


def generate_blocks(name: str, scale: float, seed: int = 1) -> Iterator[pa.Table]:
    """Yield one table in blocks of some ten thousand rows; raises ValueError for an unknown table or scale."""
    if name not in KEYS:
        raise ValueError(f'TPC-H has no table "{name}": use {", ".join(KEYS)}')
    if not 0 < scale <= 300:
        raise ValueError(f"scale {scale} is outside of 0 to 300, where order keys are 32-bit integers")
    if name == "region":
        yield _make_region(seed)
    elif name == "nation":
        yield _make_nation(seed)
    else:
        driver = {"partsupp": "part", "lineitem": "orders"}.get(name, name)
        for start in range(0, count_rows(driver, scale), BLOCK):
            number = np.arange(start + 1, min(start + BLOCK, count_rows(driver, scale)) + 1)
            chance = np.random.default_rng((seed, _TABLE_NUMBER[driver], start))
            if driver == "orders":
                orders, lines = _make_orders(number, chance, scale)
                yield orders if name == "orders" else lines
            elif name == "partsupp":
                yield _make_partsupp(number, np.random.default_rng((seed, _TABLE_NUMBER[name], start)), scale)
            else:
                yield {"supplier": _make_supplier, "customer": _make_customer, "part": _make_part}[name](
                    number, chance
                )


def count_rows(name: str, scale: float) -> int:
    """Return how many rows a table has whose size follows the scale directly."""
    return max(int(BASE_ROWS[name] * scale), 1)


def _make_region(seed: int) -> pa.Table:
    names = [region for region, _ in text.REGIONS]
    chance = np.random.default_rng((seed, 0))
    return pa.table(
        {
            "r_regionkey": _to_ints(np.arange(len(names))),
            "r_name": pa.array(names),
            "r_comment": _make_comments(chance, len(names)),
        }
    )


def _make_nation(seed: int) -> pa.Table:
    nations = sorted((nation, number) for number, (_, all_) in enumerate(text.REGIONS) for nation in all_)
    chance = np.random.default_rng((seed, 1))
    return pa.table(
        {
            "n_nationkey": _to_ints(np.arange(len(nations))),
            "n_name": pa.array([nation for nation, _ in nations]),
            "n_regionkey": _to_ints(np.array([number for _, number in nations])),
            "n_comment": _make_comments(chance, len(nations)),
        }
    )


def _make_supplier(number: np.ndarray, chance: np.random.Generator) -> pa.Table:
    nation = chance.integers(0, 25, len(number))
    comments = _make_comments(chance, len(number)).to_pylist()
    # Five suppliers of ten thousand have complaints and five are recommended; a small table has one of each.
    for key, said in ((7, "Customer slow Complaints"), (13, "Customer quick Recommends")):
        for at in np.flatnonzero(number % 2_000 == key):
            comments[at] = f"{said} {comments[at]}"
    return pa.table(
        {
            "s_suppkey": _to_ints(number),
            "s_name": _format_numbers("Supplier#", number),
            "s_address": _make_addresses(chance, len(number)),
            "s_nationkey": _to_ints(nation),
            "s_phone": _make_phones(chance, nation),
            "s_acctbal": to_decimals(chance.integers(-99_999, 1_000_000, len(number))),
            "s_comment": pa.array(comments),
        }
    )


def _make_customer(number: np.ndarray, chance: np.random.Generator) -> pa.Table:
    nation = chance.integers(0, 25, len(number))
    return pa.table(
        {
            "c_custkey": _to_ints(number),
            "c_name": _format_numbers("Customer#", number),
            "c_address": _make_addresses(chance, len(number)),
            "c_nationkey": _to_ints(nation),
            "c_phone": _make_phones(chance, nation),
            "c_acctbal": to_decimals(chance.integers(-99_999, 1_000_000, len(number))),
            "c_mktsegment": _pick(chance, text.SEGMENTS, len(number)),
            "c_comment": _make_comments(chance, len(number)),
        }
    )


def _make_part(number: np.ndarray, chance: np.random.Generator) -> pa.Table:
    rows = len(number)
    maker = chance.integers(1, 6, rows)
    brand = maker * 10 + chance.integers(1, 6, rows)
    container = chance.integers(0, len(text.CONTAINERS), rows)
    size = chance.integers(1, 51, rows)
    sought = number % SOUGHT_PART == 0
    kind = (number // SOUGHT_PART) % len(text.SOUGHT)
    for at, (one_brand, packed, largest) in enumerate(text.SOUGHT):
        chosen = sought & (kind == at)
        brand[chosen] = one_brand
        container[chosen] = text.CONTAINERS.index(packed)
        size[chosen] = size[chosen] % largest + 1
    words = chance.permuted(np.tile(np.arange(len(text.COLOURS)), (rows, 1)), axis=1)[:, :5]
    colours = pa.array(text.COLOURS)
    names = pc.binary_join_element_wise(*(colours.take(pa.array(words[:, n])) for n in range(5)), " ")
    return pa.table(
        {
            "p_partkey": _to_ints(number),
            "p_name": names,
            "p_mfgr": _prefix_values("Manufacturer#", pa.array(brand // 10)),
            "p_brand": _prefix_values("Brand#", pa.array(brand)),
            "p_type": _pick(chance, text.TYPES, rows),
            "p_size": _to_ints(size),
            "p_container": pa.array(text.CONTAINERS).take(pa.array(container)),
            "p_retailprice": to_decimals(_compute_retail_cents(number)),
            "p_comment": _make_comments(chance, rows),
        }
    )


def _make_partsupp(part: np.ndarray, chance: np.random.Generator, scale: float) -> pa.Table:
    keys = np.repeat(part, 4)
    which = np.tile(np.arange(4), len(part))
    rows = pa.table(
        {
            "ps_partkey": _to_ints(keys),
            "ps_suppkey": _to_ints(_find_supplier(keys, which, scale)),
            "ps_availqty": _to_ints(chance.integers(1, 10_000, len(keys))),
            "ps_supplycost": to_decimals(chance.integers(100, 100_001, len(keys))),
            "ps_comment": _make_comments(chance, len(keys)),
        }
    )
    if count_rows("supplier", scale) >= 100:
        return rows
    # With so few suppliers a part's four may coincide: one row of each key stays.
    numbered = rows.append_column("at", pa.array(np.arange(len(keys))))
    first_places = numbered.group_by(["ps_partkey", "ps_suppkey"]).aggregate([("at", "min")]).column("at_min")
    return rows.take(np.sort(first_places.to_numpy()))


def _make_orders(number: np.ndarray, chance: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    count = len(number)
    key = ((number - 1) // 8) * 32 + (number - 1) % 8 + 1  # keys are sparse: eight of every 32
    customers = count_rows("customer", scale)
    buyer = chance.integers(1, customers + 1, count)
    buyer = np.where(
        (buyer % 3 == 0) & (customers > 2), np.maximum(buyer - 1, 1), buyer
    )  # a third never orders
    day = chance.integers(FIRST_DAY, LAST_ORDER_DAY + 1, count)
    bulk = number % BULK_ORDER == BULK_ORDER // 2
    lines = np.where(bulk, 7, chance.integers(1, 8, count))
    owner = np.repeat(np.arange(count), lines)
    rows = len(owner)
    part = chance.integers(1, count_rows("part", scale) + 1, rows)
    quantity = chance.integers(1, 51, rows)
    quantity = np.where(bulk[owner], 44 + quantity % 7, quantity)
    price = quantity * _compute_retail_cents(part)
    discount, tax = chance.integers(0, 11, rows), chance.integers(0, 9, rows)
    shipped = day[owner] + chance.integers(1, 122, rows)
    received = shipped + chance.integers(1, 31, rows)
    returned = np.where(received <= CURRENT_DAY, chance.integers(0, 2, rows), 2)
    is_open = (shipped > CURRENT_DAY).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(lines)[:-1]])
    total = np.add.reduceat(price * (100 - discount) * (100 + tax), first)
    open_lines = np.add.reduceat(is_open, first)
    status = np.where(open_lines == lines, 1, np.where(open_lines == 0, 0, 2))
    orders = pa.table(
        {
            "o_orderkey": _to_ints(key),
            "o_custkey": _to_ints(buyer),
            "o_orderstatus": pa.array(["F", "O", "P"]).take(pa.array(status)),
            "o_totalprice": to_decimals((total + 5_000) // 10_000),
            "o_orderdate": _to_dates(day),
            "o_orderpriority": _pick(chance, text.PRIORITIES, count),
            "o_clerk": _format_numbers("Clerk#", chance.integers(1, max(int(scale * 1000), 1) + 1, count)),
            "o_shippriority": _to_ints(np.zeros(count, dtype=np.int64)),
            "o_comment": _make_comments(chance, count),
        }
    )
    lineitem = pa.table(
        {
            "l_orderkey": _to_ints(key[owner]),
            "l_partkey": _to_ints(part),
            "l_suppkey": _to_ints(_find_supplier(part, chance.integers(0, 4, rows), scale)),
            "l_linenumber": _to_ints(np.arange(rows) - first[owner] + 1),
            "l_quantity": to_decimals(quantity * 100),
            "l_extendedprice": to_decimals(price),
            "l_discount": to_decimals(discount),
            "l_tax": to_decimals(tax),
            "l_returnflag": pa.array(["R", "A", "N"]).take(pa.array(returned)),
            "l_linestatus": pa.array(["F", "O"]).take(pa.array(is_open)),
            "l_shipdate": _to_dates(shipped),
            "l_commitdate": _to_dates(day[owner] + chance.integers(30, 91, rows)),
            "l_receiptdate": _to_dates(received),
            "l_shipinstruct": _pick(chance, text.INSTRUCTIONS, rows),
            "l_shipmode": _pick(chance, text.MODES, rows),
            "l_comment": _make_comments(chance, rows),
        }
    )
    return orders, lineitem


def _compute_retail_cents(part: np.ndarray) -> np.ndarray:
    return 90_000 + (part // 10) % 20_001 + 100 * (part % 1_000)


def _find_supplier(part: np.ndarray, which: np.ndarray, scale: float) -> np.ndarray:
    """Return the `which`-th of the four suppliers of a part, as the specification spreads them."""
    suppliers = count_rows("supplier", scale)
    return (part + which * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


def _to_ints(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _to_dates(days: np.ndarray) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def to_decimals(cents: np.ndarray, kind: pa.Decimal128Type = MONEY) -> pa.Array:
    """Return cents as decimals, by writing their 128-bit words."""
    low = cents.astype(np.int64)
    words = np.stack([low, low >> 63], axis=1)
    return pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(np.ascontiguousarray(words))])


def _format_numbers(prefix: str, number: np.ndarray) -> pa.Array:
    return _prefix_values(prefix, pc.utf8_lpad(pa.array(number).cast(pa.string()), 9, "0"))


def _prefix_values(prefix: str, values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix), values.cast(pa.string()), "")


def _pick(chance: np.random.Generator, values: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(values).take(pa.array(chance.integers(0, len(values), rows)))


def _make_phones(chance: np.random.Generator, nation: np.ndarray) -> pa.Array:
    digits = (
        chance.integers(low, high, len(nation)) for low, high in ((100, 1000), (100, 1000), (1000, 10_000))
    )
    return pc.binary_join_element_wise(*(pa.array(n).cast(pa.string()) for n in (nation + 10, *digits)), "-")


def _make_addresses(chance: np.random.Generator, rows: int) -> pa.Array:
    numbers = pa.array(chance.integers(1, 10_000, rows)).cast(pa.string())
    return pc.binary_join_element_wise(numbers, _pick(chance, text.STREETS, rows), " ")


def _make_comments(chance: np.random.Generator, rows: int) -> pa.Array:
    return _pick(chance, text.build_sentences(), rows)
