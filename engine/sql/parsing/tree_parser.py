"""sqlglot's trees as everything here reads them: without comments, and with Spark's rule for the case of table names."""

from __future__ import annotations

import re

import sqlglot.expressions as exp
from sqlglot.errors import ParseError

from engine.sql.dialect import Dialect
from engine.sql.parsing.changelogs import is_changelog
from engine.sql.parsing.dialect_readers import PARTITIONED, PLACE
from engine.sql.parsing.exact_calls import parse_exactly
from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.schemas import qualify_calls, qualify_tables

_ANY_CASE = "any_case"
TIME_WINDOWS = ("tumble", "hop", "cumulate", "session", PARTITIONED)


def parse_tree(text: str, dialect: Dialect) -> exp.Expr:
    """Return the tree of a text; raises sqlglot's ParseError and TokenError, RecursionError for one that is too deep, and
    UnsupportedSql for the type UUID.

    Comments go: expressions are printed as texts and put into each other, where a comment would take what follows with it.
    """
    try:
        tree = parse_exactly(text, dialect)
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # its own, on what is no SQL
        raise ParseError("it cannot be read") from error
    found = tree.transform(_decode_text, copy=False) if dialect != "spark" else tree
    for call in found.find_all(exp.Anonymous):
        _resolve_relation(call)
    for node in found.walk():
        if isinstance(node, exp.Placeholder) and node.comments:
            node.meta["start"] = int(node.comments[0].removeprefix(PLACE))
        node.comments = None
        if dialect == "spark" and isinstance(node, exp.Table | exp.CTE):
            node.meta[_ANY_CASE] = True
        if dialect == "spark" and isinstance(node, exp.GroupConcat) and node.args.get("separator") is None:
            node.set("separator", exp.Literal.string(""))  # for which sqlglot would print a comma
    for node in reversed(list(found.find_all(exp.Lambda, bfs=False))):  # those inside others first
        _bind_variables(node, dialect)
    qualify_tables(found, dialect)
    found = qualify_calls(found, dialect)
    _refuse_uuid(found, text)
    return found


def _refuse_uuid(tree: exp.Expr, text: str) -> None:
    """Raise UnsupportedSql for the type UUID: a text in its place would tell one value in two spellings apart."""
    found = next((kind for kind in tree.find_all(exp.DataType) if kind.this == exp.DataType.Type.UUID), None)
    if found is None:
        return
    of: exp.Expr | None = found
    while isinstance(of, exp.DataType):
        of = of.parent
    ends = [part.meta["end"] + 1 for part in of.this.walk() if "end" in part.meta] if of is not None else []
    at = re.compile(r"\bUUID\b", re.IGNORECASE).search(text, max(ends, default=0))
    hint = "take TEXT, and bring what comes from elsewhere into one spelling: lower(u)"
    raise unsupported_error_at("the type UUID is not offered", text, at.start() if at else 0, hint)


def is_time_window(node: exp.Expr | None) -> bool:
    """Tell whether an item of FROM is a call of TUMBLE, HOP, CUMULATE or SESSION, whose first argument is a relation."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in TIME_WINDOWS


def is_gap_fill(node: exp.Expr | None) -> bool:
    """Tell whether an item of FROM is a call of GAP_FILL, whose first argument is a relation as well."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "gap_fill"


def _resolve_relation(call: exp.Anonymous) -> None:
    """Make the first argument of a time window or GAP_FILL the table that it names, so that all who ask what is read see it."""
    relation = call.expressions[0] if call.expressions else None
    named = is_time_window(call) or is_gap_fill(call) or is_changelog(call)
    if not isinstance(call.parent, exp.Table) or not named:
        return
    if not isinstance(relation, exp.Column) or not isinstance(relation.this, exp.Identifier):
        return
    parts = {"this": relation.this, "db": relation.args.get("table"), "catalog": relation.args.get("db")}
    relation.replace(exp.Table(**{name: part for name, part in parts.items() if part is not None}))


def _bind_variables(node: exp.Lambda, dialect: Dialect) -> None:
    """Make what the body of a lambda calls by a name of its variables these, in whatever case: sqlglot compares spellings."""
    names = {_fold_case(name, dialect): name for name in node.expressions if isinstance(name, exp.Identifier)}
    for column in list(node.this.find_all(exp.Column)):
        variable = names.get(_fold_case(column.parts[0], dialect))
        if variable is None or not isinstance(column.this, exp.Identifier):
            continue
        found: exp.Expr = variable.copy()
        for field in column.parts[1:]:
            found = exp.Dot(this=found, expression=field.copy())
        column.replace(found)


def _fold_case(name: exp.Identifier, dialect: Dialect) -> str:
    exact = dialect != "spark" and name.args.get("quoted")
    return name.name if exact else name.name.lower()


def is_case_insensitive(node: exp.Table | exp.CTE) -> bool:
    """Tell whether a table or a WITH item was named in Spark's dialect, where quotes do not make a name case-sensitive."""
    return bool(node.meta.get(_ANY_CASE))


def _decode_text(node: exp.Expr) -> exp.Expr:
    """Write U&'d\\0061t' as the text that it means: Spark has no such form."""
    if not isinstance(node, exp.UnicodeString):
        return node
    escape = node.args.get("escape")
    mark = re.escape(escape.name if isinstance(escape, exp.Expr) else "\\")
    text = re.sub(rf"{mark}(?:{mark}|\+([0-9A-Fa-f]{{6}})|([0-9A-Fa-f]{{4}}))", _decode_character, node.name)
    return exp.Literal.string(text)


def _decode_character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else found[0][0]
