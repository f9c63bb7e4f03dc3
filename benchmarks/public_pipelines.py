"""Projects of Spark Declarative Pipelines, kept by Tideline and run by Spark's own `spark-pipelines run`: are they equal?

`python -m benchmarks.public_pipelines SPEC … --tables DDL.sql [--input csv:data/orders=orders …]
[--folder DIR] [--stand-for raw_events=events …] [--leave-out silver.at …] [--rounds 5] [--rows 40] [--seed 1]
[--full-refresh-all | --refresh a,b]`

The projects are public ones, fetched by you; no file of theirs is changed. `benchmarks/pipelines` has the tables for some. A file
of tables has CREATE TABLE statements, and INSERTs of example rows by which random ones are drawn: keys are new, numbers and times
are near to those of the examples, all else is one of theirs. Each round adds rows to all tables, and changes and deletes some of
those that have a key. Tables that are APPEND ONLY only grow.

Spark starts in `--folder`, by default that of the first spec: paths that are relative are so to it.

`--input` says where Spark finds a table's rows: as files of a format at a path that the project reads (`csv:`, `json:`,
`parquet:`; a stream gets new files), or as a table of its catalog (`table:raw.orders`). These are written
in each round. Tideline takes the table for that path, or that name. `--stand-for` names a dataset that Spark makes itself, by
random numbers, the clock or its own reader: what Spark has made of it is landed in the table, after Spark's run. `--leave-out`
names columns that a dataset is kept and compared without.

`spark-pipelines run` is run as a process in each round, by Spark Connect, on the Spark in this process. Its catalog and its
warehouse are of this run alone; streams keep their checkpoints where the spec says. Then Tideline flushes, and every dataset that
was taken is compared: names, types and order of columns, and rows as a bag, floats to 1e-9 of their value. Exit status 1: a
dataset differs, fails, or is computed in full again; 2: Spark refuses the project.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.pipelines import cli
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.example_rows import Pools
from dagster_tideline import PipelineProject, sync_models
from dagster_tideline.models.loader import Model
from dagster_tideline.models.node_readings import NodeReading, refuse_nodes
from dagster_tideline.pipelines.project import list_known_tables, read_pipeline_models
from dagster_tideline.services import find_free_port
from engine.errors import TidelineError
from engine.pipelines.names import split_name
from engine.pipelines.spec import PipelineSpec, read_spec
from engine.runtime.spark.connect import LOOPBACK, TOKEN_VARIABLE
from engine.runtime.spark.driver import start_driver
from engine.session import Session
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.reader import split_statements
from tests.oracle.batch import assert_equal, content

CHANGED, DELETED = 0.15, 0.08
"""How many rows of a table change, and go, in a round."""
RUN_SECONDS = 600
LANDED = "table that you land"
console = Console(width=140 if not sys.stdout.isatty() else None)


class SparkRefuses(Exception):
    """`spark-pipelines run` has failed; the message is the end of what it says."""


@dataclass(frozen=True)
class Input:
    """Where Spark finds the rows of a table: files of the format `form` at a place, or a table of its catalog."""

    form: str
    place: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Input:
        """Read `form:place=table`."""
        left, _, table = text.rpartition("=")
        form, _, place = left.partition(":")
        if not (form and place and table):
            raise SystemExit(f"{text} is no input: write csv:data/orders=orders, or table:raw.orders=orders")
        return cls(form, place, table)


@dataclass
class Comparison:
    """A dataset: what became of it, how many rows Spark has of it, and in which rounds it was equal; `problems` say where not."""

    name: str
    kind: str
    taken: str
    reason: str
    rows: int = 0
    equal: int = 0
    problems: list[str] = field(default_factory=list)


class Landing:
    """The tables of a store that a pipeline reads, and the same rows where Spark finds them."""

    def __init__(
        self,
        session: Session,
        spark: SparkSession,
        statements: Sequence[str],
        inputs: Sequence[Input],
    ) -> None:
        self.session, self.spark, self.inputs = session, spark, inputs
        for statement in statements:
            session.sql(statement)
        self.tables = {name: one for name, one in session.catalog.relations.items() if one.kind == "table"}
        self._new: dict[str, pa.Table] = {}
        self._next = 0

    def change(self, pools: Pools, rows: int) -> None:
        """Add rows to the tables that are inputs, and change and delete others where a key says which."""
        for name in {one.table: None for one in self.inputs}:
            relation = self.tables[name]
            if relation.primary_key and not relation.append_only:
                before = content(self.session, name)
                changed = pools.choose(before, CHANGED)
                keys = [c.name for c in relation.visible_columns if c.storage_name in relation.primary_key]
                others = pools.draw(relation, changed.num_rows, 0)
                for key in keys:
                    others = others.set_column(
                        others.column_names.index(key), others.schema.field(key), changed[key]
                    )
                self.session.write(name, others)
                self.session.write(name, pools.choose(before, DELETED).select(keys), mode="delete")
            self._new[name] = pools.draw(relation, rows, self._next)
            self.session.write(name, self._new[name], mode="insert")
            self._next += rows

    def hand_over(self) -> None:
        """Write the rows of the tables where Spark reads them; what only grows gets what is new."""
        for one in self.inputs:
            grows = self.tables[one.table].append_only
            rows = self._new.get(one.table) if grows else None
            frame = self.spark.createDataFrame(content(self.session, one.table) if rows is None else rows)
            writer = frame.coalesce(1).write.mode("append" if grows else "overwrite")
            if one.form == "table":
                writer.saveAsTable(one.place)
            else:
                writer.option("header", "true").format(one.form).save(f"file://{Path(one.place).absolute()}")

    def replace(self, table: str, rows: pa.Table) -> None:
        """Put rows that Spark has made in the place of those of a table."""
        self.session.sql(f"DELETE FROM {quote(table)}")
        self.session.write(table, rows.cast(content(self.session, table).schema), mode="insert")


class PipelineRun:
    """One project: its views in a store, its tables in Spark, and the comparison of the two."""

    def __init__(self, spec: Path, given: argparse.Namespace, spark: SparkSession, address: str) -> None:
        self.spec, self.given, self.spark, self.address = spec, given, spark, address
        self.read: PipelineSpec = read_spec(spec)
        self.stand_ins = dict(text.split("=", 1) for text in given.stand_for)
        self.inputs = [Input.parse(text) for text in given.input]

    def compare(self, folder: Path) -> list[Comparison]:
        """Run all rounds and return what became of each dataset; raises SparkRefuses if Spark does not take the project."""
        for name in {
            self.read.database,
            *(n.rpartition(".")[0] for n in (*self._list_names(), *self.stand_ins)),
        }:
            if name:
                self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {name}")
        with Session((folder / uuid.uuid4().hex).as_uri(), self.spark) as session:
            statements = split_statements(self.given.tables.read_text(), "spark")
            landing = Landing(session, self.spark, statements, self.inputs)
            examples = {name: content(session, name) for name in landing.tables}
            pools = Pools(examples, np.random.default_rng(self.given.seed))
            found: dict[str, Comparison] = {}
            for number in range(self.given.rounds):
                if number:
                    landing.change(pools, self.given.rows)
                landing.hand_over()
                self._run_spark()
                for dataset, table in self.stand_ins.items():
                    landing.replace(table, self._read_spark(dataset))
                if not number:
                    models, nodes = self._make_views(session)
                    found = {
                        n.relation or n.unique_id: Comparison(n.name, n.kind, n.taken, n.reason)
                        for n in nodes
                    }
                report = session.flush()
                failed = {view.view: view.error for view in report.failed}
                full = {view.view: view.rebuilt for view in report.views if view.rebuilt and number}
                for model in models:
                    dataset, kind = model.metadata["pipelines/dataset"], model.metadata["pipelines/kind"]
                    self._judge(session, model, found[model.name], str(dataset), f"round {number + 1}")
                    if kind != "temporary view" and (
                        problem := failed.get(model.name) or full.get(model.name)
                    ):
                        found[model.name].problems.append(f"round {number + 1}: {problem}")
        return list(found.values())

    def _list_names(self) -> list[str]:
        return [one.place for one in self.inputs if one.form == "table"] + list(self.given.database)

    def _make_views(self, session: Session) -> tuple[list[Model], Sequence[NodeReading]]:
        """Make the views of the project; return the models and what became of the elements."""
        tables = {one.place: one.table for one in self.inputs} | self.stand_ins
        known = list_known_tables(session.catalog.relations)
        reading = read_pipeline_models(
            PipelineProject(spec=self.spec, tables=tables, leave_out=tuple(self.given.leave_out)), known
        )
        refused = sync_models(session, reading.models).errors
        return list(reading.models), refuse_nodes(reading.nodes, refused)

    def _judge(self, session: Session, model: Model, found: Comparison, dataset: str, label: str) -> None:
        """Compare a view with Spark's table."""
        if found.kind == "temporary view":
            return
        expected = self._read_spark(dataset)
        left = [text.rpartition(".")[2] for text in self.given.leave_out if text.startswith(f"{dataset}.")]
        expected = expected.drop_columns(left)
        found.rows = expected.num_rows
        if not found.taken:
            return
        mine = content(session, model.name)
        pairs = [[(one.name, one.type) for one in rows.schema] for rows in (mine, expected)]
        if pairs[0] != pairs[1]:
            found.problems.append(f"{label}: its columns are {pairs[0]}, Spark's {pairs[1]}")
            return
        try:
            assert_equal(mine, expected, label)
        except AssertionError as error:
            found.problems.append(str(error)[:600])
        else:
            found.equal += 1

    def _run_spark(self) -> None:
        """Run `spark-pipelines run`."""
        options = ["--full-refresh-all"] if self.given.full_refresh_all else []
        options += ["--refresh", self.given.refresh] if self.given.refresh else []
        done = subprocess.run(
            [sys.executable, cli.__file__, "run", "--spec", str(self.spec), *options],
            env={**os.environ, "SPARK_REMOTE": self.address},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )
        if done.returncode:
            raise SparkRefuses("\n".join((done.stdout + done.stderr).splitlines()[-12:]))

    def _read_spark(self, dataset: str) -> pa.Table:
        """Return the rows of a dataset as Spark has them."""
        parts = split_name(dataset)
        parts = (*(self.read.catalog, self.read.database)[: max(3 - len(parts), 0)], *parts)
        name = ".".join(map(quote, parts))
        return self.spark.newSession().table(name).toArrow()  # another session has listed the files before


def start_spark(folder: Path) -> tuple[SparkSession, str]:
    """Start a Spark with a warehouse of its own that serves Spark Connect on loopback, and return its address, too."""
    os.environ[TOKEN_VARIABLE] = secrets.token_urlsafe(32)
    port = find_free_port()
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    return start_driver("local[2]", settings), f"sc://localhost:{port}"


def print_comparisons(spec: Path, found: Sequence[Comparison], rounds: int) -> None:
    """Print a line for each element of a project."""
    table = Table("dataset", "kind", "taken as", "rows", "equal", title=str(spec))
    for one in found:
        compared = one.taken and one.taken not in (LANDED, "view")
        equal = f"{one.equal} of {rounds} rounds" if compared else ""
        table.add_row(
            one.name, one.kind, one.taken or f"not: {one.reason}", f"{one.rows:,}" if one.rows else "", equal
        )
    console.print(table)
    for one in found:
        for problem in one.problems:
            console.print(f"{one.name}, {problem}", style="red")


def main() -> int:
    """Run, print and judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.public_pipelines", description=__doc__.split("\n")[0])
    parser.add_argument("spec", type=Path, nargs="+")
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--stand-for", action="append", default=[])
    parser.add_argument("--leave-out", action="append", default=[])
    parser.add_argument("--database", action="append", default=[], help="a database that datasets are in")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--full-refresh-all", action="store_true")
    parser.add_argument("--refresh", default="")
    given = parser.parse_args()
    status = 0
    given.tables, specs = given.tables.resolve(), [spec.resolve() for spec in given.spec]
    os.chdir(given.folder or specs[0].parent)
    with tempfile.TemporaryDirectory(prefix="tideline-pipelines-") as home:
        spark, address = start_spark(Path(home))
        for spec in specs:
            try:
                found = PipelineRun(spec, given, spark, address).compare(Path(home))
            except (SparkRefuses, TidelineError) as error:
                console.print(f"{spec}: {error}", style="red")
                status = 2
                continue
            print_comparisons(spec, found, given.rounds)
            status = status or int(any(one.problems for one in found))
        spark.stop()
    return status


if __name__ == "__main__":
    sys.exit(main())
