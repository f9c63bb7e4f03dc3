"""The changes of a table as rows: the plan of the state that holds them, numbered in their order."""

from __future__ import annotations

from engine.sql.expression.change_columns import INSERTED, OPERATION, PART, ROW
from engine.sql.expression.nodes import Call, Cast, Column, Expr, Literal
from engine.sql.incremental.states.table_columns import sanitize_names
from engine.sql.plan import Over, Project, Scan
from engine.sql.window_calls import SortKey, WindowCall

KEY = (PART, ROW)
_NUMBER = "_changelog_number"


def build_changelog_plan(scan: Scan) -> tuple[Project, dict[str, str]]:
    """Return the plan of the state of a table's changes, and by column of `scan` that of the state.

    The plan gives the first content: each row that stands is one that came. All are one part, in which they are numbered.
    """
    visible = [item for item in scan.items if item[1] not in (ROW, OPERATION)]
    known = {column: name for name, column in visible}
    added = [(f"{PART}:{column}", column) for column in scan.primary_key if column not in known]
    rows = Scan(scan.table, (*visible, *added), scan.primary_key, scan.distribution_key)
    order = tuple(SortKey(column) for column in rows.key)
    numbered = Over(rows, (), (WindowCall(_NUMBER, Call("row_number", ()), order),))
    names = sanitize_names(tuple(name for name, _ in visible), (PART, ROW, OPERATION))
    items: list[tuple[str, Expr]] = [
        (PART, Cast(Literal("0", "int"), "int")),
        (ROW, Cast(Column(_NUMBER), "bigint")),
        (OPERATION, Cast(Literal(str(INSERTED), "int"), "smallint")),
        *((names[name], Column(name)) for name, _ in visible),
        *((f"_key_{n}", Column(name)) for n, (name, _) in enumerate(added)),
    ]
    by = names | {name: column for name, column in scan.items if column in (ROW, OPERATION)}
    return Project(numbered, tuple(items)), by
