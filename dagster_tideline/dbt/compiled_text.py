"""The compiled text of a dbt model as a query over relations of the store, in a dialect that is read here.

Names are found by sqlglot's tree and put into the text at their places, so that all else of it stays as dbt has written it.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError

from dagster_tideline.dbt.manifest import ManifestError
from dagster_tideline.dbt.translated_times import translate_times
from engine.errors import SqlError
from engine.sql.dialect import Dialect
from engine.sql.parsing.table_names import (
    FindName,
    build_error_at,
    list_tables,
    map_tables,
    parse_query,
)


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


def map_relations(code: str, dialect: AdapterDialect, find_name: FindName) -> str:
    """Return a compiled text with the relations of the store in the place of its tables, in the dialect of the target.

    Raises SqlError with the place in the text for one that cannot be read or translated.
    """
    text = map_tables(code, dialect.read, find_name)
    return text if dialect.is_plain else translate(text, dialect)


def find_tables(code: str, dialect: AdapterDialect) -> list[tuple[tuple[str, ...], int]]:
    """Return the tables that a text reads by the parts of their names, and the characters where they stand."""
    return list_tables(code, dialect.read)


def translate(text: str, dialect: AdapterDialect) -> str:
    """Return a query in the dialect of the target; raises SqlError for what sqlglot finds no words for there."""
    tree = parse_query(text, dialect.read)
    attempt = tree.find(exp.TryCast)
    if attempt is not None and dialect.target == "postgres":
        starts = [part.meta["start"] for part in attempt.walk() if "start" in part.meta]
        message = "TRY_CAST gives null for what it cannot cast, and postgres has no such cast"
        hint = "use CASE WHEN with a condition that only values fit which CAST takes"
        raise build_error_at(message, text, min(starts, default=0), hint)
    _refuse_other_meanings(tree, text, dialect)
    if dialect.read in _NULL_IF_ANY:
        _keep_nulls(tree)
    translate_times(tree, text, dialect.read)
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
