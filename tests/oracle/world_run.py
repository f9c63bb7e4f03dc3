"""The run of a random world through a Session, as its user and its other processes act on it, and what must hold after each act."""

from __future__ import annotations

import random
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.meta.domains.creation import find_computed_table
from engine.session import Session
from tests.oracle.batch import assert_equal
from tests.oracle.judges import Judge, JudgeFailed, by_spark
from tests.oracle.kinds import values_of
from tests.oracle.model import FRESH, Model
from tests.oracle.pieces import split, without
from tests.oracle.random_changes import Change, ChangeMaker
from tests.oracle.random_rows import RandomTable, large_rows
from tests.oracle.random_views import DIALECTS, RandomView
from tests.oracle.random_worlds import World
from tests.oracle.words import Engine, quoted, spelled
from tests.uncompiled import uncompiled

EVERYTHING = -1
"""Stands for the world itself where a failure is of no view alone."""


class WorldRun:
    """One run, over a store in a folder of its own or at `url`; `failures` are by view, the first of each."""

    def __init__(
        self, world: World, spark: SparkSession, views: Sequence[RandomView], url: str | None = None
    ) -> None:
        self.world, self.spark, self.views = world, spark, views
        self.tables = list(world.tables)
        self.chance = random.Random(f"{world.seed}/acts")
        self.model = Model(self.tables)
        self.maker = ChangeMaker(random.Random(f"{world.seed}/changes"), self.tables, self.model)
        self.judge = Judge(views, self.model.states)
        self.failures: dict[int, str] = {}
        self.trace: list[str] = []
        self.created: dict[int, tuple[str, ...]] = {}
        self.tainted = self.filled = False
        self.epochs: dict[int, int] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="tideline-oracle-")
        url = url or (Path(self._folder.name) / "store").as_uri()
        self.sessions = [Session(url, spark, dialect=world.dialect) for _ in range(2)]
        self._uncompiled = uncompiled(spark)

    def __enter__(self) -> WorldRun:
        self._uncompiled.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self.sessions:
            session.close()
        self._uncompiled.__exit__(kind, error, trace)
        self.model.close()
        self._folder.cleanup()

    def run(self, rounds: int) -> list[str]:
        """Act and check; return one message per view that went wrong."""
        for table in self.tables:
            self._said(table.ddl(self.world.dialect), self.world.dialect)
        try:
            self._create(0)
            self._flush_all("over empty tables")
            for table in tuple(self.tables):
                self._change(self.maker.first(table))
            self._create(1)
            self._flush_all("after the first rows")
            for number in range(rounds - 1):
                self._round()
                self._create(number + 2)
                last = number == rounds - 2
                if last and (mend := self.maker.mended()) is not None:
                    self._change(mend)
                self._flush_all(f"after round {number}")
            self._against_spark()
        except Exception as error:
            self._went_wrong(
                f"{self.trace[-1]}: {type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"
            )
        return [self._told(view, text) for view, text in self.failures.items()]

    def _went_wrong(self, text: str) -> None:
        """Take note of a failure that is of no view alone."""
        self.failures.setdefault(EVERYTHING - sum(number < 0 for number in self.failures), text)

    def _told(self, number: int, text: str) -> str:
        view = next((view for view in self.views if view.number == number), None)
        ddl = "" if view is None else f"\n  view: {view.ddl(self.names)}"
        replay = self.world.replay(None if view is None else number)
        text = text if len(text) < 2600 else f"{text[:1000]} … {text[-1600:]}"
        return f"FAILED {text}{ddl}\n  replay: {replay}"

    @property
    def names(self) -> dict[str, str]:
        """The session's names by mark."""
        found = {f"V{view.number}": view.name for view in self.views}
        for table in self.tables:
            found |= table.names
        return found

    def _session(self, dialect: Engine | None = None) -> Session:
        """Return one of the sessions, each as it would be in a process of its own."""
        session = self.chance.choice(self.sessions)
        session.dialect = dialect or self.world.dialect  # type: ignore[assignment]
        return session

    def _said(self, text: str, dialect: Engine, policy: str | None = None) -> pa.Table | None:
        self.trace.append(f"[{dialect}] {text if len(text) < 2000 else text[:2000] + ' …'}")
        return self._session(dialect).sql(text, policy=policy)

    def _live(self) -> list[RandomView]:
        """Return the views that are there and have done nothing wrong, nor what they read."""
        live: list[RandomView] = []
        for view in self.views:
            is_well = view.number in self.created and view.number not in self.failures
            if is_well and all(any(other.number == n for other in live) for n in view.reads):
                live.append(view)
        return live

    # what is done

    def _create(self, born: int) -> None:
        for view in self.views:
            if view.born == born and all(n in self.created for n in view.reads):
                self._create_one(view)

    def _create_one(self, view: RandomView) -> None:
        """Create a view, for some queries also one that is kept by the reference rule; at once, or by the next flush."""
        kinds: list[tuple[str, dict[str, str]]] = [(view.name, {})]
        if view.number % 5 == 0 and view.cut is None:
            kinds.append((f"reference_{view.number}", {"rules": "reference"}))
        names = []
        for name, options in kinds:
            text = view.ddl(self.names, name, **options)
            self.trace.append(f"[{view.dialect}] {text}")
            build = self.chance.random() < 0.2 and not self._touched(view)
            try:
                self._session(view.dialect).sql(text, build=build)
            except Exception as error:
                if "domains would wait for each other" in str(error):
                    break  # a view between two of a domain has none: the world goes on without this one
                message = f"{name} is refused: {type(error).__name__}: {error}"
                self.failures.setdefault(view.number, message)
                break
            names.append(name)
        if names:
            self.created[view.number] = tuple(names)

    def _drop_one(self) -> RandomView | None:
        """Drop a view that no other reads, now and then, to be created again later."""
        read = {n for view in self.views for n in view.reads}
        live = [view for view in self._live() if view.number not in read]
        if not live or self.chance.random() < 0.7:
            return None
        view = self.chance.choice(live)
        for name in self.created.pop(view.number):
            self._said(f"DROP MATERIALIZED VIEW {self._quoted(name)}", self.world.dialect)
        return view

    def _change(self, change: Change) -> None:
        dialect = self.chance.choice([d for d in (self.world.dialect, *DIALECTS) if d in change.dialects])
        try:
            if change.sql:
                self._said(spelled(change.sql, dialect, self.names), dialect)
            else:
                self.trace.append(str(change))
                assert change.rows is not None
                self._session().write(change.table.name, change.rows, mode=change.verb)
        except Exception as error:  # it is not there then, and the world goes on without it
            if change.altered is not None and "is read by" in str(error):
                return
            self._went_wrong(f"{self.trace[-1]}: {type(error).__name__}: {error}")
            return
        fits = self.model.change(
            change.table, [spelled(text, "duckdb", {}) for text in change.model], change.fresh
        )
        assert fits, f"the model refuses {change}"
        if change.altered is not None:
            self.tables[change.table.number] = self.maker.tables[change.table.number] = change.altered
        self.epochs[len(self.model.states) - 1] = self.sessions[0].store.refresh().epoch

    def _round(self) -> None:
        """Change tables, flush some views alone, read several together, keep house."""
        if self.world.large and not self.filled:
            self.filled = True
            rows = large_rows(self.maker.chance, self.tables[0], self.world.large)
            table = self.tables[0]
            fresh = table.arrow(rows, judged=True)
            model = (f"INSERT INTO {table.judged} SELECT * FROM {FRESH}",)
            self._change(Change(table, model, rows=table.arrow(rows), verb="insert", fresh=fresh))
        dropped = self._drop_one()
        resting = self._rested()
        together = self._together()
        for number in range(self.maker.chance.randrange(2, 6)):
            self._change(self.maker.change())
            live = [view for view in together if view in self._live()]
            if live and self.chance.random() < 0.85:  # by turns, so that each is at an epoch of its own
                self._flush_some(live[number % len(live)])
            if live and number and self.chance.random() < 0.6:
                self._read_together(live)
        if self.chance.random() < 0.4:
            self._keep_house()
        if dropped is not None:
            self._create_one(dropped)
        if resting is not None:
            self.trace.append(f"resume {resting}")
            self._session().resume(resting)

    def _rested(self) -> str | None:
        """Pause the domain of a view now and then, so that its readers cannot go on."""
        live = [view for view in self._live() if not view.poisoned and self._is_whole(view)]
        if not live or self.chance.random() < 0.7:
            return None
        name = self.created[self.chance.choice(live).number][0]
        self.trace.append(f"pause {name}")
        self._session().pause(name)
        return name

    def _together(self) -> list[RandomView]:
        """Return the views that are flushed alone and read together in a round: twins, or what reads them, or any."""
        live = [view for view in self._live() if not self._touched(view) and self._is_whole(view)]
        if self.chance.random() < 0.6 and len(live) > 1:
            return live[: self.chance.choice((2, 2, 3))]
        return self.chance.sample(live, min(len(live), self.chance.choice((2, 2, 3))))

    def _flush_some(self, view: RandomView) -> None:
        name = self.created[view.number][0]
        self.trace.append(f'flush(["{name}"])')
        for report in self._session().flush([name]).failed:
            self._failed(report.view, str(report.error))

    def _keep_house(self) -> None:
        session = self._session()
        if self.chance.random() < 0.7:
            self.trace.append("compact")
            session.compact()
        if self.chance.random() < 0.5:
            self.trace.append("gc")
            session.store.gc(grace_seconds=0.0)

    def _failed(self, name: str, error: str) -> None:
        """Take note of a view that failed in a flush, unless a row is poison to it."""
        owners = [number for number, names in self.created.items() if name in names]
        if not owners:
            self._went_wrong(f"{name} failed: {error}")
        for number in owners:
            view = next((view for view in self.views if view.number == number), None)
            if view is None or not (view.poisoned and self._is_poisoned()):
                self.failures.setdefault(number, f"{name} failed: {error}")

    def _is_poisoned(self) -> bool:
        return self.maker.mended() is not None

    # what must hold

    def _flush_all(self, label: str) -> None:
        """Bring everything to the present, then compare the tables, and every view in every form."""
        self.trace.append("flush()")
        for report in self._session().flush().failed:
            self._failed(report.view, str(report.error))
        state = self.model.states[-1]
        for table in self.tables:
            found = self._content(table.name)
            wanted = state[table.judged]
            self._same(EVERYTHING, found, wanted, f"table {table.name}, {label}", ())
        self.tainted = self._is_poisoned()
        for view in self._live():
            for name in self.created[view.number]:
                self._check_view(view, name, label)

    def _check_view(self, view: RandomView, name: str, label: str) -> None:
        now = len(self.model.states) - 1
        try:
            if self.tainted and self._touched(view) and not self._is_computed(name):
                return  # it was created over a poisonous row
            found = self._content(name)
            if not self.tainted or not self._touched(view):
                self._same(
                    view.number, found, self.judge.content(view.number, now), f"{name}, {label}", view.sums
                )
            elif view.cut is not None:
                self._check_cut(view, found, label)
            elif not view.poisoned and any(self._views[n].cut is not None for n in view.reads):
                below = {f"v{n}": self._content(self.created[n][0]) for n in view.reads}
                wanted = self.judge.over(view.number, self.model.states[-1], below)
                self._same(view.number, found, wanted, f"{name} over what it reads, {label}", view.sums)
        except JudgeFailed as error:
            self.trace.append(f"{name}: {error}")
        except Exception as error:  # whatever it is, the other views go on
            self.failures.setdefault(view.number, f"{name}, {label}: {type(error).__name__}: {error}")

    def _is_computed(self, name: str) -> bool:
        return find_computed_table(self._session().store.refresh(), name) is not None

    def _check_cut(self, view: RandomView, found: pa.Table, label: str) -> None:
        """Healthy partitions are as the query gives them now; what stands still has what it had in some state."""
        names = {
            status.partition: status.error is not None for status in self._session().partitions(view.name)
        }
        behind = {key for key, failing in names.items() if failing}
        wanted = self.judge.content(view.number, len(self.model.states) - 1)
        label = f"{view.name} without partitions {sorted(behind)}, {label}"
        self._same(view.number, without(found, behind), without(wanted, behind), label, view.sums)

    def _touched(self, view: RandomView) -> bool:
        """Tell whether a view, or one that it reads, stands still where a row is poison to it."""
        return view.poisoned or any(self._touched(self._views[n]) for n in view.reads)

    @property
    def _views(self) -> dict[int, RandomView]:
        return {view.number: view for view in self.views}

    def _read_together(self, chosen: Sequence[RandomView]) -> None:
        """Read some views, and perhaps a table, in one query: what comes must be of one state, whatever was flushed."""
        table = self.chance.choice(self.tables) if self.chance.random() < 0.3 else None
        policy, states = self._policy()
        sources = [(self.created[view.number][0], view.sums) for view in chosen]
        sources += [(table.name, ())] if table is not None else []
        parts = [
            f"(SELECT {at} AS w_{at}, i.* FROM {self._quoted(name)} i) j_{at}"
            for at, (name, _) in enumerate(sources)
        ]
        text = f"SELECT * FROM {parts[0]}" + "".join(
            f" FULL JOIN {part} ON w_0 = w_{at}" for at, part in enumerate(parts) if at
        )
        try:
            found = self._said(text, self.world.dialect, policy)
        except TidelineError as error:
            self.trace.append(f"refused: {error}")
            return
        assert found is not None
        pieces = split(found, len(sources))
        for at in states:
            if self._is_state(at, chosen, table, pieces):
                return
        number = max(view.number for view in chosen)
        shown = [[values_of(column) for column in piece.slice(0, 5).columns] for piece in pieces]
        acts = "\n    ".join(self.trace[-12:])
        self.failures.setdefault(
            number, f"read together under {policy}: no state gives {shown}: {text}\n    {acts}"
        )

    def _policy(self) -> tuple[str, Sequence[int]]:
        """Return a policy of reading and the states that it may show: any, or the one that stood at a named epoch."""
        if self.chance.random() < 0.2:
            at = self.chance.choice(sorted(self.epochs)[-4:])
            return str(self.epochs[at]), (at,)
        newest_first = range(len(self.model.states) - 1, -1, -1)
        return self.chance.choice(("consistent", "consistent", "global")), newest_first

    def _is_state(
        self, at: int, chosen: Sequence[RandomView], table: RandomTable | None, pieces: list[pa.Table]
    ) -> bool:
        try:
            wanted = [(self.judge.content(view.number, at), view.sums) for view in chosen]
        except JudgeFailed:
            return True
        if table is not None:
            wanted.append((self.model.seen_now(table, at), ()))
        try:
            for piece, (rows, sums) in zip(pieces, wanted, strict=True):
                assert_equal(piece, rows, "", sums)
        except AssertionError:
            return False
        return True

    def _is_whole(self, view: RandomView) -> bool:
        """Tell whether a view was computed for the first time."""
        return self.created[view.number][0] in self.sessions[0].store.refresh().tables

    def _against_spark(self) -> None:
        live = self._live()
        for number, wanted in by_spark(self.spark, live, self.model.states[-1]).items():
            view = self._views[number]
            if isinstance(wanted, JudgeFailed):
                self.failures.setdefault(number, str(wanted))
                continue
            for name in self.created[number]:
                self._same(
                    number, self._content(name), wanted, f"{name}, at the end, against Spark", view.sums
                )

    def _content(self, name: str) -> pa.Table:
        found = self._session().sql(f"SELECT * FROM {self._quoted(name)}")
        assert found is not None
        return found

    def _quoted(self, name: str) -> str:
        return quoted(name, self.world.dialect)

    def _same(self, number: int, found: pa.Table, wanted: pa.Table, label: str, sums: Sequence[int]) -> None:
        try:
            assert_equal(found, wanted, label, sums)
        except AssertionError as error:
            if number < 0:
                self._went_wrong(f"{error}\n    " + "\n    ".join(self.trace[-25:]))
            self.failures.setdefault(number, str(error))
