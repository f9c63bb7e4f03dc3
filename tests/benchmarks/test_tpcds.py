"""TPC-DS: the generator's rows, keys and amounts agree, its tables go on as their changes say, and texts are asked for."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from benchmarks.first_rows import compare_first_rows, split_limit, write_order
from benchmarks.project import WORKLOADS, fit_integers, is_close_bag
from benchmarks.tpcds_columns import read_cents
from benchmarks.tpcds_hours import TpcdsHours
from benchmarks.tpcds_sales import CHANNELS
from benchmarks.tpcds_tables import KEYS, LEAST_SCALE, ROWS, generate_tables
from benchmarks.tpcds_texts import MissingTexts, arrange_columns, name_type


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return generate_tables(LEAST_SCALE)


@pytest.fixture
def texts(tables: dict[str, pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    statements = (
        f"create table {name} (\n"
        + ",\n".join(f"{field.name} {name_type(field.type).lower()}" for field in rows.schema)
        + "\n);"
        for name, rows in tables.items()
    )
    (tmp_path / "schema.sql").write_text("\n".join(statements).replace("string", "varchar(20)"))
    (tmp_path / "query10.sql").write_text("SELECT count(*) FROM item;\n")
    (tmp_path / "query2.sql").write_text("SELECT count(*) FROM store")
    monkeypatch.setenv("TPCDS", str(tmp_path))
    return tmp_path


def test_the_scale_tells_the_rows_and_the_same_seed_gives_the_same(tables: dict[str, pa.Table]) -> None:
    assert sum(rows.num_rows for rows in tables.values()) == ROWS * LEAST_SCALE
    again, other = generate_tables(LEAST_SCALE), generate_tables(LEAST_SCALE, seed=2)
    assert all(again[name].equals(rows) for name, rows in tables.items())
    assert not other["web_sales"].equals(tables["web_sales"])
    with pytest.raises(ValueError, match="5 million"):
        generate_tables(LEAST_SCALE / 2)


def test_keys_are_keys_and_returned_lines_were_sold(tables: dict[str, pa.Table]) -> None:
    for name, key in KEYS.items():
        assert tables[name].group_by(list(key)).aggregate([]).num_rows == tables[name].num_rows, name
    for channel in CHANNELS:
        keys = [
            set(zip(*(tables[name].column(column).to_pylist() for column in KEYS[name]), strict=True))
            for name in (channel.returns, channel.sales)
        ]
        assert keys[0] and keys[0] < keys[1]


def test_foreign_keys_name_rows_or_are_null(tables: dict[str, pa.Table]) -> None:
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        for name, column, other in (
            ("store_sales", "ss_sold_date_sk", "date_dim"),
            ("store_sales", "ss_sold_time_sk", "time_dim"),
            ("store_sales", "ss_store_sk", "store"),
            ("catalog_sales", "cs_ship_addr_sk", "customer_address"),
            ("web_returns", "wr_returned_date_sk", "date_dim"),
            ("web_returns", "wr_returning_cdemo_sk", "customer_demographics"),
            ("inventory", "inv_item_sk", "item"),
            ("inventory", "inv_date_sk", "date_dim"),
            ("customer", "c_current_hdemo_sk", "household_demographics"),
        ):
            found = connection.sql(
                f"SELECT count(*), count({column}) FROM {name} LEFT JOIN {other} ON {column} = {KEYS[other][0]} "
                f"WHERE {KEYS[other][0]} IS NULL"
            ).fetchall()
            assert found[0][1] == 0, (name, column)
            assert found[0][0] or not column.endswith(("store_sk", "addr_sk", "cdemo_sk", "hdemo_sk"))


def test_dates_are_those_of_the_calendar_and_amounts_follow_from_the_pieces(
    tables: dict[str, pa.Table],
) -> None:
    day = tables["date_dim"].slice(59, 1).to_pylist()[0]
    assert (str(day["d_date"]), day["d_day_name"], day["d_month_seq"]) == ("1998-03-01", "Sunday", 1178)
    lines = tables["web_sales"]
    pieces = lines.column("ws_quantity").to_numpy()
    cents = {name: read_cents(lines.column(f"ws_{name}")) for name in ("sales_price", "ext_sales_price")}
    assert (cents["ext_sales_price"] == pieces * cents["sales_price"]).all()


def test_tables_go_on_as_their_changes_say(texts: Path) -> None:
    hours, other = TpcdsHours(LEAST_SCALE), TpcdsHours(LEAST_SCALE)
    assert list(hours.views) == ["query2", "query10"] and not hours.views["query10"].endswith(";")
    content = {
        name: {tuple(row[key] for key in KEYS[name]): row for row in hours.read(name).to_pylist()}
        for name in KEYS
    }
    seen = set()
    for _ in range(2):
        changes, same = hours.generate_hour(200), other.generate_hour(200)
        assert all(mine.rows.equals(yours.rows) for mine, yours in zip(changes, same, strict=True))
        for change in changes:
            rows = content[change.table]
            for row in change.rows.to_pylist():
                at = tuple(row[key] for key in KEYS[change.table])
                seen.add((change.table, change.mode))
                assert (at in rows) == (change.mode != "insert")
                if change.mode == "delete":
                    del rows[at]
                else:
                    rows[at] = row
    for name, rows in content.items():
        assert rows == {tuple(row[key] for key in KEYS[name]): row for row in hours.read(name).to_pylist()}
    assert {
        (table, mode) for table in ("store_sales", "web_returns") for mode in ("insert", "delete", "upsert")
    } <= seen


def test_the_texts_are_asked_for(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingTexts, match="no_such_column"):
        arrange_columns(pa.table({"a": [1]}), pa.schema([("no_such_column", pa.int64())]))
    (texts / "schema.sql").write_text("create table item (i_item_sk integer)")
    with pytest.raises(MissingTexts, match="no CREATE TABLE of call_center"):
        WORKLOADS["tpcds"].generate(LEAST_SCALE, 1)
    monkeypatch.delenv("TPCDS")
    with pytest.raises(MissingTexts, match="set TPCDS to a folder"):
        WORKLOADS["tpcds"].generate(LEAST_SCALE, 1)


def test_of_equal_rows_any_may_be_the_last_under_a_limit() -> None:
    query = split_limit("SELECT a, sum(b) AS n FROM t GROUP BY a ORDER BY n DESC, sum(b), 1 LIMIT 2")
    assert query is not None and query.limit == 2 and "LIMIT" not in query.text
    assert write_order(query, ["a", "n"]).replace(" NULLS LAST", "") == "c1 DESC, c1, c0"
    assert split_limit("SELECT a FROM t ORDER BY a") is None
    rows = pa.table({"a": ["x", "y", "z"], "n": [3, 2, 2]})
    places = pa.chunked_array([[1, 2, 2]])
    assert compare_first_rows(rows.slice(0, 2), rows, places, 2) is None
    assert compare_first_rows(rows.take([0, 2]), rows, places, 2) is None
    assert "missing" in str(compare_first_rows(rows.slice(1), rows, places, 2))
    assert "not among" in str(compare_first_rows(rows.take([0, 0]), rows, places, 2))
    assert "1 rows" in str(compare_first_rows(rows.slice(0, 1), rows, places, 2))


def test_floats_may_differ_in_their_last_digits() -> None:
    rows = pa.table({"a": [1, 2, 3], "x": [0.1, None, 1e9]})
    assert is_close_bag(pa.table({"a": [3, 2, 1], "x": [1e9 + 1e-5, None, 0.1]}), rows)
    assert not is_close_bag(pa.table({"a": [1, 2, 3], "x": [0.1, 0.0, 1e9]}), rows)
    assert not is_close_bag(pa.table({"a": [1, 2, 3], "x": [0.1, None, 1e9 + 100]}), rows)


def test_whole_numbers_are_made_as_wide_as_those_of_the_batch() -> None:
    rows = pa.table({"a": pa.array([1], pa.int32()), "x": [0.5], "b": pa.array([2], pa.int64())})
    wanted = pa.schema([("a", pa.int8()), ("x", pa.int64()), ("b", pa.int64())])
    assert fit_integers(rows, wanted).schema.types == [pa.int8(), pa.float64(), pa.int64()]
