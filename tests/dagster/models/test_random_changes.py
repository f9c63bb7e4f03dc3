"""Random pairs of an old and a new project: what a plan says is what a sync does, nothing is lost, and nobody sees half of it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.change_plan import ChangePlan, plan_models
from dagster_tideline.models.loader import load_models
from dagster_tideline.sync import sync_models
from engine.errors import EpochFailed, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog.successions import list_successions
from engine.session import Session

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);\nCREATE TABLE u (id INT PRIMARY KEY, a INT, b INT);\n"
)
INPUTS = ("t", "u")
EXPRESSIONS = ("sum(b)", "max(b)", "min(b)", "count(*)", "count(DISTINCT b)", "CAST(sum(b) AS DOUBLE)")
KINDS = (
    "cosmetic",
    "options",
    "filter",
    "more",
    "fewer",
    "other name",
    "followed",
    "other type",
    "order",
    "key",
    "input",
    "renamed",
    "carried",
    "let go of",
)

THROUGH = ("carried", "let go of", "followed", "other type")


@dataclass(frozen=True)
class Grouped:
    """A model: columns over the groups of an input; its first column is the key."""

    name: str
    source: str
    key: str
    columns: tuple[tuple[str, str], ...]
    where: str = ""
    spaces: str = " "
    header: str = ""
    old_name: str = ""
    options: str = ""

    @property
    def query(self) -> str:
        items = ", ".join((self.key, *(f"{text} AS {name}" for name, text in self.columns)))
        return f"SELECT {items}{self.spaces}FROM {self.source}{self.where} GROUP BY {self.key}"

    @property
    def text(self) -> str:
        renamed = f"-- renamed from: {self.old_name}\n" if self.old_name else ""
        return f"{renamed}{self.header}CREATE MATERIALIZED VIEW {self.name}{self.options} AS {self.query};\n"


@dataclass
class Project:
    """Models by name, inputs first: `one` over a table, `two` over `one`, `three` over `two`, and `alone`."""

    rng: random.Random
    models: dict[str, Grouped] = field(default_factory=dict)

    def make(self) -> Project:
        """Add the models that there are at first."""
        for name, source in (("one", "t"), ("two", "one"), ("three", "two"), ("alone", "u")):
            columns = tuple((f"c{n}", self.choose(source)) for n in range(self.rng.randint(1, 3)))
            self.models[name] = Grouped(name, source, self.find_key(source), columns)
        return self

    def find_key(self, source: str) -> str:
        return "a" if source in INPUTS else self.models[source].key

    def choose(self, source: str) -> str:
        text = self.rng.choice(EXPRESSIONS)
        other = "b" if source in INPUTS else self.rng.choice(self.models[source].columns)[0]
        return text.replace("b", other, 1) if "(b)" in text else text.replace(" b)", f" {other})")

    def change(self, name: str, kind: str) -> bool:
        """Change a model; returns whether that kind of change is one."""
        rng, old = self.rng, self.models[name]
        new = old
        if kind == "cosmetic":
            new = replace(old, spaces=rng.choice(("\n ", "  /* here */  ")))
        elif kind == "options":
            new = replace(old, options=" WITH (parallelism = '2')")
        elif kind == "filter":
            new = replace(old, where=f" WHERE {old.key} > {rng.randrange(3)}")
        elif kind == "more":
            at = rng.randint(0, len(old.columns))
            new = replace(
                old, columns=(*old.columns[:at], ("more", self.choose(old.source)), *old.columns[at:])
            )
        elif kind == "fewer" and len(old.columns) > 1:
            new = replace(old, columns=old.columns[1:])
        elif kind == "other name":
            new = replace(old, columns=(("other", old.columns[0][1]), *old.columns[1:]))
        elif kind == "other type":
            new = replace(
                old,
                columns=(
                    (old.columns[0][0], f"CAST({old.columns[0][1]} AS DECIMAL(30,1))"),
                    *old.columns[1:],
                ),
            )
        elif kind == "order":
            new = replace(old, columns=old.columns[::-1])
        elif kind == "key" and old.source in INPUTS:
            new = replace(old, key="id" if old.key == "a" else "a")
        elif kind == "input" and old.source in INPUTS:
            new = replace(old, source="u" if old.source == "t" else "t")
        elif kind == "renamed":
            new = replace(old, name=f"{name}_new", old_name=name)
        elif kind == "carried" and all("carried" not in dict(one.columns) for one in self.models.values()):
            new = replace(old, columns=(*old.columns, ("carried", self.choose(old.source))))
            self._carry(name)
        elif kind == "let go of" and len(old.columns) > 1 and self._let_go(name, old.columns[0][0]):
            new = replace(old, columns=old.columns[1:])
        elif kind == "followed":
            new = replace(old, columns=(("followed", old.columns[0][1]), *old.columns[1:]))
        self.models = {
            new.name if n == name else n: new if n == name else one for n, one in self.models.items()
        }
        self._follow(old, new)
        return new != old

    def _carry(self, name: str) -> None:
        """Let all that reads a model, nearer or farther, get its new column."""
        for reader, one in self.models.items():
            if one.source == name:
                self.models[reader] = replace(one, columns=(*one.columns, ("carried", "max(carried)")))
                self._carry(reader)

    def _let_go(self, name: str, column: str) -> bool:
        """Let all that reads a column of a model do without it; returns whether it can."""
        for reader, one in list(self.models.items()):
            left = tuple((n, text) for n, text in one.columns if not re.search(rf"\b{column}\b", text))
            if one.source != name or left == one.columns:
                continue
            gone = [n for n, text in one.columns if (n, text) not in left]
            if not left or not all(self._let_go(reader, n) for n in gone):
                return False
            self.models[reader] = replace(one, columns=left)
        return True

    def _follow(self, old: Grouped, new: Grouped) -> None:
        """Let what reads a model read it by its new name, and by the new name of a column."""
        for name, one in self.models.items():
            if one.source == old.name:
                first = rf"\b{old.columns[0][0]}\b"
                columns = tuple((n, re.sub(first, "followed", text)) for n, text in one.columns)
                has_other = new.columns[0][0] == "followed"
                self.models[name] = replace(
                    one, source=new.name, columns=columns if has_other else one.columns
                )

    def write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for file in folder.glob("*.sql"):
            file.unlink()
        (folder / "tables.sql").write_text(TABLES)
        for name, model in self.models.items():
            (folder / f"{name}.sql").write_text(model.text)


@dataclass
class Watcher:
    """A second process that reads all views after each commit: each is the old one, or the new one."""

    other: Session
    names: tuple[str, ...]
    known: dict[str, list[object]]
    missing: set[str] = field(default_factory=set)

    def look(self, number: int) -> None:
        for name in self.names:
            try:
                seen = show(self.other, name)
            except (SqlError, EpochFailed):
                self.missing.add(name)
                continue
            assert seen in self.known[name], (
                f"commit {number}: {name} is neither the old view nor the new one: {seen}"
            )


def show(session: Session, name: str) -> object:
    """Return the columns of a view, and its rows in order."""
    found = session.sql(f"SELECT * FROM {name}")
    assert found is not None
    return found.column_names, sorted(
        repr(tuple(map(float_or_none, row.values()))) for row in found.to_pylist()
    )


def float_or_none(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def compute(session: Session, models: dict[str, Grouped]) -> dict[str, object]:
    """Return what DuckDB makes of models over the rows of the tables; of one that it refuses, nothing."""
    found: dict[str, object] = {}
    with duckdb.connect() as judge:
        for name in INPUTS:
            judge.register(name, session.sql(f"SELECT * FROM {name}"))
        for name, model in models.items():
            try:
                judge.execute(f"CREATE VIEW {name} AS {model.query}")
                rows = judge.execute(f"SELECT * FROM {name}").fetchall()
            except duckdb.Error:
                continue
            columns = [model.key, *(column for column, _ in model.columns)]
            found[name] = columns, sorted(repr(tuple(map(float_or_none, row))) for row in rows)
    return found


def mix(old: dict[str, Grouped], new: dict[str, Grouped], plan: ChangePlan) -> dict[str, Grouped]:
    """Return the models that the store has after a sync: of those that were refused the old ones."""
    refused = {change.name for change in plan.refused}
    changed = {model.old_name or name: model for name, model in new.items()}
    kept: list[Grouped] = []
    names: dict[str, str] = {}
    for name, model in old.items():
        after = changed.get(name, model)
        kept.append(model if not refused.isdisjoint((name, after.name)) else after)
        names[name] = kept[-1].name
    return {model.name: replace(model, source=names.get(model.source, model.source)) for model in kept}


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 300, *range(100, 200)])
def test_a_random_change_of_a_project_does_what_its_plan_says(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    project, folder = Project(rng).make(), tmp_path / "assets"
    with Session((tmp_path / "store").as_uri(), spark) as session:
        project.write(folder)
        assert not sync_models(session, load_models(folder)).errors
        for name in INPUTS:
            values = (
                f"({n}, {rng.randrange(4)}, {rng.choice(['NULL', *map(str, range(9))])})" for n in range(12)
            )
            session.sql(f"INSERT INTO {name} VALUES {', '.join(values)}")
        session.flush().raise_for_errors()
        old = dict(project.models)
        before = compute(session, old)
        changes: list[tuple[str, str]] = []
        while len(changes) < 1 + seed % 2:
            through = (
                seed >= 300 and not changes
            )  # a column comes, goes, or gets another name or type in all of a chain
            name = "one" if through else rng.choice([*project.models])
            kind = rng.choice(THROUGH) if through else rng.choice(KINDS)
            changes += [(name, kind)] if project.change(name, kind) else []
        project.write(folder)
        models = load_models(folder)
        plan = plan_models(session, models)
        final = mix(old, project.models, plan)
        after = compute(session, final)
        assert after.keys() == {model.name for model in final.values()}
        renamed = {model.name: model.old_name for model in project.models.values() if model.old_name}
        known = {
            name: [one[key] for one, key in ((before, renamed.get(name, name)), (after, name)) if key in one]
            for name in after
        }
        with Session(session.url, spark) as other:
            watcher, number, commit = Watcher(other, tuple(after), known), 0, Hummock.commit

            def look(store: Hummock, made: Commit) -> Version:
                nonlocal number
                version, number = commit(store, made), number + 1
                with monkeypatch.context() as inner:
                    inner.setattr(Hummock, "commit", commit)
                    watcher.look(number)
                return version

            with monkeypatch.context() as patch:
                patch.setattr(Hummock, "commit", look)
                report = sync_models(session, models)
                for _ in range(6):
                    session.flush().raise_for_errors()
        said = {one.name: one.work for one in plan.changes if one.is_planned and one.change != "refused"}
        assert said == {name: one.work for name, one in report.changes.items() if one.work != "nothing"}, (
            changes
        )
        assert {one.name for one in plan.refused} == set(report.errors), changes
        assert not list_successions(session.store.version)
        anew = {name for name, work in said.items() if work in ("rebuild", "create", "rename")}
        assert watcher.missing <= anew, changes
        assert {name: show(session, name) for name in after} == after, changes
        session.sql("UPDATE t SET b = coalesce(b, 0) + 1, a = (a + 1) % 4 WHERE id % 3 = 0")
        session.sql("DELETE FROM u WHERE id % 4 = 1")
        session.flush().raise_for_errors()
        now = compute(session, final)
        assert {name: show(session, name) for name in now} == now, changes
        again = plan_models(session, models)
        assert not [one for one in again.changes if one.is_planned and one.change != "refused"], changes
