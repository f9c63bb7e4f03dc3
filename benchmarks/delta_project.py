"""The project of fifteen views from Delta tables to Delta tables, hour by hour.

`python -m benchmarks.delta_project [--scale 0.2] [--hours 5] [--changes 4859] [--seed 1]`

The seven tables of `benchmarks.project` follow Delta tables with a change data feed, into which Spark writes an hour's changes.
The views that a desk reads have Delta tables of their own. An hour's seconds are those from the last commit to a source to the
last commit to a copy: a poll, a flush, and the delivery of what the sinks get. After each hour all views are compared with
Spark's batch, and the copies, as Spark reads them, with their views. Exit status 1: one differs, or at the default scale a copy
is refused or an hour takes longer than 4 s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.epoch_cases import TableChange
from benchmarks.epochs import Requirement, judge
from benchmarks.project import SCALE, Project, ProjectBatch, console, is_same_bag, shorten
from benchmarks.shop import Shop
from engine.errors import SqlError
from engine.runtime.spark.session import connect
from engine.session import Session

COPIES = ("order_states", "vendor_sheet", "stock_cover", "shortages", "weeks", "losses", "demand")
MOST_SECONDS = 4.0
SINK_SECONDS = 300.0


@dataclass(frozen=True)
class DeltaHour:
    """What an hour took: to take the sources' changes, to bring the views up to date, and until the copies have them."""

    poll: float
    flush: float
    delivery: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.poll + self.flush + self.delivery


class DeltaProject(Project):
    """The project whose tables follow Delta tables in a folder, and whose last views have Delta tables there."""

    def __init__(self, session: Session, shop: Shop, folder: Path) -> None:
        super().__init__(session, shop)
        self.folder, self.copies = folder, list[str]()

    def load_tables(self) -> float:
        """Make the sources with their rows and take them; return the seconds."""
        spark, started = self.session.computing, time.perf_counter()
        for table, ddl in self.shop.ddl.items():
            path = self.folder / table
            spark.createDataFrame(self.shop.read(table)).write.format("delta").option(
                "delta.enableChangeDataFeed", "true"
            ).save(str(path))
            columns = ddl.replace(" NOT NULL", "")  # as they are in the Delta table
            self.session.sql(f"{columns} WITH (connector = 'delta', path = '{path}')")
        self._take()
        return time.perf_counter() - started

    def create_views(self) -> float:
        """Create the views and the copies with their first content; return the seconds."""
        started = time.perf_counter()
        super().create_views()
        for view in COPIES:
            options = f"connector = 'delta', path = '{self.folder / view}'"
            try:
                self.session.sql(f"ALTER MATERIALIZED VIEW {view} SET ({options})")
            except SqlError as error:
                self.refused[view] = shorten(error)
                continue
            self.copies.append(view)
        self.session.deliver(self.session.flush(), SINK_SECONDS).raise_for_all()
        return time.perf_counter() - started

    def write_sources(self, changes: Sequence[TableChange]) -> None:
        """Write an hour's changes into the sources, as a job of somebody else does."""
        spark = self.session.computing
        for change in changes:
            target = f"delta.`{self.folder / change.table}`"
            spark.createDataFrame(change.rows).createOrReplaceTempView("changed_rows")
            if change.mode == "delete":
                action = "WHEN MATCHED THEN DELETE"
            else:
                action = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            spark.sql(f"MERGE INTO {target} AS t USING changed_rows AS s ON t.id = s.id {action}")

    def follow_hour(self) -> DeltaHour:
        """Take what the sources have, bring the views up to date, and wait for the copies."""
        began = time.perf_counter()
        self._take()
        taken = time.perf_counter()
        report = self.session.flush(sink_seconds=0)
        report.raise_for_errors()
        flushed = time.perf_counter()
        self.session.deliver(report, SINK_SECONDS).raise_for_all()
        return DeltaHour(taken - began, flushed - taken, time.perf_counter() - flushed)

    def find_other_copies(self) -> list[str]:
        """Return the copies that do not hold the rows of their views."""
        spark, found = self.session.computing, []
        for view in self.copies:
            rows = self.session.sql(f"SELECT * FROM {view}")
            assert rows is not None
            copied = spark.read.format("delta").load(str(self.folder / view)).select(*rows.column_names)
            if not is_same_bag(copied.toArrow().cast(rows.schema), rows):
                found.append(f"the copy of {view}")
        return found

    def _take(self) -> None:
        for report in self.session.poll():
            if report.error is not None:
                raise RuntimeError(f"{report}")


def main() -> int:
    """Load, create, run the hours, print; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=SCALE)
    parser.add_argument("--hours", type=int, default=5)
    parser.add_argument("--changes", type=int, default=4_859)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shop = Shop(options.scale, options.seed)
    wrong: list[str] = []
    hours: list[DeltaHour] = []
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as made,
        Session((Path(made) / "store").as_uri(), connect("local[2]"), backfill_rows=sys.maxsize) as session,
    ):
        project = DeltaProject(session, shop, Path(made) / "lake")
        batch = ProjectBatch(session.computing, Path(made) / "batch", shop)
        loaded, created = project.load_tables(), project.create_views()
        console.print(
            f"sources loaded in {loaded:.1f} s, views and {len(project.copies)} copies made in {created:.1f} s"
        )
        for view, reason in project.refused.items():
            console.print(f"  no copy of {view}: {reason}", highlight=False, markup=False)
        for number in range(1, options.hours + 1):
            project.write_sources(shop.generate_hour(options.changes))
            hours.append(project.follow_hour())
            batch.write_tables()
            spark = batch.measure_spark()
            found = [*project.find_differences(batch), *project.find_other_copies()]
            wrong += [f"hour {number}: {difference}" for difference in found]
            hour = hours[-1]
            console.print(
                f"  hour {number}: {hour.seconds:.2f} s (poll {hour.poll:.2f}, flush {hour.flush:.2f}, copies "
                f"{hour.delivery:.2f}), Spark's batch of the views {spark:.2f} s; {len(found)} views or copies differ",
                highlight=False,
            )
    for difference in wrong:
        console.print(f"[bold red]{difference}[/]")
    median = statistics.median(hour.seconds for hour in hours[1:] or hours)
    is_met = judge(
        [
            Requirement("seconds from Delta to Delta", median, MOST_SECONDS, at_most=True),
            Requirement("copies that are refused", len(project.refused), 0, at_most=True),
            Requirement("views or copies that differ", len(wrong), 0, at_most=True),
        ]
    )
    return 0 if not wrong and (is_met or options.scale != SCALE) else 1


if __name__ == "__main__":
    sys.exit(main())
