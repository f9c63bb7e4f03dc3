"""The report of rows that differ: what was read for them, so that they can be computed again elsewhere, without the store.

A zip file: `report.json` with the view, its query and its plan, `stored.arrow` and `computed.arrow` with the rows of both sides,
`wanted.arrow` with the values that they were asked by, and the rows of each scan of the plan.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from urllib.parse import quote as encode_name

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.arrow import to_positions
from engine.errors import StorageError
from engine.hummock.rows.key_numbers import find_first_of_each, number_keys
from engine.operators.context import EpochContext
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation, list_wanted
from engine.runtime.answers.tables_read import TablesRead, Wanted, keep_wanted
from engine.runtime.oracle.comparison import RowDifference, compare_rows
from engine.sql.catalog import Relation
from engine.sql.dialect import Dialect
from engine.sql.plan import DynamicFilter, Node, Recompute, Scan, TemporalFilter, list_nodes, list_scans

MOST_ROWS = 200_000
"""Of a table from which more rows were read none are kept: the report says so, and cannot be computed again."""
KEPT_REPORTS = 10
"""So many reports of a view stay in a folder, the newest ones."""
_FORMAT = 1


class ReportHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a report says beside its rows; `obstacle` says why it cannot be computed again, if that is so."""

    format: int
    view: str
    epoch: int
    sql: str
    dialect: Dialect
    by: tuple[str, ...]
    shown: tuple[str, ...]
    names: dict[str, str]
    plan: Node
    scans: tuple[Scan, ...]
    obstacle: str = ""


@dataclass(frozen=True, eq=False)
class DifferenceReport:
    """Rows of a view that differ, and all that they were computed from."""

    head: ReportHead
    stored: pa.Table
    computed: pa.Table
    wanted: pa.Table
    rows: Mapping[Scan, pa.Table]

    def write(self, folder: Path) -> Path:
        """Write it to a file of a folder, and return that; old ones of the view go. Raises StorageError if it cannot be."""
        start = encode_name(self.head.view, safe="")[:100]
        path = folder / f"{start}-{self.head.epoch}.zip"
        tables = {"stored": self.stored, "computed": self.computed, "wanted": self.wanted}
        tables |= {f"scan-{at}": self.rows[scan] for at, scan in enumerate(self.head.scans)}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr("report.json", msgspec.json.encode(self.head))
                for name, rows in tables.items():
                    file.writestr(f"{name}.arrow", _encode_rows(rows))
            for old in sorted(folder.glob(f"{start}-*.zip"))[:-KEPT_REPORTS]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"the report {path} cannot be written: {error}") from error
        return path

    @classmethod
    def read(cls, path: Path) -> DifferenceReport:
        """Return the report in a file; raises StorageError for a file that holds none."""
        try:
            with zipfile.ZipFile(path) as file:
                head = msgspec.json.decode(file.read("report.json"), type=ReportHead)
                tables = {
                    name.removesuffix(".arrow"): _decode_rows(file.read(name))
                    for name in file.namelist()
                    if name.endswith(".arrow")
                }
            rows = {scan: tables[f"scan-{at}"] for at, scan in enumerate(head.scans)}
            found = cls(head, tables["stored"], tables["computed"], tables["wanted"], rows)
        except (OSError, KeyError, zipfile.BadZipFile, msgspec.MsgspecError, pa.ArrowInvalid) as error:
            raise StorageError(f"{path} holds no report of rows that differ: {error}") from error
        if head.format != _FORMAT:
            raise StorageError(
                f"{path} is a report of format {head.format}: read it by the version that wrote it"
            )
        return found

    def compute(self, spark: SparkSession, parallelism: int) -> pa.Table:
        """Compute the rows again from those that are in the report; raises StorageError where it has not all of them."""
        if self.head.obstacle:
            raise StorageError(f"the rows of {self.head.view} cannot be computed again: {self.head.obstacle}")
        size = sum(rows.num_rows for rows in self.rows.values())
        context = EpochContext(spark, "", {}, {}, None, self.head.epoch, parallelism, size)
        found = NarrowEvaluation(GivenScans(self.rows), context).evaluate(
            self.head.plan, list_wanted(self.wanted)
        )
        return found.select_equal(self.wanted, self.head.shown)

    def compare(self, computed: pa.Table) -> list[RowDifference]:
        """Return where the stored rows differ from computed ones."""
        return compare_rows(self.stored, computed, self.head.by)


@dataclass(frozen=True)
class GivenScans:
    """Rows that were read by scans, in their place."""

    rows: Mapping[Scan, pa.Table]

    def read(self, scan: Scan, wanted: Wanted) -> pa.Table:
        """Return the rows of a scan, under its names, whose stored columns have wanted values."""
        names = {column: name for name, column in scan.items}
        own = {names[column]: values for column, values in wanted.items() if column in names}
        return keep_wanted(self.rows[scan], own)


@dataclass
class RecordedReads:
    """Tables whose rows are kept as they are read."""

    tables: TablesRead
    rows: dict[Scan, list[pa.Table]] = field(default_factory=dict)
    too_many: list[str] = field(default_factory=list)

    def read(self, scan: Scan, wanted: Wanted) -> pa.Table | DataFrame:
        """Return the rows of a scan, under its names, whose stored columns have wanted values."""
        found = self.tables.read(scan, wanted)
        if not isinstance(found, pa.Table):
            found = found.limit(MOST_ROWS + 1).toArrow() if found.columns else found
        if isinstance(found, pa.Table) and found.num_rows <= MOST_ROWS:
            self.rows.setdefault(scan, []).append(found)
        else:
            self.too_many.append(scan.table)
        return found


def record_report(
    relation: Relation,
    epoch: int,
    node: Node,
    tables: TablesRead,
    context: EpochContext,
    sides: tuple[pa.Table, pa.Table, pa.Table],
) -> DifferenceReport:
    """Return the report of rows of a view; `sides` are the stored and the computed ones, and the values they were asked by."""
    stored, computed, wanted = sides
    reads = RecordedReads(tables)
    obstacle = _find_obstacle(node)
    if not obstacle:
        NarrowEvaluation(reads, context).evaluate(node, list_wanted(wanted)).select_equal(wanted)
        if reads.too_many:
            obstacle = f"more than {MOST_ROWS:,} rows of {', '.join(sorted(set(reads.too_many)))} were read"
    rows = (
        {}
        if obstacle
        else {scan: _put_together(scan, reads.rows) for scan in dict.fromkeys(list_scans(node))}
    )
    head = ReportHead(
        _FORMAT,
        relation.name,
        epoch,
        relation.sql,
        relation.dialect,
        tuple(wanted.column_names),
        tuple(stored.column_names),
        {column.storage_name: column.name for column in relation.visible_columns},
        node,
        tuple(rows),
        obstacle,
    )
    return DifferenceReport(head, stored, computed, wanted, rows)


def _find_obstacle(node: Node) -> str:
    for one in list_nodes(node):
        if isinstance(one, DynamicFilter | TemporalFilter):
            return "its rows depend on a watermark or the time, which the store has"
        if isinstance(one, Recompute):
            return "its query is computed as a whole, from all rows that it reads"
    return ""


def _put_together(scan: Scan, reads: Mapping[Scan, Sequence[pa.Table]]) -> pa.Table:
    """Return the rows that a scan has given, each once."""
    rows = pa.concat_tables(reads[scan], promote_options="permissive")
    first = find_first_of_each(number_keys(rows.select(list(scan.key))))
    return rows.take(to_positions(first))


def _encode_rows(rows: pa.Table) -> bytes:
    sink = BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _decode_rows(data: bytes) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(data)).read_all()
