"""No dates and times of data become Python's own outside of `engine/arrow.py`, which knows the years that Python has not."""

from __future__ import annotations

import ast
import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.arrow import as_rows, as_values, has_far_times
from engine.jsonb.values import render_documents

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "tideline", "dagster_tideline")
SEAM = "engine/arrow.py"
TAKES_APART = ("to_pylist", "as_py", "to_pydict", "to_pandas", "toPandas", "collect", "toLocalIterator")
OF_NO_TIME = ("sum", "any", "all", "count", "count_distinct", "to_int64")
"""What functions of these names give is a number or a truth, and no time."""
COLLECTORS = ("gc", "chain", "self.maintenance")
"""What collects garbage, and no rows."""
OF_NUMBERS_AND_TEXTS = {
    "engine/connectors/postgres/texts.py": ("texts.to_pylist()",),
    "engine/connectors/delta/columns.py": (
        "session.read.format('delta').load(place.spark).limit(0).collect()",
    ),
    "engine/connectors/delta/sink/tables.py": (
        "session.sql(f'DESCRIBE DETAIL {render_table_name(url)}').toArrow().to_pylist()",
        "session.sql(f'DESCRIBE HISTORY {render_table_name(url)} LIMIT 1').toArrow().to_pylist()",
        "session.sql(f'SHOW TBLPROPERTIES {render_table_name(url)}').toArrow().to_pylist()",
    ),
    "engine/connectors/landing/commits.py": ("found.to_pylist()",),
    "engine/connectors/landing/rows.py": (
        "encoded.dictionary.to_pylist()",
        "texts[index].as_py()",
    ),
    "engine/connectors/landing/tables.py": ("found.to_pylist()",),
    "engine/connectors/contract/offsets.py": ("found.to_pylist()",),
    "engine/connectors/formats/parquet_reader.py": (
        "column[index].as_py()",
        "column.offsets[0].as_py()",
        "column.offsets[-1].as_py()",
    ),
    "engine/connectors/formats/parquet_process.py": ("numbers[index].as_py()",),
    "engine/connectors/delta/sink/target.py": ("done.toArrow().to_pylist()",),
    "engine/connectors/delta/sink/maintenance.py": ("column[0].as_py()",),
    "engine/hummock/sorted_files/assumption_checks.py": ("pc.min(rows.column(ROW_EPOCH)).as_py()",),
    "engine/hummock/compaction/merging.py": (
        "pc.min(rows.column(ROW_EPOCH)).as_py()",
        "pc.min(numbers).as_py()",
        "pc.max(numbers).as_py()",
    ),
    "engine/hummock/reads/lookup.py": ("column.take(to_positions(order)).to_pylist()",),
    "engine/hummock/writes/shared_buffer.py": (
        "hashes[0].as_py()",
        "hashes[-1].as_py()",
    ),
    "engine/hummock/sorted_files/sst.py": (
        "hashes[0].as_py()",
        "hashes[-1].as_py()",
    ),
    "engine/jsonb/functions.py": ("kinds[0].as_py()",),
    "engine/log_store/fan_out.py": ("message.value.as_py()",),
    "engine/log_store/log_table.py": ("batch.column(name).to_pylist()",),
    "engine/meta/epochs/time_boundary.py": ("pc.min(rows.column(TIME_AT).filter(ahead)).as_py()",),
    "engine/meta/status/source_notes.py": ("batch.to_pylist()",),
    "engine/meta/status/watermarks.py": ("found.column(LATE)[0].as_py()",),
    "engine/operators/arrow/casts.py": ("stored[0].as_py()",),
    "engine/operators/arrow/texts.py": ("texts.to_pylist()", "array.to_pylist()"),
    "engine/operators/arrow/folds.py": (
        "pc.min(column).as_py()",
        "pc.max(column).as_py()",
    ),
    "engine/operators/changelog.py": (
        "rows.column(ROW)[0].as_py()",
        "log.column('_op').to_pylist()",
    ),
    "engine/operators/skew.py": ("pc.max(counted.column('hash_count')).as_py()",),
    "engine/operators/shared_task.py": (
        "report.column('ssts')[0].as_py()",
        "written.to_pylist()",
    ),
    "engine/runtime/epoch/assumption_checks.py": (
        "pc.min(to_int64(rows.column(expiry.column).combine_chunks())).as_py()",
    ),
    "engine/runtime/epoch/row_checks.py": (
        "rows.drop_columns(list(texts)).to_pandas()",
        "rows.column(field.name).to_pandas(types_mapper=lambda _: pd.Int64Dtype())",
    ),
    "engine/runtime/epoch/view_checks.py": (
        "rows.column(FAILED).to_pylist()",
        "rows.column(ROWS).to_pylist()",
    ),
    "engine/runtime/partitions/frames.py": (
        "reduce(DataFrame.union, frames).where('key IS NOT NULL').distinct().limit(most).collect()",
    ),
    "engine/runtime/partitions/values.py": (
        "frame.selectExpr(f'{render_spark_sql(how.build_key(how.tables[how.view]))} AS `key`').distinct().collect()",
        "rows.column(name).to_pylist()",
    ),
    "engine/runtime/reads/local_read.py": ("scalar.as_py()",),
    "engine/runtime/rows.py": ("pc.min(found.long).as_py()",),
    "engine/runtime/spark/probe.py": ("frame.collect()",),
    "engine/runtime/statements/alter/columns.py": ("value.as_py()",),
    "engine/runtime/writes/late_rows.py": (
        "rows.selectExpr(f'max({number})', f'count_if({late})').collect()",
    ),
    "engine/runtime/writes/watermarks.py": ("pc.max(times).as_py()", "numbers.to_pylist()"),
    "engine/runtime/writes/write_tasks.py": ("pc.min(found).as_py()",),
    "engine/spark_internals.py": (
        "frame.collect()",
        "runnable.collect()",
        "column.to_pylist()",
    ),
    "engine/sql/typing/column_conversion.py": ("texts.to_pylist()", "value.as_py()", "one.as_py()"),
    "engine/sql/typing/json_documents.py": ("values.to_pylist()",),
    "engine/sql/typing/exact_casts.py": ("values.to_pylist()",),
    "engine/sql/typing/json_values.py": ("texts.to_pylist()",),
    "engine/sql/typing/spark_texts.py": ("texts.to_pylist()", "micros.to_pylist()", "values.to_pylist()"),
    "engine/sql/typing/text_values.py": (
        "seconds.to_pylist()",
        "pc.less_equal(pa.scalar(first, kind), found['min']).as_py()",
        "pc.less_equal(found['max'], pa.scalar(last, kind)).as_py()",
        "text.to_pylist()",
    ),
    "dagster_tideline/io/io_manager.py": ("found.to_pandas(types_mapper=pd.ArrowDtype)",),
}
"""By file: what is taken apart there and holds numbers, texts, bytes or truths, times that were looked at before, or the store's
own times."""


def _taken_apart(path: Path) -> Iterator[ast.Call]:
    text = path.read_text()
    if not any(name in text for name in TAKES_APART):
        return
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        value = node.func.value
        if node.func.attr in TAKES_APART and not _is_number(value) and ast.unparse(value) not in COLLECTORS:
            yield node


def _is_number(value: ast.expr) -> bool:
    while isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return name in OF_NO_TIME


def test_values_of_data_are_taken_apart_by_what_knows_far_times() -> None:
    strange, left = [], {name: set(texts) for name, texts in OF_NUMBERS_AND_TEXTS.items()}
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        name = str(path.relative_to(ROOT))
        if name == SEAM or "/project/tests/" in name:
            continue
        for call in _taken_apart(path):
            text = ast.unparse(call)
            if text in OF_NUMBERS_AND_TEXTS.get(name, ()):
                left[name].discard(text)
            else:
                strange.append(f"{name}:{call.lineno}: {text}")
    assert not strange, (
        "as_values and as_rows of engine/arrow.py know times of years that Python has not; use them, or list here what reads "
        "numbers and texts alone:\n" + "\n".join(strange)
    )
    assert not any(left.values()), f"these are gone, take them out of the list: {left}"


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_that_python_has_not_are_texts_wherever_they_stand(zone: str | None) -> None:
    far = pa.array([253_402_300_800_000_000, 0], pa.int64()).cast(pa.timestamp("us", zone))
    end = "" if zone is None else "+00:00"
    text, plain = f"+10000-01-01 00:00:00{end}", datetime.datetime(1970, 1, 1, tzinfo=zone and datetime.UTC)
    assert as_values(far) == [text, plain]
    nested = pa.StructArray.from_arrays([far], ["at"])
    assert as_rows(pa.table({"s": nested})) == [{"s": {"at": text}}, {"s": {"at": plain}}]
    assert as_values(pa.ListArray.from_arrays([0, 2], far)) == [[text, plain]]
    assert has_far_times(far) and not has_far_times(far.slice(1)) and not has_far_times(far.slice(0, 0))
    assert render_documents(far, "timestamp", sort=True)[0] == f'"10000-01-01T00:00:00{end}"'


def test_dates_of_any_year_are_texts() -> None:
    days = pa.array([-(2**31), -719_163, 2_932_896, 2**31 - 1, None], pa.int32()).cast(pa.date32())
    last = datetime.date(9999, 12, 31)
    assert as_values(days) == ["-5877641-06-23", "0000-12-31", last, "+5881580-07-11", None]
