"""Each way into a table crossed with each feature of one: what is brought, what is to stand there then, and who refuses what.

A cell brings two batches. Of the second one a row has a known key (-0.0 after 0.0), one is NaN again, one is new, one is late where
the table has a watermark, and one does not fit where a column has a length.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from engine.connectors.contract.connector import no_spark
from engine.connectors.sources import open_source
from engine.errors import TidelineError
from engine.session import Session

Conflict = Literal["error", "overwrite", "ignore", "merge", "versions"]
NAN = math.nan
COLUMNS = ("k", "v", "w", "ts", "ver")
SCHEMA = pa.schema(
    [
        ("k", pa.float64()),
        ("v", pa.int32()),
        ("w", pa.int32()),
        ("ts", pa.timestamp("us")),
        ("ver", pa.int32()),
    ]
)
TEXT = pa.field("t", pa.string())
DEFAULT = 5
HOUR = dt.timedelta(hours=1)


def _at(hour: int, minute: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1) + dt.timedelta(hours=hour, minutes=minute)


class Row(NamedTuple):
    """A row as it is brought; `t` is its text where the table has one."""

    k: float
    v: int | None
    w: int | None
    ts: dt.datetime
    ver: int
    t: str = "abc"


FIRST = (Row(0.0, 1, None, _at(0, 0), 5), Row(NAN, 2, None, _at(0, 10), 5), Row(1.0, 3, None, _at(0, 20), 5))
SECOND = (
    Row(-0.0, None, 7, _at(2, 10), 4),
    Row(NAN, 20, None, _at(2, 20), 6),
    Row(9.0, 9, 9, _at(-4, 0), 5),
    Row(2.0, 4, None, _at(3, 0), 5, "long"),
)
"""The third one is late: after the first batch the watermark is twenty past eleven."""


@dataclass(frozen=True)
class Feature:
    """A table: its clauses, and what the model has to know of them."""

    name: str
    columns: tuple[str, ...] = ()
    behind: str = ""
    key: bool = True
    conflict: Conflict = "error"
    append_only: bool = False
    watermark: Literal["", "plain", "ttl"] = ""
    text: bool = False
    view: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the table."""
        return (*COLUMNS, *(part.split()[0] for part in self.columns))

    def ddl(self, table: str, options: str = "") -> str:
        """Return the statement that makes the table."""
        mark = "WATERMARK FOR ts AS ts - INTERVAL '1' HOUR" + (" WITH TTL" if self.watermark == "ttl" else "")
        parts = ["k DOUBLE PRECISION", "v INT", "w INT", "ts TIMESTAMP", "ver INT", *self.columns]
        parts += [mark] if self.watermark else []
        parts += ["PRIMARY KEY (k)"] if self.key else []
        return f"CREATE TABLE {table} ({', '.join(parts)}) {self.behind} {options}"


NOTHING, FULL, MERGE = (
    "ON CONFLICT DO NOTHING",
    "ON CONFLICT DO UPDATE FULL",
    "ON CONFLICT DO UPDATE IF NOT NULL",
)
VERSIONS = f"{FULL} WITH VERSION COLUMN (ver)"
FEATURES = (
    Feature("plain"),
    Feature("no_key", key=False),
    Feature("nothing", behind=NOTHING, conflict="ignore"),
    Feature("overwrite", behind=FULL, conflict="overwrite"),
    Feature("merge", behind=MERGE, conflict="merge"),
    Feature("versions", behind=VERSIONS, conflict="versions"),
    Feature("append_only", behind="APPEND ONLY", append_only=True),
    Feature("append_only_nothing", behind=f"APPEND ONLY {NOTHING}", append_only=True, conflict="ignore"),
    Feature("append_only_no_key", behind="APPEND ONLY", append_only=True, key=False),
    Feature("watermark", behind="APPEND ONLY", append_only=True, key=False, watermark="plain"),
    Feature("watermark_key", behind="APPEND ONLY", append_only=True, watermark="plain"),
    Feature("ttl", behind="APPEND ONLY", append_only=True, key=False, watermark="ttl"),
    Feature("ttl_key", watermark="ttl"),
    Feature("ttl_nothing", behind=NOTHING, conflict="ignore", watermark="ttl"),
    Feature("ttl_overwrite", behind=FULL, conflict="overwrite", watermark="ttl"),
    Feature("ttl_merge", behind=MERGE, conflict="merge", watermark="ttl"),
    Feature("ttl_versions", behind=VERSIONS, conflict="versions", watermark="ttl"),
    Feature("defaults", (f"d INT DEFAULT {DEFAULT}",)),
    Feature("generated", ("g INT GENERATED ALWAYS AS (ver + 1) STORED",)),
    Feature("checked", ("t VARCHAR(3) NOT NULL",), text=True),
    Feature("partitioned", view="WITH (partition_by = 'ver')"),
)


@dataclass(frozen=True)
class Way:
    """A way into tables: `create` makes the table and what feeds it, `bring` a batch; both raise what they refuse.

    `known` is what becomes of a row with a known key: the table's own rule, or one whatever the table says; to a sink a known key
    is an error only where rows do not change. A row that does not fit is told, with its batch, or set `aside` by itself.
    """

    name: str
    create: Callable[[Session, Feature, Path], None]
    bring: Callable[[Session, Feature, Path, Sequence[Row]], None]
    known: Literal["rule", "overwrite", "update", "delete", "sink"] = "rule"
    aside: bool = False
    spark: bool = True


@dataclass
class World:
    """What the model knows of a table: its rows in the order in which they came, and its watermark."""

    feature: Feature
    rows: list[dict[str, Any]] = field(default_factory=list)
    watermark: dt.datetime | None = None

    def take(self, way: Way, batch: Sequence[Row]) -> bool:
        """Take a batch; returns whether it is told that something is wrong, and nothing was taken."""
        if way.known in ("update", "delete") and not self.rows:  # the rows that are there then
            way = replace(way, known="rule")
        if way.known == "delete":
            self.rows = [old for old in self.rows if not any(_same(old["k"], row.k) for row in batch)]
            return False
        feature = self.feature
        marked = feature.watermark and (self.watermark is not None)
        in_time = [row for row in batch if not marked or row.ts >= self.watermark]
        wrong = [row for row in batch if feature.text and len(row.t) > 3]
        known = [row for row in batch if feature.key and self._at(row.k) is not None]
        if wrong and not way.aside and not (way.known == "update" and wrong[0] not in known):
            return True
        strict = way.known == "rule" or (way.known == "sink" and feature.append_only)
        if strict and feature.conflict == "error" and known:
            return True
        for row in in_time:
            if row not in wrong:
                self._take(way, row)
        times = [row.ts for row in in_time if way.known != "update" or row in known or not feature.key]
        if feature.watermark and times:
            self.watermark = max(filter(None, [self.watermark, max(times) - HOUR]))
        return False

    def _at(self, key: float) -> int | None:
        for at, row in enumerate(self.rows):
            if row["k"] == key or (math.isnan(row["k"]) and math.isnan(key)):
                hidden = self.feature.watermark == "ttl" and self.watermark and row["ts"] < self.watermark
                return None if hidden else at
        return None

    def _take(self, way: Way, row: Row) -> None:
        feature, at = self.feature, self._at(row.k)
        new = {name: getattr(row, name) for name in COLUMNS}
        more = {"d": DEFAULT, "g": row.ver + 1, "t": row.t}
        new |= {name: more[name] for name in feature.shown if name in more}
        if not feature.key and way.known == "update":
            self.rows = [new if _same(old["k"], row.k) else old for old in self.rows]
            return
        if at is None or not feature.key:
            if way.known != "update":
                self.rows = [old for old in self.rows if not feature.key or not _same(old["k"], row.k)] + [
                    new
                ]
            return
        before, rule = self.rows[at], feature.conflict
        if way.known in ("overwrite", "update") or rule == "error":
            rule = "overwrite"
        if feature.append_only or rule == "ignore":
            return
        if rule == "versions" and new["ver"] < before["ver"]:
            return
        if rule == "merge":
            new = {name: before[name] if value is None else value for name, value in new.items()}
        self.rows[at] = new

    def shown(self) -> list[tuple[str, ...]]:
        """Return what a query of the table is to show."""
        hidden = self.feature.watermark == "ttl" and self.watermark
        return printed(row.values() for row in self.rows if not hidden or row["ts"] >= self.watermark)


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def printed(rows: Any) -> list[tuple[str, ...]]:
    """Return rows as they are compared: a zero has no sign."""
    return sorted(tuple(str(v + 0.0 if isinstance(v, float) else v) for v in row) for row in rows)


def arrow(feature: Feature, batch: Sequence[Row]) -> pa.Table:
    """Return a batch with the columns that a table is given."""
    schema = SCHEMA.append(TEXT) if feature.text else SCHEMA
    return pa.Table.from_pylist([row._asdict() for row in batch], schema=schema)


# ---- the ways ------------------------------------------------------------------------------------------------------
def _made(session: Session, feature: Feature, _: Path) -> None:
    session.sql(feature.ddl(feature.name))


def _written(mode: Any, session: Session, feature: Feature, _: Path, batch: Sequence[Row]) -> None:
    session.write(feature.name, arrow(feature, batch), mode=mode)


def _staged(session: Session, feature: Feature, batch: Sequence[Row]) -> str:
    """Put a batch into a table without a key, and return that table's name."""
    name = f"given_{feature.name}"
    if name in session.catalog.relations:
        session.sql(f"DROP TABLE {name}")
    text = ", t TEXT" if feature.text else ""
    columns = f"k DOUBLE PRECISION, v INT, w INT, ts TIMESTAMP, ver INT{text}"
    session.sql(f"CREATE TABLE {name} ({columns})")
    session.write(name, arrow(feature, batch))
    return name


def _inserted(session: Session, feature: Feature, _: Path, batch: Sequence[Row]) -> None:
    names = ", ".join(arrow(feature, ()).column_names)
    given = _staged(session, feature, batch)
    session.sql(f"INSERT INTO {feature.name} ({names}) SELECT {names} FROM {given}")


def _updated(session: Session, feature: Feature, folder: Path, batch: Sequence[Row]) -> None:
    if batch is FIRST:
        _written("insert", session, feature, folder, batch)
        return
    names = [name for name in arrow(feature, ()).column_names if name != "k"]
    given = _staged(session, feature, batch)
    items = ", ".join(f"{name} = g.{name}" for name in names)
    session.sql(f"UPDATE {feature.name} SET {items} FROM {given} g WHERE {feature.name}.k = g.k")


def _upserted(session: Session, feature: Feature, _: Path, batch: Sequence[Row]) -> None:
    names = arrow(feature, ()).column_names
    given, shown = _staged(session, feature, batch), ", ".join(names)
    items = ", ".join(f"{name} = excluded.{name}" for name in names if name != "k")
    conflict = f"ON CONFLICT (k) DO UPDATE SET {items}"
    session.sql(f"INSERT INTO {feature.name} ({shown}) SELECT {shown} FROM {given} {conflict}")


def _deleted(session: Session, feature: Feature, folder: Path, batch: Sequence[Row]) -> None:
    if batch is FIRST:
        _written("insert", session, feature, folder, batch)
        return
    given = _staged(session, feature, batch)
    session.sql(f"DELETE FROM {feature.name} USING {given} g WHERE {feature.name}.k = g.k")


def _landing(session: Session, feature: Feature, folder: Path) -> None:
    place = folder / feature.name
    place.mkdir()
    session.sql(feature.ddl(feature.name, f"WITH (connector = 'landing', path = '{place}')"))


def _landed(tasks: bool, session: Session, feature: Feature, folder: Path, batch: Sequence[Row]) -> None:
    place = folder / feature.name
    pq.write_table(arrow(feature, batch), place / f"{len(list(place.iterdir()))}.parquet")
    _polled(session, feature, tasks)


def _polled(session: Session, feature: Feature, spark: bool) -> None:
    source = open_source(session.store, session.catalog.get(feature.name))
    source.poll((lambda: session.computing) if spark else no_spark)


def _delta(session: Session, feature: Feature, folder: Path) -> None:
    place = folder / feature.name
    deltalake.write_deltalake(place, arrow(feature, ()), configuration={"delta.enableChangeDataFeed": "true"})
    session.sql(feature.ddl(feature.name, f"WITH (connector = 'delta', path = '{place}')"))


def _appended(session: Session, feature: Feature, folder: Path, batch: Sequence[Row]) -> None:
    deltalake.write_deltalake(folder / feature.name, arrow(feature, batch), mode="append")
    _polled(session, feature, True)


def _sink(session: Session, feature: Feature, _: Path) -> None:
    _made(session, feature, _)
    text = ", t TEXT" if feature.text else ""
    columns = f"k DOUBLE PRECISION PRIMARY KEY, v INT, w INT, ts TIMESTAMP, ver INT{text}"
    session.sql(f"CREATE TABLE from_{feature.name} ({columns})")
    only_comes = feature.append_only or not feature.key or feature.conflict == "ignore"
    more = " WITH (type = 'append-only', force_append_only = 'true')" if only_comes else ""
    session.sql(f"CREATE SINK into_{feature.name} INTO {feature.name} FROM from_{feature.name}{more}")


def _sunk(session: Session, feature: Feature, _: Path, batch: Sequence[Row]) -> None:
    session.write(f"from_{feature.name}", arrow(feature, batch), mode="upsert")
    report = session.flush()
    errors = [one.error for one in report.sinks if one.sink == f"into_{feature.name}" and one.error]
    if errors:
        raise TidelineError(errors[0])


BY_TASKS = {"TIDELINE_DRIVER_ROWS_MB": "0", "TIDELINE_LANDING_TASKS_MB": "0"}
"""The settings under which tasks do whatever they can."""
WAYS = (
    Way("write", _made, partial(_written, "insert"), spark=False),
    Way("write upsert", _made, partial(_written, "upsert"), "overwrite", spark=False),
    Way("landing", _landing, partial(_landed, False), "overwrite", aside=True, spark=False),
    Way("sink", _sink, _sunk, "sink", spark=False),
    Way("INSERT", _made, _inserted),
    Way("UPDATE", _made, _updated, "update"),
    Way("Delta", _delta, _appended, "overwrite", aside=True),
    Way("landing by tasks", _landing, partial(_landed, True), "overwrite", aside=True),
    Way("INSERT by tasks", _made, _inserted),
    Way("UPDATE by tasks", _made, _updated, "update"),
    Way("DELETE", _made, _deleted, "delete"),
    Way("DELETE by tasks", _made, _deleted, "delete"),
    Way("INSERT ON CONFLICT", _made, _upserted, "overwrite"),
    Way("INSERT ON CONFLICT by tasks", _made, _upserted, "overwrite"),
)


@dataclass(frozen=True)
class Cell:
    """What became of a feature by a way: `refused` by whom, or what is `wrong`."""

    way: str
    feature: str
    refused: str = ""
    wrong: str = ""


def cells(
    session: Session, way: Way, features: Sequence[Feature], folder: Path, views: bool
) -> Iterator[Cell]:
    """Yield what becomes of each feature by a way, read at once, after a compaction and by views from before and behind."""
    worlds = {}
    for feature in features:
        try:
            way.create(session, feature, folder)
        except TidelineError as error:
            yield Cell(way.name, feature.name, refused=str(error).splitlines()[0])
            continue
        worlds[feature.name] = World(feature)
        if views:
            name, of = f"before_{feature.name}", feature.view
            session.sql(f"CREATE MATERIALIZED VIEW {name} {of} AS SELECT * FROM {feature.name}")
    found: dict[str, Cell] = {}
    for batch in (FIRST, SECOND):
        for world in worlds.values():
            if world.feature.name not in found:
                cell = _brought(session, way, world, folder, batch)
                found |= {world.feature.name: cell} if cell is not None else {}
    left = {name: world for name, world in worlds.items() if name not in found}
    yield from found.values()
    answer = _read(session, left, views)
    yield from (Cell(way.name, name, wrong=answer.get(name, "")) for name in left)


def _brought(session: Session, way: Way, world: World, folder: Path, batch: Sequence[Row]) -> Cell | None:
    """Bring a batch to a table and to its model; returns a cell that ends with it."""
    name, message = world.feature.name, ""
    before = list(world.rows), world.watermark
    meant = world.take(way, batch)  # which takes nothing of what is told
    try:
        way.bring(session, world.feature, folder, batch)
    except TidelineError as error:
        message = str(error).splitlines()[0]
    if bool(message) == meant:
        return None
    if name in message:  # the statement as such: nothing of it is there
        world.rows, world.watermark = before
        wrong = _read(session, {name: world}, False)
        return Cell(way.name, name, refused=message, wrong=wrong.get(name, ""))
    return Cell(way.name, name, wrong=message or "what does not fit is taken without a word")


def _read(session: Session, worlds: dict[str, World], views: bool) -> dict[str, str]:
    wrong: dict[str, str] = {}

    def compare(name: str, relation: str, when: str) -> None:
        shown = ", ".join(worlds[name].feature.shown)
        rows = session.sql(f"SELECT {shown} FROM {relation}")
        assert rows is not None
        found, meant = printed(row.values() for row in rows.to_pylist()), worlds[name].shown()
        if found != meant:
            wrong.setdefault(name, f"{when}: {found}, not {meant}")

    marks = session.sql("SHOW WATERMARKS")
    assert marks is not None
    at = {row["name"]: row["watermark"] for row in marks.to_pylist()}
    for name, world in worlds.items():
        if world.feature.watermark and str(at[name]) != str(world.watermark):
            wrong.setdefault(name, f"the watermark is {at[name]}, not {world.watermark}")
        compare(name, name, "at once")
    if views:
        for name in worlds:
            session.sql(f"CREATE MATERIALIZED VIEW behind_{name} AS SELECT * FROM {name}")
        session.flush().raise_for_errors()
        for name, world in worlds.items():
            compare(name, f"behind_{name}", "a view from behind")
            if world.feature.watermark != "ttl":  # that a row has left is told to nobody
                compare(name, f"before_{name}", "a view from before")
    for name in worlds:
        session.compact(name)
        compare(name, name, "after a compaction")
    return wrong
