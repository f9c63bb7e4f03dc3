"""Public dbt projects as they are: their models as views, compared with what dbt computes in DuckDB after rounds of changes.

`python -m benchmarks.public_dbt FOLDER … [--select WORDS] [--dbt PROGRAM] [--packages FOLDER] [--tables FILE] [--rows 500]
[--rounds 5] [--seed 1]`

FOLDER is that of a `dbt_project.yml`; none of its files is changed. dbt-core and dbt-duckdb are not among the packages of the
repository: `--dbt` is the program of another environment. `--packages` has a folder for each dbt package that the project lists.

The project is copied, and compiled with a profile for DuckDB. The tables of its sources and seeds get the rows of the CSV file
of their name anywhere in the project. Those without one get random rows by `--tables`, statements CREATE TABLE (default:
`public_dbt.sql` beside this program). The same rows are written into Tideline, whose views are those models that it takes. A
round inserts, updates and deletes a hundredth of the rows of each table in both, three at least of each kind, and `dbt run
--full-refresh` computes all models again. Then each view is compared with dbt's table as a bag of rows: floats to 1e-9 of their
value, everything else exactly.

Where a view differs, dbt runs again with the rows of the tables in other orders. Columns for which dbt then gives other
values (such as a row_number() among equal rows) are left out, and told. Models that read the clock, or read such models, are told
and not compared. Tests are not taken: random changes would break them. Exit status 1: a view differs, or could not be kept.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot
from rich.console import Console
from rich.table import Table
from sqlglot import exp

from benchmarks.dbt_warehouse import Warehouse, load_tables
from dagster_tideline import DbtProject, sync_models
from dagster_tideline.dbt.manifest import read_manifest
from dagster_tideline.dbt.project import read_project
from dagster_tideline.dbt.relations import build_names
from dagster_tideline.models.node_readings import NodeReading, refuse_nodes
from engine.session import Session
from tests.oracle.batch import assert_equal, content

OTHER_ORDERS = 4
CLOCK = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand, exp.Uuid)
CLOCK_NAMES = {
    "now",
    "today",
    "random",
    "uuid",
    "get_current_timestamp",
    "get_current_time",
    "localtimestamp",
}
console = Console(width=150)


@dataclass
class Model:
    """A model of a project: as what it is taken, and how its rows compared with dbt's."""

    reading: NodeReading
    rows: int = 0
    equal: list[bool] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    rebuilt: int = 0
    """In how many rounds the view was computed as a whole."""
    note: str = ""

    @property
    def is_wrong(self) -> bool:
        """Tell whether rows differed from dbt's."""
        return not all(self.equal)


def find_clock_readers(nodes: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the models whose rows depend on the time, or on chance, and those that read them; nodes come inputs first."""
    found: set[str] = set()
    for key, node in nodes.items():
        try:
            tree = sqlglot.parse_one(node.get("compiled_code") or "SELECT 1", read="duckdb")
        except sqlglot.errors.SqlglotError:
            continue
        words = {one.name.lower() for one in tree.find_all(exp.Anonymous)}
        if tree.find(*CLOCK) is not None or words & CLOCK_NAMES:
            found.add(key)
    while more := {key for key, one in nodes.items() if found & set(one["depends_on"]["nodes"])} - found:
        found |= more
    return found


def find_difference(found: pa.Table, wanted: pa.Table, without: Iterable[str] = ()) -> str:
    """Return how two contents differ in the columns that are not left out; empty if they do not."""
    if [name.lower() for name in found.column_names] != [name.lower() for name in wanted.column_names]:
        return f"columns {found.column_names}, and dbt's are {wanted.column_names}"
    places = [at for at, name in enumerate(wanted.column_names) if name not in set(without)]
    try:
        assert_equal(found.select(places), wanted.select(places), "rows")
    except AssertionError as error:
        return " ".join(str(error).split())[:600]
    return ""


def find_loose_columns(wanted: pa.Table, others: Sequence[pa.Table]) -> set[str]:
    """Return the columns to leave out so that the rest is the same in all answers of dbt."""
    kept: list[int] = []
    for at in range(wanted.num_columns):
        some = [*kept, at]
        if not any(find_difference(one.select(some), wanted.select(some)) for one in others):
            kept = some
    return {name for at, name in enumerate(wanted.column_names) if at not in kept}


class Trial:
    """One project in dbt and in Tideline, over the same tables."""

    def __init__(self, project: Path, folder: Path, arguments: argparse.Namespace) -> None:
        self.draw, self.folder = random.Random(arguments.seed), folder
        self.warehouse = Warehouse(project, folder, arguments)
        self.tables = load_tables(self.warehouse, self.draw)
        self.warehouse.write(self.tables)
        self.warehouse.run()
        manifest = self.warehouse.compile()
        names = build_names(read_manifest(manifest), {}).names
        for table in self.tables:
            table.name = names[table.name]
        leave = ("resource_type:seed", "resource_type:test")
        chosen = DbtProject(
            manifest=manifest, project=self.warehouse.project, select=tuple(arguments.select), exclude=leave
        )
        self.reading = read_project(chosen)
        nodes = json.loads(manifest.read_text())["nodes"]
        own = [one.unique_id for one in self.reading.nodes if one.kind.startswith("model")]
        self.nodes = {key: nodes[key] for key in own if nodes[key]["config"]["materialized"] != "ephemeral"}
        self.models: dict[str, Model] = {}

    def create(self, session: Session) -> None:
        """Create the tables with their rows, and the views of all models that are taken."""
        for table in self.tables:
            session.sql(table.render_ddl())
            session.write(table.name, table.as_arrow(table.rows), "insert")
        errors = sync_models(session, self.reading.models).errors
        readings = {one.unique_id: one for one in refuse_nodes(self.reading.nodes, errors)}
        clock = find_clock_readers(self.nodes)
        for key in self.nodes:
            one = Model(readings[key])
            if key in self.warehouse.failed:
                one.note = f"dbt: {self.warehouse.failed[key]}"
            elif one.reading.taken and key in clock:
                one.note = "reads the clock: not compared"
            self.models[key] = one

    def change(self, session: Session) -> None:
        """Change the rows of all tables in both."""
        for table in self.tables:
            upserts, gone = table.change(self.draw)
            if gone:
                session.write(table.name, table.as_arrow(gone), "delete")
            session.write(table.name, table.as_arrow(upserts), "upsert" if table.key else "insert")
        self.warehouse.write(self.tables)
        self.warehouse.run()

    def compare(self, session: Session) -> None:
        """Bring all views up to date, and compare them with what dbt has computed."""
        report = session.flush()
        failed = {one.view: one.error for one in report.failed}
        rebuilt = {one.view for one in report.views if one.rebuilt}
        wanted = self.warehouse.read(self.nodes)
        open_ones = {key: one for key, one in self.models.items() if one.reading.taken and not one.note}
        found, differences = {}, {}
        for key, one in open_ones.items():
            found[key] = content(session, f"`{one.reading.relation}`")
            one.rows = found[key].num_rows
            one.rebuilt += bool(one.equal) and one.reading.relation in rebuilt
            why = str(failed.get(one.reading.relation) or "") or find_difference(
                found[key], wanted[key], one.left_out
            )
            if why:
                differences[key] = why
        if differences:
            others = list(self.ask_again(differences))
            for key in list(differences):
                one = open_ones[key]
                one.left_out |= find_loose_columns(wanted[key], [other[key] for other in others])
                differences[key] = find_difference(found[key], wanted[key], one.left_out)
        for key, one in open_ones.items():
            one.equal.append(not differences.get(key))
            if differences.get(key):
                console.print(f"{one.reading.name} differs: {differences[key]}", style="red", markup=False)

    def ask_again(self, models: Iterable[str]) -> Iterator[dict[str, pa.Table]]:
        """Yield what dbt computes for models from the same rows in other orders."""
        for n in range(OTHER_ORDERS):
            self.warehouse.write(self.tables, random.Random(n))
            self.warehouse.run()
            yield self.warehouse.read({key: self.nodes[key] for key in models})

    def show(self) -> str:
        """Print a row for each model, and return what came out in a line."""
        table = Table(
            "model",
            "kind",
            "taken as, or why not",
            "rows",
            "equal to dbt's",
            title=self.warehouse.project.name,
        )
        for one in self.models.values():
            equal = f"{sum(one.equal)} of {len(one.equal)}" if one.equal else ""
            if one.left_out:
                equal += f", without {', '.join(sorted(one.left_out))}"
            told = one.note or one.reading.taken or one.reading.reason
            kind = one.reading.kind.removeprefix("model, ")
            table.add_row(one.reading.name, kind, told, f"{one.rows:,}" if one.equal else "", equal)
        console.print(table)
        for reading in self.reading.nodes:
            if not reading.kind.startswith("model") and not reading.taken:
                console.print(f"{reading.kind} {reading.name}: {reading.reason}", markup=False)
        models = list(self.models.values())
        taken = [one for one in models if one.reading.taken]
        right = [one for one in taken if one.equal and not one.is_wrong]
        parts = [one for one in right if one.left_out]
        return (
            f"{self.warehouse.project.name}: {len(models)} models, {len(taken)} taken, {len(models) - len(taken)} not; "
            f"{len(right)} equal in all rounds, {len(parts)} of them without columns that dbt's answers differ in; "
            f"{sum(one.is_wrong for one in models)} wrong; "
            f"{sum(one.rebuilt for one in models)} times a view was computed as a whole"
        )


def main() -> int:
    """Try each project, and print what came out."""
    parser = argparse.ArgumentParser(prog="benchmarks.public_dbt", description=__doc__.split("\n")[0])
    parser.add_argument("projects", type=Path, nargs="+")
    parser.add_argument("--select", action="append", default=[])
    parser.add_argument("--dbt", type=Path, default=Path("dbt"))
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--tables", type=Path, default=Path(__file__).with_suffix(".sql"))
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    lines, bad = [], False
    for project in arguments.projects:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(project.resolve(), Path(folder), arguments)
            with Session((Path(folder) / "store").as_uri(), "local[2]") as session:
                trial.create(session)
                trial.compare(session)
                for _ in range(arguments.rounds):
                    trial.change(session)
                    trial.compare(session)
            lines.append(trial.show())
            bad |= any(one.is_wrong for one in trial.models.values())
    for line in lines:
        console.print(line, markup=False)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
