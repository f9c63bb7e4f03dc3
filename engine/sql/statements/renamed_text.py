"""The text of a statement under other names of the relations that it reads: what refers to them by the old ones still does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlglot.expressions as exp
from sqlglot import Token, TokenType

from engine.errors import SqlError
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import identifier
from engine.sql.parsing.tokens import last_of_name, tokens_of
from engine.sql.schemas import schema_before
from engine.sql.statements.reader import parse
from engine.sql.statements.sink_statements import CreateSink
from engine.sql.statements.tables_read import tables_in


class NameNotFound(Exception):
    """A text reads a relation in a way in which its name cannot be written otherwise."""


def written(name: str, dialect: Dialect) -> str:
    """Return a relation's name as a statement has to say it: in quotes where a part is no plain word in lower case.

    >>> written("s.Orders", "postgres"), written("t", "spark")
    ('s."Orders"', 't')
    """
    return ".".join(_part(part, dialect) for part in name.split("."))


def _part(name: str, dialect: Dialect) -> str:
    tokens = tokens_of(name, dialect) if name.isidentifier() else []
    if [token.token_type for token in tokens] == [TokenType.VAR] and name == name.lower():
        return name
    mark = "`" if dialect == "spark" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def with_names(sql: str, dialect: Dialect, names: Mapping[str, str]) -> str:
    """Return the text of a statement that reads relations under their new names; raises NameNotFound if it cannot say them.

    >>> with_names("CREATE VIEW v AS SELECT t.a FROM t JOIN t AS u ON t.a = u.a", "spark", {"t": "s.new"})
    'CREATE VIEW v AS SELECT t.a FROM s.new AS t JOIN s.new AS u ON t.a = u.a'
    """
    statement = parse(sql, dialect)
    tokens = tokens_of(sql, dialect)
    changes = {change for table in tables_in(statement) if (change := _change(table, tokens, names, dialect))}
    for table in tables_in(statement):
        changes |= set(_without_schemas(table, tokens, names))
    if isinstance(statement, CreateSink):
        changes |= set(_of_sink(statement, tokens, names, dialect))
    text = sql
    for first, end, new in sorted(changes, reverse=True):
        text = text[:first] + new + text[end:]
    try:
        read = _names(parse(text, dialect))
    except SqlError:
        raise NameNotFound from None
    if read != [names.get(name, name) for name in _names(statement)]:
        raise NameNotFound  # such as a new name that a WITH item has
    return text


def _change(
    table: exp.Table, tokens: Sequence[Token], names: Mapping[str, str], dialect: Dialect
) -> tuple[int, int, str] | None:
    """Return from where to where a table's name is written, and what to write there; None if it keeps its name."""
    old = identifier(table.this)
    new = names.get(old)
    if new is None:
        return None
    start = table.this.meta.get("start")
    at = next((n for n, token in enumerate(tokens) if token.start == start), None)
    if at is None:
        raise NameNotFound
    first = at - 2 if at > 1 and tokens[at - 1].token_type == TokenType.DOT else at
    last = last_of_name(tokens, at) if "." in old else at
    text = written(new, dialect)
    called = old.rpartition(".")[2]
    if called != new.rpartition(".")[2] and not _has_alias(table, tokens[last].end):
        if _stands_free(table):
            text += f" AS {written(called, dialect)}"
        elif _is_named_elsewhere(table, called):
            raise NameNotFound
    return tokens[first].start, tokens[last].end + 1, text


def _has_alias(table: exp.Table, end: int) -> bool:
    alias = table.args.get("alias")
    start = None if alias is None or alias.this is None else alias.this.meta.get("start")
    return start is not None and int(start) > end


def _stands_free(table: exp.Table) -> bool:
    """Tell whether an alias may follow the name at once."""
    further = any(table.args.get(part) for part in ("version", "when", "sample", "pivots"))
    return isinstance(table.parent, exp.From | exp.Join) and not further


def _is_named_elsewhere(table: exp.Table, name: str) -> bool:
    others = (node for node in table.root().find_all(exp.Identifier) if node is not table.this)
    return any(node.name.lower() == name.lower() for node in others)


def _without_schemas(
    table: exp.Table, tokens: Sequence[Token], names: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of columns that are said to be of a table in a schema: they are of what it is called in the query."""
    renamed = {name.lower() for name in names}
    for column in table.root().find_all(exp.Column):
        found = schema_before(column)
        if found is not None and found[0] in renamed:
            at = next((n for n, token in enumerate(tokens) if token.start == found[1]), None)
            if at is None:
                raise NameNotFound
            yield tokens[at].start, tokens[at + 2].start, ""


def _of_sink(
    statement: CreateSink, tokens: Sequence[Token], names: Mapping[str, str], dialect: Dialect
) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of the names after INTO and FROM of CREATE SINK."""
    for word, name in (("INTO", statement.into), ("FROM", None if statement.query else statement.source)):
        if name is None or name not in names:
            continue
        at = next(n for n, token in enumerate(tokens) if token.text.upper() == word) + 1
        yield tokens[at].start, tokens[last_of_name(tokens, at)].end + 1, written(names[name], dialect)


def _names(statement: Any) -> list[str]:
    """Return the relations that a statement reads, place by place, and that a sink brings rows into."""
    found = [identifier(table.this) for table in tables_in(statement)]
    if isinstance(statement, CreateSink):
        source = None if statement.query else statement.source
        found += [name for name in (source, statement.into) if name]
    return found
