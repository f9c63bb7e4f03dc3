"""The tables that a query names: found by sqlglot's tree, and replaced at their places in its text.

All else of the text stays as it was written. Texts may be of any dialect that sqlglot reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from engine.errors import SqlError
from engine.sql.parsing.statement_errors import locate_character

RENAMED = "_cte"
"""What a WITH item's name gets behind it, if a relation has the same."""
FindName = Callable[[tuple[str, ...]], str | None]
"""Returns the relation that stands for a table of a text, by the parts of its name; None leaves the name as it is."""


@dataclass(frozen=True)
class _Edit:
    """What stands in a text from a character up to another, and what is to stand there."""

    begin: int
    end: int
    text: str


def map_tables(code: str, read: str, find_name: FindName) -> str:
    """Return a query's text with relations of the store in the place of its tables; `read` is sqlglot's word for its dialect.

    Raises SqlError with the place in the text for one that cannot be read.
    """
    code = _strip_end(code, read)
    tree = parse_query(code, read)
    _refuse_unclear_columns(tree, code)
    edits: list[_Edit] = []
    items = {id(table): _find_item(table, read) for table, parts in _list_tables(tree) if len(parts) == 1}
    found = {
        id(table): find_name(parts) for table, parts in _list_tables(tree) if items.get(id(table)) is None
    }
    renamed = _rename_items(tree, {name for name in found.values() if name is not None})
    for table, parts in _list_tables(tree):
        item = items.get(id(table))
        name = renamed.get(id(item)) if item is not None else found[id(table)]
        if name is not None:
            edits.append(_replace_table(table, parts[-1], name, read))
    for item in tree.find_all(exp.CTE):
        if id(item) in renamed:
            label = item.args["alias"].this
            edits.append(_Edit(label.meta["start"], label.meta["end"] + 1, _quote(renamed[id(item)], read)))
    edits += _shorten_columns(tree)
    return _apply(code, edits)


def list_tables(code: str, read: str) -> list[tuple[tuple[str, ...], int]]:
    """Return the tables that a text reads by the parts of their names, and the characters where they stand."""
    tree = parse_query(_strip_end(code, read), read)
    return [
        (parts, table.parts[0].meta.get("start", 0))
        for table, parts in _list_tables(tree)
        if len(parts) > 1 or _find_item(table, read) is None
    ]


def build_error_at(message: str, code: str, at: int, hint: str) -> SqlError:
    """Return the error for what stands at a character of a text."""
    line, column = locate_character(code, at)
    return SqlError(message, sql=code, line=line, column=column, hint=hint)


def _strip_end(code: str, dialect: str) -> str:
    """Return a text without the semicolon at its end, and what follows that."""
    try:
        tokens = sqlglot.tokenize(code, read=dialect)
    except TokenError as error:
        raise SqlError(
            f"the text cannot be read: {str(error).splitlines()[0]}",
            sql=code,
            line=1,
            column=1,
            hint="close its quotes",
        ) from error
    end = len(tokens)
    while end and tokens[end - 1].token_type == sqlglot.TokenType.SEMICOLON:
        end -= 1
    return code if end == len(tokens) else code[: tokens[end].start]


def parse_query(code: str, dialect: str) -> exp.Query:
    """Return the tree of a text that is one query; raises SqlError with the place for another."""
    try:
        found = [tree for tree in sqlglot.parse(code, read=dialect) if tree is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise SqlError(
            f"{dialect} cannot be read: {first.get('description') or str(error)}",
            sql=code,
            line=int(first.get("line") or 1),
            column=int(first.get("col") or 1),
            hint="see whether it is a SELECT without words of another kind of statement",
        ) from error
    except (
        SqlglotError,
        RecursionError,
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise SqlError(
            f"{dialect} cannot be read: {str(error).splitlines()[0] if str(error) else 'it is nested too deeply'}",
            sql=code,
            line=1,
            column=1,
            hint="write it in simpler parts",
        ) from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise SqlError(
            "the text is no single SELECT",
            sql=code,
            line=1,
            column=1,
            hint="let it be one query",
        )
    return found[0]


def _list_tables(tree: exp.Query) -> Iterator[tuple[exp.Table, tuple[str, ...]]]:
    """Yield the tables that a query names, with the parts of their names; calls in FROM are none."""
    for table in tree.find_all(exp.Table):
        parts = table.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            continue
        if not all("start" in part.meta for part in parts):
            name = table.sql()
            hint = "write each part of its name in quotes of its own"
            raise SqlError(f"the place of {name} in the text is not known", hint=hint)
        yield table, tuple(part.name for part in parts)


def _find_item(table: exp.Table, dialect: str) -> exp.CTE | None:
    """Return the WITH item that a name without a schema means at its place."""
    name = _fold(table.this, dialect)
    node: exp.Expr | None = table
    while node is not None:
        within = node if isinstance(node, exp.CTE) else None
        node = node.parent
        if within is not None and isinstance(node, exp.With):
            before = _list_before(node, within)
            found = next((item for item in before if _name_item(item, dialect) == name), None)
            if found is not None:
                return found
            node = node.parent  # the query of this WITH: its items have been looked at
            continue
        items: list[exp.CTE] = node.ctes if isinstance(node, exp.Query) else []
        if items:
            found = next((item for item in items if _name_item(item, dialect) == name), None)
            if found is not None:
                return found
    return None


def _name_item(item: exp.CTE, dialect: str) -> str:
    return _fold(item.args["alias"].this, dialect)


def _fold(name: exp.Expr, dialect: str) -> str:
    """Return a name as the database compares it, which may tell names in quotes apart by their case."""
    return sqlglot.Dialect.get_or_raise(dialect).normalize_identifier(name.copy()).name


def _list_before(clause: exp.With, item: exp.CTE) -> list[exp.CTE]:
    """Return the items of a WITH that one of them may read, the newest first."""
    at = next(number for number, other in enumerate(clause.expressions) if other is item)
    return list(reversed(clause.expressions[: at + 1 if clause.args.get("recursive") else at]))


def _rename_items(tree: exp.Query, names: set[str]) -> dict[int, str]:
    """Return other names for WITH items that are called as a relation that the query reads."""
    items = list(tree.find_all(exp.CTE))
    taken = (
        names
        | {item.alias.lower() for item in items}
        | {table.name.lower() for table in tree.find_all(exp.Table)}
    )
    renamed: dict[int, str] = {}
    for item in items:
        if item.alias.lower() not in names:
            continue
        name = item.alias.lower() + RENAMED
        while name in taken:
            name += "_"
        taken.add(name)
        renamed[id(item)] = name
    return renamed


def _replace_table(table: exp.Table, old: str, name: str, dialect: str) -> _Edit:
    """Return the edit of a table's name; columns that name the table find it under its old name."""
    parts = table.parts
    text = _quote(name, dialect)
    if not table.alias and old != name:
        text += f" AS {parts[-1].sql(dialect=dialect)}"
    return _Edit(parts[0].meta["start"], parts[-1].meta["end"] + 1, text)


def _refuse_unclear_columns(tree: exp.Query, code: str) -> None:
    """Raise SqlError for a column that names its table by the schema, and would mean another one without it."""
    for column in tree.find_all(exp.Column):
        schema, label = column.args.get("db"), column.args.get("table")
        if schema is None or label is None or not _is_unclear(column, schema.name, label.name):
            continue
        at = (column.args.get("catalog") or schema).meta["start"]
        message = f"{schema.name}.{label.name} is told from another {label.name} by its schema alone"
        raise build_error_at(message, code, at, "give each of them an alias, and name columns by that")


def _is_unclear(column: exp.Column, schema: str, label: str) -> bool:
    """Tell whether the query nearest to a column that reads something of its table's label reads other than that table."""
    wanted = [schema.lower(), label.lower()]
    node = column.parent
    while node is not None:
        found = [] if not isinstance(node, exp.Select) else list(_list_sources(node))
        same = [source for source in found if source.alias_or_name.lower() == label.lower()]
        if same:
            own = [
                source
                for source in same
                if isinstance(source, exp.Table)
                and not source.alias
                and [part.name.lower() for part in source.parts[-2:]] == wanted
            ]
            return len(same) > 1 or not own
        node = node.parent
    return False


def _list_sources(query: exp.Select) -> Iterator[exp.Expr]:
    """Yield what a query has in its FROM and its joins, without what subqueries there read."""
    for part in (query.args.get("from_"), *query.args.get("joins", ()), *query.args.get("laterals", ())):
        for node in () if part is None else part.walk(prune=lambda one: isinstance(one, exp.Select)):
            if isinstance(node, exp.Table | exp.Subquery | exp.Lateral | exp.Unnest):
                yield node


def _shorten_columns(tree: exp.Query) -> Iterator[_Edit]:
    """Yield edits that take the schema out of names of columns, where it is that of a table: it has none any more."""
    tables = {tuple(part.lower() for part in parts[-2:]) for _, parts in _list_tables(tree) if len(parts) > 1}
    for column in tree.find_all(exp.Column):
        schema, label = column.args.get("db"), column.args.get("table")
        if schema is None or label is None or (schema.name.lower(), label.name.lower()) not in tables:
            continue  # a field of a struct has as many parts
        first = column.args.get("catalog") or schema
        yield _Edit(first.meta["start"], label.meta["start"], "")


def _quote(name: str, dialect: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect=dialect)


def _apply(code: str, edits: Sequence[_Edit]) -> str:
    """Return a text with its edits, which do not overlap."""
    for edit in sorted(set(edits), key=lambda one: one.begin, reverse=True):
        code = code[: edit.begin] + edit.text + code[edit.end :]
    return code
