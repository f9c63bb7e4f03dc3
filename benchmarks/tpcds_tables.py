"""The 24 tables of TPC-DS as Arrow, by NumPy: keys are dense, values come from small domains, the same seed gives the same rows.

Scale 1 is five million rows together. The column names are the specification's, the domains are ours (`tpcds_words.py`): small
ones, so that most queries find rows at once. Dates are 1998 to 2003, sales those of the first five years, most in November and
December. Of the demographics there is a part of the specification's product, at small scales of the day's seconds too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import tpcds_words as words
from benchmarks.tpcds_columns import (
    DAYS,
    FIRST_DATE,
    FIRST_DAY,
    build_ids,
    build_ints,
    build_keys,
    build_money,
    choose_texts,
    compute_dates,
    draw_dates,
    draw_keys,
    draw_texts,
    join_texts,
)
from benchmarks.tpcds_sales import make_sales

KEYS = {
    "call_center": ("cc_call_center_sk",),
    "catalog_page": ("cp_catalog_page_sk",),
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "customer": ("c_customer_sk",),
    "customer_address": ("ca_address_sk",),
    "customer_demographics": ("cd_demo_sk",),
    "date_dim": ("d_date_sk",),
    "household_demographics": ("hd_demo_sk",),
    "income_band": ("ib_income_band_sk",),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
    "item": ("i_item_sk",),
    "promotion": ("p_promo_sk",),
    "reason": ("r_reason_sk",),
    "ship_mode": ("sm_ship_mode_sk",),
    "store": ("s_store_sk",),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "time_dim": ("t_time_sk",),
    "warehouse": ("w_warehouse_sk",),
    "web_page": ("wp_web_page_sk",),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
    "web_site": ("web_site_sk",),
}
ROWS = 5_000_000
LEAST_SCALE = 0.004
WEEKS = 261
"""So many weeks have an inventory."""
SMALL_TABLES = {
    "call_center": 6,
    "date_dim": DAYS,
    "income_band": 20,
    "reason": 35,
    "ship_mode": 20,
    "store": 12,
    "warehouse": 5,
    "web_site": 24,
}
# Of all rows the share of a table, and the fewest and the most rows.
SHARES = {
    "catalog_page": (0.001, 60, 6_000),
    "catalog_sales": (0.16, 0, 10**9),
    "customer": (0.008, 100, 10**9),
    "customer_address": (0.004, 60, 10**9),
    "customer_demographics": (0.03, 1_400, 1_920_800),
    "household_demographics": (0.002, 720, 7_200),
    "item": (0.0008, 200, 10**9),
    "promotion": (0.00006, 60, 1_000),
    "store_sales": (0.32, 0, 10**9),
    "time_dim": (0.02, 1_440, 86_400),
    "web_page": (0.00006, 60, 1_000),
    "web_sales": (0.08, 0, 10**9),
}
Sizes = Mapping[str, int]


def count_rows(scale: float) -> dict[str, int]:
    """Return the rows of every table whose size the scale tells; `rows` are those of all tables together.

    Raises ValueError for a scale that is too small.
    """
    if not LEAST_SCALE <= scale <= 100:
        raise ValueError(
            f"scale {scale} is outside of {LEAST_SCALE} to 100: at 1 all tables have 5 million rows together"
        )
    rows = round(ROWS * scale)
    found = {
        table: min(max(round(rows * share), least), most) for table, (share, least, most) in SHARES.items()
    }
    found["time_dim"] = 86_400 if found["time_dim"] == 86_400 else 1_440
    return {**SMALL_TABLES, **found, "rows": rows}


def generate_tables(scale: float, seed: int = 1) -> dict[str, pa.Table]:
    """Return all tables; the same scale and seed give the same rows, and the scale the number of all rows together."""
    sizes = count_rows(scale)
    found = {
        table: pa.table(make(sizes, np.random.default_rng((seed, number))))
        for number, (table, make) in enumerate(_MAKERS.items())
    }
    found.update(make_sales(sizes, found["customer"], seed))
    left = sizes["rows"] - sum(table.num_rows for table in found.values())
    found["inventory"] = _make_inventory(sizes, np.random.default_rng((seed, 100)), left)
    return {table: found[table].combine_chunks() for table in KEYS}


Columns = dict[str, pa.Array]


def _make_date_dim(sizes: Sizes, chance: np.random.Generator) -> Columns:
    number = np.arange(DAYS)
    day = FIRST_DAY + number.astype("timedelta64[D]")
    month = day.astype("datetime64[M]")
    year = day.astype("datetime64[Y]").astype(int) + 1970
    moy = month.astype(int) % 12 + 1
    quarter = (moy - 1) // 3 + 1
    weekday = (day.astype(int) + 4) % 7  # 0 is Sunday, as 1970-01-01 was a Thursday
    first = month.astype("datetime64[D]")
    last = (month + 1).astype("datetime64[D]") - 1
    dom = (day - first).astype(int) + 1
    seq = (year - 1900) * 12 + moy - 1
    week = (day.astype(int) + 4 + 7 * 3_652) // 7
    is_holiday = ((moy == 12) & (dom == 25)) | ((moy == 1) & (dom == 1)) | ((moy == 7) & (dom == 4))
    no = pa.array(["N"] * DAYS)
    return {
        "d_date_sk": build_ints(FIRST_DATE + number),
        "d_date_id": build_ids(FIRST_DATE + number),
        "d_date": compute_dates(number),
        "d_month_seq": build_ints(seq),
        "d_week_seq": build_ints(week),
        "d_quarter_seq": build_ints((year - 1900) * 4 + quarter - 1),
        "d_year": build_ints(year),
        "d_dow": build_ints(weekday),
        "d_moy": build_ints(moy),
        "d_dom": build_ints(dom),
        "d_qoy": build_ints(quarter),
        "d_fy_year": build_ints(year),
        "d_fy_quarter_seq": build_ints((year - 1900) * 4 + quarter - 1),
        "d_fy_week_seq": build_ints(week),
        "d_day_name": choose_texts(words.DAYS, weekday),
        "d_quarter_name": join_texts(pa.array(year), "Q", pa.array(quarter)),
        "d_holiday": choose_texts(("N", "Y"), is_holiday.astype(int)),
        "d_weekend": choose_texts(("N", "Y"), (weekday % 6 == 0).astype(int)),
        "d_following_holiday": choose_texts(("N", "Y"), np.roll(is_holiday, 1).astype(int)),
        "d_first_dom": build_ints(FIRST_DATE + (first - FIRST_DAY).astype(int)),
        "d_last_dom": build_ints(FIRST_DATE + (last - FIRST_DAY).astype(int)),
        "d_same_day_ly": build_ints(FIRST_DATE + number - 365),
        "d_same_day_lq": build_ints(FIRST_DATE + number - 91),
        "d_current_day": no,
        "d_current_week": no,
        "d_current_month": no,
        "d_current_quarter": no,
        "d_current_year": no,
    }


def _make_time_dim(sizes: Sizes, chance: np.random.Generator) -> Columns:
    second = np.arange(sizes["time_dim"]) * (86_400 // sizes["time_dim"])
    hour = second // 3_600
    meal = np.zeros(len(second), dtype=int)
    for number, (first, last, _) in enumerate(words.MEALS, 1):
        meal[(hour >= first) & (hour <= last)] = number
    return {
        "t_time_sk": build_ints(second),
        "t_time_id": build_ids(second),
        "t_time": build_ints(second),
        "t_hour": build_ints(hour),
        "t_minute": build_ints(second // 60 % 60),
        "t_second": build_ints(second % 60),
        "t_am_pm": choose_texts(("AM", "PM"), hour // 12),
        "t_shift": choose_texts(words.SHIFTS, hour // 8),
        "t_sub_shift": choose_texts(words.SUB_SHIFTS, hour // 6),
        "t_meal_time": choose_texts((None, *(name for *_, name in words.MEALS)), meal),
    }


def _make_item(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["item"]
    number = np.arange(1, rows + 1)
    categories = list(words.CLASSES)
    category, kind = chance.integers(0, len(categories), rows), chance.integers(0, 4, rows)
    maker = np.where(
        chance.random(rows) < 0.4,
        np.array(words.MAKERS)[chance.integers(0, len(words.MAKERS), rows)],
        chance.integers(1, 1_001, rows),
    )
    color, size = chance.integers(0, len(words.COLORS), rows), chance.integers(0, len(words.SIZES), rows)
    unit = chance.integers(0, len(words.UNITS), rows)
    for place in range(0, rows, 25):
        wanted = words.SOUGHT_KINDS[place // 25 % len(words.SOUGHT_KINDS)]
        category[place] = categories.index(wanted[0])
        color[place], unit[place], size[place] = (
            values.index(value)
            for values, value in zip((words.COLORS, words.UNITS, words.SIZES), wanted[1:], strict=True)
        )
        maker[place] = chance.integers(*words.SOUGHT_MAKERS)
    classes = [name for category_classes in words.CLASSES.values() for name in category_classes]
    is_worn = np.array([name in words.WORN for name in categories])[category]
    brand = np.where(
        is_worn,
        chance.integers(0, len(words.PLAIN_BRANDS), rows),
        len(words.PLAIN_BRANDS) + chance.integers(0, len(words.LONG_BRANDS), rows),
    )
    band = chance.random(rows)
    cents = np.where(
        band < 0.1,
        chance.integers(99, 150, rows),
        np.where(band < 0.4, chance.integers(6_200, 9_801, rows), chance.integers(100, 10_000, rows)),
    )
    started = number % 2 * 730  # the second of two rows of an item follows the first
    return {
        "i_item_sk": build_ints(number),
        "i_item_id": build_ids((number + 1) // 2),
        "i_rec_start_date": compute_dates(730 - started),
        "i_rec_end_date": pc.if_else(
            pa.array(started > 0), compute_dates(np.full(rows, 729)), pa.scalar(None, pa.date32())
        ),
        "i_item_desc": join_texts("Item ", pa.array(number), " of ", choose_texts(words.STREETS, number)),
        "i_current_price": build_money(cents),
        "i_wholesale_cost": build_money(cents * chance.integers(40, 90, rows) // 100),
        "i_brand_id": build_ints(brand + 1_001),
        "i_brand": choose_texts((*words.PLAIN_BRANDS, *words.LONG_BRANDS), brand),
        "i_class_id": build_ints(kind + 1),
        "i_class": choose_texts(classes, category * 4 + kind),
        "i_category_id": build_ints(category + 1),
        "i_category": choose_texts(categories, category),
        "i_manufact_id": build_ints(maker),
        "i_manufact": join_texts(choose_texts(words.SYLLABLES, maker), pa.array(maker)),
        "i_size": choose_texts(words.SIZES, size),
        "i_formulation": build_ids(chance.integers(1, 10**9, rows)),
        "i_color": choose_texts(words.COLORS, color),
        "i_units": choose_texts(words.UNITS, unit),
        "i_container": pa.array(["Unknown"] * rows),
        "i_manager_id": build_ints(chance.integers(1, words.MANAGERS + 1, rows)),
        "i_product_name": join_texts(choose_texts(words.SYLLABLES, number), pa.array(number)),
    }


def _make_customer(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["customer"]
    number = np.arange(1, rows + 1)
    sold = draw_dates(chance, rows)
    first, last = draw_texts(chance, words.FIRST_NAMES, rows), draw_texts(chance, words.LAST_NAMES, rows)
    return {
        "c_customer_sk": build_ints(number),
        "c_customer_id": build_ids(number),
        "c_current_cdemo_sk": build_keys(draw_keys(chance, sizes["customer_demographics"], rows)),
        "c_current_hdemo_sk": build_keys(draw_keys(chance, sizes["household_demographics"], rows)),
        "c_current_addr_sk": build_keys(draw_keys(chance, sizes["customer_address"], rows, 0)),
        "c_first_shipto_date_sk": build_ints(np.minimum(sold + 30, FIRST_DATE + DAYS - 1)),
        "c_first_sales_date_sk": build_ints(sold),
        "c_salutation": draw_texts(chance, words.SALUTATIONS, rows),
        "c_first_name": first,
        "c_last_name": last,
        "c_preferred_cust_flag": draw_texts(chance, ("Y", "N", "Y", "N", None), rows),
        "c_birth_day": build_ints(chance.integers(1, 29, rows)),
        "c_birth_month": build_ints(chance.integers(1, 13, rows)),
        "c_birth_year": build_ints(chance.integers(1_924, 1_993, rows)),
        "c_birth_country": draw_texts(chance, words.COUNTRIES, rows),
        "c_login": pa.nulls(rows, pa.string()),
        "c_email_address": join_texts(first, ".", last, pa.array(number), "@example.com"),
        "c_last_review_date_sk": build_ints(draw_dates(chance, rows)),
    }


def _make_customer_address(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["customer_address"]
    number = np.arange(1, rows + 1)
    places = [(state, hours, county) for state, hours, counties in words.PLACES for county in counties]
    found = chance.integers(0, len(places), rows)
    found[number % 10 == 0] = 0  # where the stores are
    codes = [
        *words.ZIPS * 3,
        *(str(10_000 + 731 * n % 90_000) for n in range(max(rows // 50, 30))),
    ]
    return {
        "ca_address_sk": build_ints(number),
        "ca_address_id": build_ids(number),
        **_make_address("ca", chance, rows, words.CITIES),
        "ca_county": choose_texts([county for *_, county in places], found),
        "ca_state": choose_texts([state for state, *_ in places], found),
        "ca_zip": draw_texts(chance, codes, rows),
        "ca_country": pa.array(["United States"] * rows),
        "ca_gmt_offset": _build_hours(np.array([hours for _, hours, _ in places])[found]),
        "ca_location_type": draw_texts(chance, words.LOCATIONS, rows),
    }


def _make_address(prefix: str, chance: np.random.Generator, rows: int, cities: tuple[str, ...]) -> Columns:
    return {
        f"{prefix}_street_number": pa.array(chance.integers(1, 1_000, rows)).cast(pa.string()),
        f"{prefix}_street_name": draw_texts(chance, words.STREETS, rows),
        f"{prefix}_street_type": draw_texts(chance, words.STREET_TYPES, rows),
        f"{prefix}_suite_number": join_texts("Suite ", pa.array(chance.integers(1, 100, rows))),
        f"{prefix}_city": draw_texts(chance, cities, rows),
    }


def _make_shop_address(prefix: str, chance: np.random.Generator, rows: int) -> Columns:
    place = np.arange(rows)
    return {
        **_make_address(prefix, chance, rows, words.SHOP_CITIES),
        f"{prefix}_county": choose_texts([county for *_, (county,) in words.SHOP_PLACES], place),
        f"{prefix}_state": choose_texts([state for state, *_ in words.SHOP_PLACES], place),
        f"{prefix}_zip": choose_texts(words.ZIPS, place),
        f"{prefix}_country": pa.array(["United States"] * rows),
        f"{prefix}_gmt_offset": _build_hours(
            np.array([hours for _, hours, _ in words.SHOP_PLACES])[place % len(words.SHOP_PLACES)]
        ),
    }


def _build_hours(hours: np.ndarray) -> pa.Array:
    return build_money(hours * 100).cast(pa.decimal128(5, 2))


def _make_customer_demographics(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["customer_demographics"]
    at = np.arange(rows)
    credit = chance.integers(0, 20, rows)
    return {
        "cd_demo_sk": build_ints(at + 1),
        "cd_gender": choose_texts(words.GENDERS, at),
        "cd_marital_status": choose_texts(words.MARRIED, at // 2),
        "cd_education_status": choose_texts(words.EDUCATIONS, at // 10),
        "cd_purchase_estimate": build_ints((credit + 1) * 500),
        "cd_credit_rating": choose_texts(words.RATINGS, at // 70),
        "cd_dep_count": build_ints(chance.integers(0, 7, rows)),
        "cd_dep_employed_count": build_ints(chance.integers(0, 7, rows)),
        "cd_dep_college_count": build_ints(chance.integers(0, 7, rows)),
    }


def _make_household_demographics(sizes: Sizes, chance: np.random.Generator) -> Columns:
    at = np.arange(sizes["household_demographics"])
    return {
        "hd_demo_sk": build_ints(at + 1),
        "hd_income_band_sk": build_ints(at // 6 % 20 + 1),
        "hd_buy_potential": choose_texts(words.POTENTIALS, at),
        "hd_dep_count": build_ints(at // 7 % 10),
        "hd_vehicle_count": build_ints(at // 11 % 6 - 1),
    }


def _make_income_band(sizes: Sizes, chance: np.random.Generator) -> Columns:
    at = np.arange(sizes["income_band"])
    return {
        "ib_income_band_sk": build_ints(at + 1),
        "ib_lower_bound": build_ints(at * 10_000 + (at > 0)),
        "ib_upper_bound": build_ints((at + 1) * 10_000),
    }


def _make_store(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["store"]
    number = np.arange(1, rows + 1)
    return {
        "s_store_sk": build_ints(number),
        "s_store_id": build_ids((number + 1) // 2),
        **_make_revision("s", rows),
        "s_closed_date_sk": build_keys(np.zeros(rows, dtype=int)),
        "s_store_name": choose_texts(words.SYLLABLES[:4], number),
        "s_number_employees": build_ints(chance.integers(200, 301, rows)),
        "s_floor_space": build_ints(chance.integers(5_000_000, 10_000_000, rows)),
        "s_hours": pa.array(["8AM-8PM"] * rows),
        "s_manager": _draw_people(chance, rows),
        "s_market_id": build_ints(number % 3 + 7),
        "s_geography_class": pa.array(["Unknown"] * rows),
        "s_market_desc": join_texts("Market ", pa.array(number % 3 + 7)),
        "s_market_manager": _draw_people(chance, rows),
        "s_division_id": build_ints(np.ones(rows)),
        "s_division_name": pa.array(["Unknown"] * rows),
        "s_company_id": build_ints(np.ones(rows)),
        "s_company_name": pa.array(["Unknown"] * rows),
        **_make_shop_address("s", chance, rows),
        "s_tax_precentage": build_money(chance.integers(0, 12, rows)).cast(pa.decimal128(5, 2)),
    }


def _make_revision(prefix: str, rows: int) -> Columns:
    return {
        f"{prefix}_rec_start_date": compute_dates(np.zeros(rows, dtype=int)),
        f"{prefix}_rec_end_date": pa.nulls(rows, pa.date32()),
    }


def _draw_people(chance: np.random.Generator, rows: int) -> pa.Array:
    return join_texts(
        draw_texts(chance, words.FIRST_NAMES, rows), " ", draw_texts(chance, words.LAST_NAMES, rows)
    )


def _make_call_center(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["call_center"]
    number = np.arange(1, rows + 1)
    return {
        "cc_call_center_sk": build_ints(number),
        "cc_call_center_id": build_ids(number),
        **_make_revision("cc", rows),
        "cc_closed_date_sk": build_keys(np.zeros(rows, dtype=int)),
        "cc_open_date_sk": build_ints(np.full(rows, FIRST_DATE)),
        "cc_name": join_texts("Center ", pa.array(number)),
        "cc_class": choose_texts(("small", "medium", "large"), number),
        "cc_employees": build_ints(chance.integers(100, 1_000, rows)),
        "cc_sq_ft": build_ints(chance.integers(1_000, 50_000, rows)),
        "cc_hours": pa.array(["8AM-4PM"] * rows),
        "cc_manager": _draw_people(chance, rows),
        "cc_mkt_id": build_ints(number % 6 + 1),
        "cc_mkt_class": join_texts("Class ", pa.array(number % 6 + 1)),
        "cc_mkt_desc": join_texts("Market ", pa.array(number % 6 + 1)),
        "cc_market_manager": _draw_people(chance, rows),
        "cc_division": build_ints(number % 3 + 1),
        "cc_division_name": choose_texts(words.SYLLABLES, number),
        "cc_company": build_ints(number % 3 + 1),
        "cc_company_name": choose_texts(words.SYLLABLES, number),
        **_make_shop_address("cc", chance, rows),
        "cc_tax_percentage": build_money(chance.integers(0, 12, rows)).cast(pa.decimal128(5, 2)),
    }


def _make_warehouse(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["warehouse"]
    number = np.arange(1, rows + 1)
    return {
        "w_warehouse_sk": build_ints(number),
        "w_warehouse_id": build_ids(number),
        "w_warehouse_name": join_texts("Warehouse ", pa.array(number)),
        "w_warehouse_sq_ft": build_ints(chance.integers(50_000, 1_000_000, rows)),
        **_make_shop_address("w", chance, rows),
    }


def _make_web_site(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["web_site"]
    number = np.arange(1, rows + 1)
    return {
        "web_site_sk": build_ints(number),
        "web_site_id": build_ids(number),
        **_make_revision("web", rows),
        "web_name": join_texts("site_", pa.array(number // 4)),
        "web_open_date_sk": build_ints(np.full(rows, FIRST_DATE)),
        "web_close_date_sk": build_keys(np.zeros(rows, dtype=int)),
        "web_class": pa.array(["Unknown"] * rows),
        "web_manager": _draw_people(chance, rows),
        "web_mkt_id": build_ints(number % 6 + 1),
        "web_mkt_class": join_texts("Class ", pa.array(number % 6 + 1)),
        "web_mkt_desc": join_texts("Market ", pa.array(number % 6 + 1)),
        "web_market_manager": _draw_people(chance, rows),
        "web_company_id": build_ints(number % 4 + 1),
        "web_company_name": choose_texts(words.SYLLABLES[:4], number),
        **_make_shop_address("web", chance, rows),
        "web_tax_percentage": build_money(chance.integers(0, 12, rows)).cast(pa.decimal128(5, 2)),
    }


def _make_web_page(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["web_page"]
    number = np.arange(1, rows + 1)
    return {
        "wp_web_page_sk": build_ints(number),
        "wp_web_page_id": build_ids(number),
        **_make_revision("wp", rows),
        "wp_creation_date_sk": build_ints(draw_dates(chance, rows)),
        "wp_access_date_sk": build_ints(draw_dates(chance, rows)),
        "wp_autogen_flag": draw_texts(chance, ("Y", "N"), rows),
        "wp_customer_sk": build_keys(draw_keys(chance, sizes["customer"], rows, 0.7)),
        "wp_url": pa.array(["http://www.example.com"] * rows),
        "wp_type": draw_texts(chance, words.WEB_TYPES, rows),
        "wp_char_count": build_ints(4_900 + number % 5 * 100),
        "wp_link_count": build_ints(chance.integers(2, 26, rows)),
        "wp_image_count": build_ints(chance.integers(1, 8, rows)),
        "wp_max_ad_count": build_ints(chance.integers(0, 5, rows)),
    }


def _make_promotion(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["promotion"]
    number = np.arange(1, rows + 1)
    start = FIRST_DATE + chance.integers(0, DAYS - 60, rows)
    channels = ("dmail", "email", "catalog", "tv", "radio", "press", "event", "demo")
    return {
        "p_promo_sk": build_ints(number),
        "p_promo_id": build_ids(number),
        "p_start_date_sk": build_ints(start),
        "p_end_date_sk": build_ints(start + chance.integers(5, 60, rows)),
        "p_item_sk": build_keys(draw_keys(chance, sizes["item"], rows)),
        "p_cost": build_money(np.full(rows, 100_000)).cast(pa.decimal128(15, 2)),
        "p_response_target": build_ints(np.ones(rows)),
        "p_promo_name": choose_texts(words.SYLLABLES, number),
        **{f"p_channel_{name}": draw_texts(chance, ("N", "N", "Y"), rows) for name in channels},
        "p_channel_details": join_texts("Promotion ", pa.array(number)),
        "p_purpose": pa.array(["Unknown"] * rows),
        "p_discount_active": draw_texts(chance, ("N", "Y"), rows),
    }


def _make_catalog_page(sizes: Sizes, chance: np.random.Generator) -> Columns:
    rows = sizes["catalog_page"]
    number = np.arange(1, rows + 1)
    start = FIRST_DATE + number % 20 * 90
    return {
        "cp_catalog_page_sk": build_ints(number),
        "cp_catalog_page_id": build_ids(number),
        "cp_start_date_sk": build_ints(start),
        "cp_end_date_sk": build_ints(start + 90),
        "cp_department": pa.array([words.DEPARTMENT] * rows),
        "cp_catalog_number": build_ints(number // 100 + 1),
        "cp_catalog_page_number": build_ints(number % 100 + 1),
        "cp_description": join_texts("Page ", pa.array(number)),
        "cp_type": choose_texts(words.PAGE_TYPES, number),
    }


def _make_ship_mode(sizes: Sizes, chance: np.random.Generator) -> Columns:
    number = np.arange(1, sizes["ship_mode"] + 1)
    return {
        "sm_ship_mode_sk": build_ints(number),
        "sm_ship_mode_id": build_ids(number),
        "sm_type": choose_texts(words.SHIP_TYPES, number),
        "sm_code": choose_texts(words.SHIP_CODES, number),
        "sm_carrier": choose_texts(words.CARRIERS, number),
        "sm_contract": build_ids(number),
    }


def _make_reason(sizes: Sizes, chance: np.random.Generator) -> Columns:
    number = np.arange(1, sizes["reason"] + 1)
    return {
        "r_reason_sk": build_ints(number),
        "r_reason_id": build_ids(number),
        "r_reason_desc": join_texts("reason ", pa.array(number)),
    }


def _make_inventory(sizes: Sizes, chance: np.random.Generator, rows: int) -> pa.Table:
    """Weekly counts of the first items in every warehouse; of some pairs of both they leap."""
    at = np.arange(rows)
    pairs = WEEKS * sizes["warehouse"]
    pair = at // WEEKS
    if pair[-1] // sizes["warehouse"] >= sizes["item"]:
        raise ValueError(f"{rows:,} rows of inventory are more than {sizes['item'] * pairs:,}")
    leaps = pair % 10 == 0
    calm = chance.integers(0, 1_000, rows)
    wild = np.where(chance.random(rows) < 0.25, calm, calm % 5)
    return pa.table(
        {
            "inv_date_sk": build_ints(FIRST_DATE + at % WEEKS * 7),
            "inv_item_sk": build_ints(pair // sizes["warehouse"] + 1),
            "inv_warehouse_sk": build_ints(pair % sizes["warehouse"] + 1),
            "inv_quantity_on_hand": build_ints(np.where(leaps, wild, calm)),
        }
    )


_MAKERS: Mapping[str, Callable[[Sizes, np.random.Generator], Columns]] = {
    "call_center": _make_call_center,
    "catalog_page": _make_catalog_page,
    "customer": _make_customer,
    "customer_address": _make_customer_address,
    "customer_demographics": _make_customer_demographics,
    "date_dim": _make_date_dim,
    "household_demographics": _make_household_demographics,
    "income_band": _make_income_band,
    "item": _make_item,
    "promotion": _make_promotion,
    "reason": _make_reason,
    "ship_mode": _make_ship_mode,
    "store": _make_store,
    "time_dim": _make_time_dim,
    "warehouse": _make_warehouse,
    "web_page": _make_web_page,
    "web_site": _make_web_site,
}
