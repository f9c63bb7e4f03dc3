"""The certain types of columns in a query that is not bound: what Postgres' rules need to know before Spark sees it."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog, Relation, is_named_index
from engine.sql.parsing.names import item_name, normalize_identifier
from engine.sql.typing.expression_types import find_widest_type, infer_exact_type
from engine.sql.typing.types import element_type, field_names, field_type

ViewQuery = Callable[[Relation], exp.Query]
"""Gives the query of a plain view, as it was parsed in the view's dialect."""
Columns = list[tuple[str, str | None]]


class QueryTypes:
    """Types of expressions by the SELECT in which they stand; None is said wherever a name may mean several things."""

    def __init__(self, tree: exp.Expr, catalog: Catalog, view_query: ViewQuery | None = None) -> None:
        self.catalog, self.view_query = catalog, view_query
        self.items: dict[str, list[exp.CTE]] = {}
        for cte in tree.find_all(exp.CTE):
            self.items.setdefault(item_name(cte), []).append(cte)
        self._types: dict[int, dict[str, str]] = {}
        self._hidden: set[str] = set()
        for select in list(tree.find_all(exp.Select)):
            self._collect_types(select)

    def infer_type(self, part: exp.Expr) -> str | None:
        """Return the certain type of an expression."""
        select = part.find_ancestor(exp.Select)
        return infer_exact_type(part, self._types.get(id(select), {}))

    def list_names(self, query: exp.Expr) -> list[str] | None:
        """Return the names of the columns that a query shows, in lower case, or None if they are not known."""
        found = self._list_outputs(query, None)
        return None if found is None else [name.lower() for name, _ in found]

    def list_types(self, query: exp.Expr) -> list[str | None] | None:
        """Return the certain types of the columns that a query shows, or None if the columns are not known."""
        found = self._list_outputs(query, None)
        return None if found is None else [kind for _, kind in found]

    def has_column(self, select: exp.Select, name: str) -> bool:
        """Tell whether FROM of a SELECT certainly shows a column of this name."""
        return any(known.lower() == name.lower() for known, _ in self._list_visible(select) or ())

    def _collect_types(self, select: exp.Select) -> dict[str, str]:
        if id(select) not in self._types:
            self._types[id(select)] = {}  # a WITH item that reads itself knows nothing of itself
            columns = self._list_visible(select)
            kinds: dict[str, set[str | None]] = {}
            for name, kind in columns or ():
                kinds.setdefault(name, set()).add(kind)
            known = {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}
            self._types[id(select)] = {name: kind for name, kind in known.items() if kind is not None}
        return self._types[id(select)]

    def _list_visible(self, select: exp.Select) -> Columns | None:
        """Return the columns of everything in FROM, or None if those of some source are not known."""
        from_ = select.args.get("from_")
        sources = [from_.this] if from_ is not None else []
        found: Columns = []
        more = [join.this for join in select.args.get("joins") or ()]
        for source in [*sources, *more, *(select.args.get("laterals") or ())]:
            columns = self._list_source_columns(source, found)
            if columns is None:
                return None
            found += columns
        return found

    def _list_source_columns(self, source: exp.Expr, before: Columns) -> Columns | None:
        alias = source.args.get("alias")
        if isinstance(source.this, exp.Explode | exp.Inline) and isinstance(alias, exp.TableAlias):
            return _infer_function_columns(source.this, alias, dict(before))
        if isinstance(source, exp.Values):
            return _infer_values_columns(source)
        if isinstance(source, exp.Subquery):
            return self._list_outputs(source.this, alias)
        if isinstance(source, exp.Lateral | exp.Unnest) and isinstance(alias, exp.TableAlias):
            named = alias.args.get("columns") or ([alias.this] if alias.this is not None else [])
            return [(part.name.lower(), None) for part in named]
        if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
            return None
        name = normalize_identifier(source.this)
        if name in self.items and not self._is_inside_item(source, name):
            ctes = self.items[name]
            return self._list_outputs(ctes[0].this, ctes[0].args.get("alias")) if len(ctes) == 1 else None
        relation = self.catalog.relations.get(name)
        if relation is None or (alias is not None and alias.args.get("columns")):
            return None
        if is_named_index(relation):
            return [
                (column.name, column.visible_type or None)
                for column in self.catalog.list_index_columns(relation)
            ]
        if relation.kind == "view":
            return self._list_view_columns(relation)
        self._hidden |= {column.name for column in relation.columns if column.hidden}
        return [(column.name, column.visible_type or None) for column in relation.columns]

    def _list_view_columns(self, relation: Relation) -> Columns:
        """Return the columns of a plain view, with the types that its query gives them."""
        names = [column.name for column in relation.columns]
        query = self.view_query(relation) if self.view_query is not None else None
        kinds = None if query is None else QueryTypes(query, self.catalog, self.view_query).list_types(query)
        if kinds is None or len(kinds) != len(names):
            kinds = [None for _ in names]
        return list(zip(names, kinds, strict=True))

    @staticmethod
    def _is_inside_item(source: exp.Expr, name: str) -> bool:
        """Tell whether a table stands in the WITH item that has its name, where the name still means the table."""
        item = source.find_ancestor(exp.CTE)
        while item is not None and item_name(item) != name:
            item = item.find_ancestor(exp.CTE)
        return item is not None

    def _list_outputs(self, query: exp.Expr, alias: exp.TableAlias | None) -> Columns | None:
        if isinstance(query, exp.Subquery) and query.args.get("alias") is None:
            return self._list_outputs(query.this, alias)
        if isinstance(query, exp.SetOperation) and not query.args.get("by_name"):
            return self._merge_branches(query, alias)
        if not isinstance(query, exp.Select):
            return None
        types = self._collect_types(query)
        found: Columns = []
        for item in query.expressions:
            if item.is_star and isinstance(item, exp.Star | exp.Column):
                visible = self._list_visible(query)
                if visible is None or (isinstance(item, exp.Column) and query.args.get("joins")):
                    return None  # of several sources it may show one
                found += [column for column in visible if column[0] not in self._hidden]
            else:
                inner = item.this if isinstance(item, exp.Alias) else item
                found.append((item.alias_or_name.lower(), infer_exact_type(inner, types)))
        aliases = alias.args.get("columns") if alias is not None else None
        if aliases and len(aliases) == len(found):
            return [(part.name.lower(), kind) for part, (_, kind) in zip(aliases, found, strict=True)]
        return None if aliases else found

    def _merge_branches(self, query: exp.SetOperation, alias: exp.TableAlias | None) -> Columns | None:
        """Return the columns of a set operation: the names of its left side, the types in which both agree."""
        left, right = (self._list_outputs(side, None) for side in (query.this, query.expression))
        if left is None or right is None or len(left) != len(right):
            return None
        pairs = zip(left, right, strict=True)
        found = [(name, kind if kind == other else None) for (name, kind), (_, other) in pairs]
        aliases = alias.args.get("columns") if alias is not None else None
        if aliases and len(aliases) == len(found):
            return [(part.name.lower(), kind) for part, (_, kind) in zip(aliases, found, strict=True)]
        return None if aliases else found


def _infer_values_columns(source: exp.Values) -> Columns | None:
    """Return the columns of VALUES in FROM: the widest types of their cells, in which a null says nothing."""
    alias = source.args.get("alias")
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in source.expressions]
    names = [part.name.lower() for part in (alias.args.get("columns") or ())] if alias is not None else []
    if not rows or len({len(row) for row in rows}) != 1 or len(names) != len(rows[0]):
        return None
    found: Columns = []
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        kinds = [infer_exact_type(cell, {}) for cell in cells if not isinstance(cell, exp.Null)]
        found.append((name, find_widest_type(kinds)))
    return found


def _infer_function_columns(call: exp.Expr, alias: exp.TableAlias, before: dict[str, str | None]) -> Columns:
    """Return the columns of a function that gives rows: the items of its array, or the fields of those."""
    types = {name: kind for name, kind in before.items() if kind is not None}
    item = element_type(infer_exact_type(call.this, types) or "") or ""
    names = [part.name.lower() for part in alias.args.get("columns") or [alias.this]]
    kinds: list[str | None] = [item or None]
    if isinstance(call, exp.Inline):
        kinds = [field_type(item, name) for name in field_names(item)]
    if len(kinds) != len(names):
        return [(name, None) for name in names]
    return list(zip(names, kinds, strict=True))
