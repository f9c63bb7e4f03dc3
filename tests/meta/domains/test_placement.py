"""What a view's options make of its tables: retention at once, the parallelism by the domain's next barrier."""

from __future__ import annotations

from pathlib import Path

from engine.hummock import TableOptions
from engine.runtime.statements.alter.alter import run_alter
from engine.sql.catalog import watermark_name
from engine.sql.statements import reader as st
from tests.contexts import build_context
from tests.crash.program.event_verbs import EVENTS
from tests.crash.program.steps import Program
from tests.crash.tables import TABLES


def test_retention_and_parallelism_become_options_of_the_tables(tmp_path: Path) -> None:
    program = Program(1, tmp_path, steps=0)
    program.objects.plan.rate = 0.0
    program._write()
    text = "SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM a GROUP BY g) q GROUP BY n"
    program._commit_view("v", text, {"retention": "2 days", "parallelism": "3"})
    program.flusher.run()

    sources = (*TABLES, EVENTS, watermark_name(EVENTS))

    def options() -> dict[str, TableOptions]:
        tables = program.store.refresh().tables
        return {name: tables[name].table.options for name in tables if name not in sources}

    found = options()
    assert len(found) == 2 and all(o.vnode_groups == 3 for o in found.values())
    assert {name: o.retention_seconds for name, o in found.items() if o.retention_seconds} == {"v": 172_800.0}
    for change in ("SET retention = '1 hour'", "SET PARALLELISM = 400"):
        statement = st.parse_statement(f"ALTER MATERIALIZED VIEW v {change}", "spark")
        run_alter(statement, build_context(program.store))  # type: ignore[arg-type]
    assert options()["v"].retention_seconds == 3600.0 and options()["v"].vnode_groups == 3
    program.flusher.run()
    assert all(o.vnode_groups == 256 for o in options().values())
