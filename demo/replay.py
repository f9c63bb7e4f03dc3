"""The replay: what the airports' systems would have dropped into the landing folders, in bulk first and then day by day."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from demo.dataset import ACTUALS, KEY, SCHEDULE, WEATHER, Dataset, select_cancelled, select_flown

DAY = datetime.timedelta(days=1)
FIRST_DAY = datetime.date(2013, 1, 1)
LAST_DAY = datetime.date(2013, 12, 31)
FIRST_REPORT_EVERY = 16
MALFORMED_DAYS = frozenset({20, 27})


@dataclass(frozen=True)
class DropReport:
    """What one step dropped: files and their rows."""

    title: str
    files: int = 0
    rows: int = 0


class Replay:
    """Writes landing files under `folder`, each under another name first and then renamed."""

    def __init__(self, dataset: Dataset, folder: Path, bulk_until: datetime.date) -> None:
        self.dataset = dataset
        self.folder = folder
        self.bulk_until = bulk_until

    @property
    def steps(self) -> list[Callable[[], DropReport]]:
        """The drops after the bulk, in order: each day's weather, then its flights."""
        count = (LAST_DAY - self.bulk_until).days
        days = [self.bulk_until + DAY * number for number in range(1, count + 1)]
        return [partial(drop, day) for day in days for drop in (self.drop_weather, self.drop_flights)]

    def drop_bulk(self) -> DropReport:
        """Drop the reference tables, all that is known until `bulk_until`, and the next day's schedule."""
        data = self.dataset
        flights = data.select_flights(FIRST_DAY, self.bulk_until)
        parts = [
            self.drop_file("airlines/airlines.csv", data.airlines),
            self.drop_file("airports/airports.csv", data.airports),
            self.drop_file("planes/planes.csv", data.planes),
            self.drop_file(
                "weather/until.csv", data.select_weather(FIRST_DAY, self.bulk_until).select(WEATHER)
            ),
            self.drop_file("cancellations/until.csv", select_cancelled(flights).select((*KEY, "dest"))),
            self.drop_file("flights/until.csv", select_flown(flights).select(ACTUALS)),
            self._drop_schedule(self.bulk_until + DAY),
        ]
        return _sum_drops(f"{FIRST_DAY} to {self.bulk_until}", parts)

    def drop_weather(self, day: datetime.date) -> DropReport:
        """Drop the weather of `day`, some of it first reports, and the corrected reports of the day before."""
        weather = self.dataset.select_weather(day, day).select(WEATHER)
        yesterday = self.dataset.select_weather(day - DAY, day - DAY).select(WEATHER)
        first_reports = np.arange(weather.num_rows) % FIRST_REPORT_EVERY == 0
        corrected = np.arange(yesterday.num_rows) % FIRST_REPORT_EVERY == 0
        parts = [
            self.drop_file(f"weather/{day - DAY}-corrected.csv", yesterday.filter(pa.array(corrected))),
            self.drop_file(f"weather/{day}.csv", _make_first_reports(weather, first_reports)),
        ]
        return _sum_drops(f"{day} weather", parts)

    def drop_flights(self, day: datetime.date) -> DropReport:
        """Drop what became of the flights of `day`, and tomorrow's schedule.

        Actual times update the schedule of the day; cancelled flights leave it and enter the cancellations.
        """
        today = self.dataset.select_flights(day, day)
        gone = select_cancelled(today)
        deletes = gone.select(KEY).append_column("_op", pa.array(["delete"] * gone.num_rows))
        parts = [
            self.drop_file(f"cancellations/{day}.csv", gone.select((*KEY, "dest"))),
            self.drop_file(
                f"flights/{day}-1-actual.csv", select_flown(today).select(ACTUALS), day.day in MALFORMED_DAYS
            ),
            self.drop_file(f"flights/{day}-2-cancelled.csv", deletes),
        ]
        if day < LAST_DAY:
            parts.append(self._drop_schedule(day + DAY))
        return _sum_drops(f"{day} flights", parts)

    def _drop_schedule(self, day: datetime.date) -> DropReport:
        return self.drop_file(
            f"flights/{day}-0-schedule.csv", self.dataset.select_flights(day, day).select(SCHEDULE)
        )

    def drop_file(self, name: str, rows: pa.Table, malformed: bool = False) -> DropReport:
        """Write one file; nothing for no rows. `malformed` adds a line as a broken writer would leave it."""
        if not rows.num_rows:
            return DropReport(name)
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.part")
        with unfinished.open("wb") as file:
            pacsv.write_csv(rows, file)
            if malformed:
                file.write(b"2013,12,thirty-first,,\n")
        unfinished.rename(target)
        return DropReport(name, 1, rows.num_rows)


def _make_first_reports(weather: pa.Table, some: np.ndarray) -> pa.Table:
    """Return the observations with some of them as first reported: one mile less of visibility, no wind measured."""
    visib = pc.subtract(weather.column("visib").cast(pa.float64()), 1.0)
    rough = pc.max_element_wise(visib, 0.0).cast(pa.string())
    mask = pa.array(some)
    columns = {name: weather.column(name) for name in weather.column_names}
    columns["visib"] = pc.if_else(mask, rough, columns["visib"])
    columns["wind_speed"] = pc.if_else(mask, pa.scalar(None, pa.string()), columns["wind_speed"])
    return pa.table(columns)


def _sum_drops(title: str, parts: list[DropReport]) -> DropReport:
    return DropReport(title, sum(part.files for part in parts), sum(part.rows for part in parts))
