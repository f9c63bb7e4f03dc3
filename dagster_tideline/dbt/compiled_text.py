"""The compiled text of a dbt model as a query over relations of the store, in a dialect that is read here.

Names are found by sqlglot's tree and put into the text at their places, so that all else of it stays as dbt has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError, UnsupportedError

from dagster_tideline.dbt.manifest import ManifestError
from engine.errors import SqlError
from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import locate_character

RENAMED = "_cte"
"""What a WITH item's name gets behind it, if a relation has the same."""


@dataclass(frozen=True)
class AdapterDialect:
    """How texts of an adapter of dbt are read: sqlglot's word for them, and the dialect of Tideline that they become.

    Texts that `is_plain` are that dialect already; others are translated by sqlglot.
    """

    adapter: str
    read: str
    target: Dialect
    is_plain: bool


_PLAIN: dict[str, tuple[str, Dialect]] = {
    "spark": ("spark", "spark"),
    "databricks": ("databricks", "spark"),
    "postgres": ("postgres", "postgres"),
    "materialize": ("postgres", "postgres"),
    "risingwave": ("risingwave", "risingwave"),
}
_JOIN_METHODS = (None, "", "NATURAL", "ASOF")
"""The words before JOIN that all dialects here read alike."""
_NULL_IF_ANY = ("snowflake", "bigquery", "trino")
"""Dialects whose GREATEST and LEAST are null if one of the values is."""
_TRANSLATED = {
    "duckdb": "duckdb",
    "redshift": "redshift",
    "snowflake": "snowflake",
    "bigquery": "bigquery",
    "trino": "trino",
    "athena": "trino",
}
"""Adapters whose texts become those of `postgres`, whose CAST to a whole number rounds, as theirs does; Spark's does not."""


def find_dialect(adapter: str) -> AdapterDialect:
    """Return how the texts of an adapter are read; raises ManifestError for one whose texts nothing here reads."""
    if adapter in _PLAIN:
        return AdapterDialect(adapter, *_PLAIN[adapter], True)
    if adapter in _TRANSLATED:
        return AdapterDialect(adapter, _TRANSLATED[adapter], "postgres", False)
    known = ", ".join(sorted((*_PLAIN, *_TRANSLATED)))
    raise ManifestError(
        f"texts of dbt's adapter {adapter or 'without a name'} are not read: compile the project with one of {known}"
    )


FindName = Callable[[tuple[str, ...]], str | None]
"""Returns the relation that stands for a table of a text, by the parts of its name; None leaves the name as it is."""


@dataclass(frozen=True)
class _Edit:
    """What stands in a text from a character up to another, and what is to stand there."""

    begin: int
    end: int
    text: str


def map_relations(code: str, dialect: AdapterDialect, find_name: FindName) -> str:
    """Return a compiled text with the relations of the store in the place of its tables, in the dialect of the target.

    Raises SqlError with the place in the text for one that cannot be read or translated.
    """
    code = _strip_end(code, dialect.read)
    tree = _parse(code, dialect.read)
    _refuse_unclear_columns(tree, code)
    edits: list[_Edit] = []
    found = {id(table): find_name(parts) for table, parts in _list_tables(tree)}
    renamed = _rename_items(tree, {name for name in found.values() if name is not None})
    for table, parts in _list_tables(tree):
        item = _find_item(table, dialect.read) if len(parts) == 1 else None
        name = renamed.get(id(item)) if item is not None else found[id(table)]
        if name is not None:
            edits.append(_replace_table(table, parts[-1], name, dialect.read))
    for item in tree.find_all(exp.CTE):
        if id(item) in renamed:
            label = item.args["alias"].this
            edits.append(
                _Edit(label.meta["start"], label.meta["end"] + 1, _quote(renamed[id(item)], dialect.read))
            )
    edits += _shorten_columns(tree)
    text = _apply(code, edits)
    return text if dialect.is_plain else translate(text, dialect)


def translate(text: str, dialect: AdapterDialect) -> str:
    """Return a query in the dialect of the target; raises SqlError for what sqlglot finds no words for there."""
    tree = _parse(text, dialect.read)
    attempt = tree.find(exp.TryCast)
    if attempt is not None and dialect.target == "postgres":
        starts = [part.meta["start"] for part in attempt.walk() if "start" in part.meta]
        message = "TRY_CAST gives null for what it cannot cast, and postgres has no such cast"
        hint = "use CASE WHEN with a condition that only values fit which CAST takes"
        raise build_error_at(message, text, min(starts, default=0), hint)
    _refuse_other_meanings(tree, text, dialect)
    if dialect.read in _NULL_IF_ANY:
        _keep_nulls(tree)
    try:
        return tree.sql(dialect=dialect.target, pretty=True, unsupported_level=ErrorLevel.RAISE)
    except (UnsupportedError, SqlglotError, ValueError) as error:
        message = str(error).splitlines()[0].rstrip(".")
        hint = f"write it with words that {dialect.target} has, too"
        raise SqlError(
            f"{dialect.adapter} cannot be translated to {dialect.target}: {message}",
            sql=text,
            line=1,
            column=1,
            hint=hint,
        ) from error


def _refuse_other_meanings(tree: exp.Query, text: str, dialect: AdapterDialect) -> None:
    """Raise SqlError for words that the target reads, too, and takes for something else."""
    tildes = dialect.read == "duckdb" and any(
        token.text in ("~", "!~") for token in sqlglot.tokenize(text, read=dialect.read)
    )
    for node in tree.walk():
        message = ""
        if isinstance(node, exp.Join) and node.args.get("method") not in _JOIN_METHODS:
            message = f"{node.args['method']} JOIN is not taken: {dialect.target} would read its first word as a name"
            hint = "number the rows of both, and join on that"
        elif isinstance(node, exp.RegexpLike) and (tildes or dialect.read == "snowflake"):
            message = f"{dialect.adapter} matches patterns with whole texts here, and {dialect.target} with parts of them"
            hint = "use LIKE, or compare what regexp_replace leaves"
            if dialect.read == "duckdb":
                hint = "use regexp_matches with ^ and $ in the place of ~ in the whole text"
        elif isinstance(node, exp.Substring) and isinstance(node.args.get("start"), exp.Neg):
            message = f"a negative start counts from the end, and not in {dialect.target}"
            hint = "use right(text, length)"
        if message and not (isinstance(node, exp.Substring) and dialect.read == "redshift"):
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            raise build_error_at(message, text, min(starts, default=0), hint)


def _keep_nulls(tree: exp.Query) -> None:
    """Give GREATEST and LEAST the null that some dialects give if one of the values is null."""
    for node in reversed(list(tree.find_all(exp.Greatest, exp.Least))):  # the inner ones first
        values = [node.this, *node.expressions]
        missing = exp.or_(*(exp.Is(this=value.copy(), expression=exp.Null()) for value in values))
        node.replace(exp.Case().when(missing, exp.Null()).else_(node.copy()))


def strip_comments(text: str, dialect: str) -> str:
    """Return a text with one space in the place of each comment."""
    parts: list[str] = []
    at = 0
    for token in sqlglot.tokenize(text, read=dialect):
        gap = text[at : token.start]
        parts += [gap if not gap.strip() else " ", text[token.start : token.end + 1]]
        at = token.end + 1
    return "".join(parts).strip()


def find_tables(code: str, dialect: AdapterDialect) -> list[tuple[tuple[str, ...], int]]:
    """Return the tables that a text reads by the parts of their names, and the characters where they stand."""
    tree = _parse(_strip_end(code, dialect.read), dialect.read)
    return [
        (parts, table.parts[0].meta.get("start", 0))
        for table, parts in _list_tables(tree)
        if len(parts) > 1 or _find_item(table, dialect.read) is None
    ]


def build_error_at(message: str, code: str, at: int, hint: str) -> SqlError:
    """Return the error for what stands at a character of a compiled text."""
    line, column = locate_character(code, at)
    return SqlError(message, sql=code, line=line, column=column, hint=hint)


def _strip_end(code: str, dialect: str) -> str:
    """Return a text without the semicolon at its end, and what follows that."""
    try:
        tokens = sqlglot.tokenize(code, read=dialect)
    except TokenError as error:
        raise SqlError(
            f"the compiled text cannot be read: {str(error).splitlines()[0]}",
            sql=code,
            line=1,
            column=1,
            hint="close its quotes, and compile again",
        ) from error
    end = len(tokens)
    while end and tokens[end - 1].token_type == sqlglot.TokenType.SEMICOLON:
        end -= 1
    return code if end == len(tokens) else code[: tokens[end].start]


def _parse(code: str, dialect: str) -> exp.Query:
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
            "the compiled text is no single SELECT",
            sql=code,
            line=1,
            column=1,
            hint="let the model be one query",
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
