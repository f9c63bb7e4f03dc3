"""The report of what differs: it holds the rows that are behind it, and computes the same without the store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import StorageError
from engine.hummock import Delete
from engine.runtime.oracle.comparison import compare_rows
from engine.runtime.oracle.report import DifferenceReport
from engine.runtime.spark.session import EngineSpark
from engine.session import Session
from tests.runtime.oracle.conftest import VIEWS, create_views


def take_out_a_row(session: Session, view: str) -> None:
    """Delete the first row of a view's table."""
    table = session.store.refresh().tables[view]
    batch = next(session.store.reader.scan(table, table.committed_epoch, columns=list(table.primary_key)))
    session.store.ingest_batch({view: Delete(pa.Table.from_batches([batch]).slice(0, 1))})


@pytest.mark.long
def test_a_row_that_is_missing_is_computed_again_from_the_report(project: Session, tmp_path: Path) -> None:
    create_views(project, *VIEWS)
    last = [name for name in VIEWS if name != "by_group"]  # which another view reads
    for name in last:
        take_out_a_row(project, name)
    found = {one.view: one for one in project.sample_rows(last, 120.0, reports=tmp_path)}
    spark = project.computing
    for name, report in found.items():
        assert report.report is not None and report.differ == 1, name
        read = DifferenceReport.read(report.report)
        assert not read.head.obstacle, name
        computed = read.compute(spark, EngineSpark.of(spark).count_parallel_tasks())
        assert computed.num_rows >= 1
        assert compare_rows(read.computed, computed, read.head.by) == [], name
        (difference,) = read.compare(computed)
        assert difference.stored is None
        assert sum(rows.num_rows for rows in read.rows.values()) < 700


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.zip"
    with pytest.raises(StorageError, match="holds no report of rows that differ"):
        DifferenceReport.read(path)
    path.write_bytes(b"PK no zip")
    with pytest.raises(StorageError, match="holds no report of rows that differ"):
        DifferenceReport.read(path)
