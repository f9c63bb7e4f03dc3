"""The text of a statement under other names of the relations that it reads: what refers to them by the old ones still does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot.expressions as exp
from sqlglot import Token, TokenType

from engine.errors import SqlError
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.tokens import find_name_end, tokenize
from engine.sql.schemas import find_schema_before
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.statements.ddl.subscription_statements import CreateSubscription
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import Statement
from engine.sql.statements.table_references import list_tables


class NameNotFound(Exception):
    """A text reads a relation in a way in which its name cannot be written otherwise."""


def quote_name(name: str, dialect: Dialect) -> str:
    """Return a relation's name as a statement has to say it: in quotes where a part is no plain word in lower case.

    >>> quote_name("s.Orders", "postgres"), quote_name("t", "spark")
    ('s."Orders"', 't')
    """
    return ".".join(quote_part(part, dialect) for part in name.split("."))


def quote_part(name: str, dialect: Dialect) -> str:
    """Return one name as a statement has to say it, dots and all."""
    is_plain = name.isidentifier() and all(char.isalnum() or char == "_" for char in name)
    tokens = tokenize(name, dialect) if is_plain else []
    if [token.token_type for token in tokens] == [TokenType.VAR] and name == name.lower():
        return name
    mark = "`" if dialect == "spark" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def rename_relations(sql: str, dialect: Dialect, names: Mapping[str, str]) -> str:
    """Return the text of a statement that reads relations under their new names; raises NameNotFound if it cannot say them.

    >>> rename_relations("CREATE VIEW v AS SELECT t.a FROM t JOIN t AS u ON t.a = u.a", "spark", {"t": "s.new"})
    'CREATE VIEW v AS SELECT t.a FROM s.new AS t JOIN s.new AS u ON t.a = u.a'
    """
    statement = parse_statement(sql, dialect)
    tokens = tokenize(sql, dialect)
    changes = {
        change for table in list_tables(statement) if (change := _find_change(table, tokens, names, dialect))
    }
    for table in list_tables(statement):
        changes |= set(_list_column_changes(table, tokens, names))
    changes |= set(_list_consumer_changes(statement, tokens, names, dialect))
    text = sql
    for first, end, new in sorted(changes, reverse=True):
        text = text[:first] + new + text[end:]
    try:
        read = _list_names(parse_statement(text, dialect))
    except SqlError:
        raise NameNotFound from None
    if read != [names.get(name, name) for name in _list_names(statement)]:
        raise NameNotFound  # such as a new name that a WITH item has
    return text


def _find_change(
    table: exp.Table, tokens: Sequence[Token], names: Mapping[str, str], dialect: Dialect
) -> tuple[int, int, str] | None:
    """Return from where to where a table's name is written, and what to write there; None if it keeps its name."""
    old = normalize_identifier(table.this)
    new = names.get(old)
    if new is None:
        return None
    start = table.this.meta.get("start")
    at = next((n for n, token in enumerate(tokens) if token.start == start), None)
    if at is None:
        raise NameNotFound
    first = at - 2 if at > 1 and tokens[at - 1].token_type == TokenType.DOT else at
    last = find_name_end(tokens, at) if "." in old else at
    text = quote_name(new, dialect)
    called = old.rpartition(".")[2]
    if called != new.rpartition(".")[2] and not _has_alias(table, tokens[last].end):
        if _allows_alias(table):
            text += f" AS {quote_name(called, dialect)}"
        elif _is_named_elsewhere(table, called):
            raise NameNotFound
    return tokens[first].start, tokens[last].end + 1, text


def _has_alias(table: exp.Table, end: int) -> bool:
    alias = table.args.get("alias")
    start = None if alias is None or alias.this is None else alias.this.meta.get("start")
    return start is not None and int(start) > end


def _allows_alias(table: exp.Table) -> bool:
    """Tell whether an alias may follow the name at once."""
    further = any(table.args.get(part) for part in ("version", "when", "sample", "pivots"))
    return isinstance(table.parent, exp.From | exp.Join) and not further


def _is_named_elsewhere(table: exp.Table, name: str) -> bool:
    others = (node for node in table.root().find_all(exp.Identifier) if node is not table.this)
    return any(node.name.lower() == name.lower() for node in others)


def _list_column_changes(
    table: exp.Table, tokens: Sequence[Token], names: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of columns that are said to be of a table in a schema: they are of what it is called in the query."""
    renamed = {name.lower() for name in names}
    for column in table.root().find_all(exp.Column):
        found = find_schema_before(column)
        if found is not None and found[0] in renamed:
            at = next((n for n, token in enumerate(tokens) if token.start == found[1]), None)
            if at is None:
                raise NameNotFound
            yield tokens[at].start, tokens[at + 2].start, ""


def _list_consumer_changes(
    statement: Statement, tokens: Sequence[Token], names: Mapping[str, str], dialect: Dialect
) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of the names after INTO and FROM of CREATE SINK, and after FROM of CREATE SUBSCRIPTION."""
    for word, name in _find_consumed(statement).items():
        if name not in names:
            continue
        at = next(n for n, token in enumerate(tokens) if token.text.upper() == word) + 1
        yield tokens[at].start, tokens[find_name_end(tokens, at)].end + 1, quote_name(names[name], dialect)


def _list_names(statement: Statement) -> list[str]:
    """Return the relations that a statement reads, place by place, and that a sink or a subscription is for."""
    found = [normalize_identifier(table.this) for table in list_tables(statement)]
    return [*found, *_find_consumed(statement).values()]


def _find_consumed(statement: Statement) -> Mapping[str, str]:
    """Return the relations that a sink or a subscription names outside of a query, by the words before them."""
    match statement:
        case CreateSubscription(source=source):
            return {"FROM": source}
        case CreateSink(source=source, into=into, query=query):
            named = {"FROM": None if query else source, "INTO": into}
            return {word: name for word, name in named.items() if name}
    return {}
