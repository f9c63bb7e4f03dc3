"""Which calls of functions in Python no join can have: Spark calls none over pairs of rows that may have no partner."""

from __future__ import annotations

from engine.errors import UnsupportedSql
from engine.python_functions.definition import find_known
from engine.sql.expression.nodes import Call, walk
from engine.sql.plan import Join, Node, list_nodes

_WORDS = {"left": "an outer join", "semi": "EXISTS or IN", "anti": "NOT EXISTS or NOT IN"}


def check_python_joins(plan: Node, sql: str) -> None:
    """Raise UnsupportedSql, with the place, for a function of both sides in the condition of a join that is no inner one."""
    for join in (node for node in list_nodes(plan) if isinstance(node, Join)):
        if join.kind == "inner" or join.residual is None:
            continue
        sides = [frozenset(side.columns) for side in (join.left, join.right)]
        for part in walk(join.residual):
            function = find_known(part.function) if isinstance(part, Call) else None
            if function is None or not all(side.intersection(part.columns) for side in sides):
                continue
            line, column = join.residual.position
            raise UnsupportedSql(
                f"function {function.name} of columns of both sides in the condition of {_WORDS[join.kind]} is not offered",
                sql=sql,
                line=line or 1,
                column=column or 1,
                hint="call it in a view over the inner join, and join that by its key; a function of one side may stand there",
            )
