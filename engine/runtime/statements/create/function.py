"""CREATE FUNCTION: an expression in SQL that is written into the queries that call it, or a text in Python that they call."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import sqlglot.expressions as exp

from engine.hummock import Commit, Version
from engine.meta.catalog.stored_catalog import (
    RELATIONS,
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.catalog.successions import explain_release
from engine.python_functions.definition import PythonFunction, remember
from engine.python_functions.values import find_formless
from engine.runtime.reads.spark_read import analyze_sql, make_view_prefix
from engine.runtime.relations import build_name_error, list_readers
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.relations import can_skip_create
from engine.runtime.statements.create.required_inputs import require_inputs
from engine.runtime.statements.create.view_change import ViewChange
from engine.sql.batch.ad_hoc import build_spark_query
from engine.sql.catalog import Catalog, Relation
from engine.sql.parsing.statement_errors import unsupported_error
from engine.sql.statements.ddl.create_function import build_definition
from engine.sql.statements.ddl.macros import (
    PYTHON,
    REPLACED,
    Macro,
    decode_python,
    decode_replaced,
    extract_body,
    list_called_functions,
    parse_body,
)
from engine.sql.statements.options.option_text import strip_replace
from engine.sql.statements.statement_types import CreateFunction
from engine.sql.typing.types import cast_type, to_arrow


def execute_create_function(statement: CreateFunction, context: StatementContext) -> None:
    """Create a function, or give one that nothing calls another text. Of one in Python nothing runs yet."""
    store = context.store
    stored = load_catalog(store.refresh())
    before = stored.catalog.relations.get(statement.name) if statement.replaces else None
    if before is not None:
        _check_replaceable(stored, before, statement)
        change_function(statement, context)
        return
    if can_skip_create(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return
    relation = _build_relation(statement, stored, context)
    store.commit(
        Commit(
            catalog=encode_entries({statement.name: relation}, {}),
            precondition=require_inputs(statement.name, relation.through, stored.catalog),
        )
    )


def change_function(statement: CreateFunction, context: StatementContext) -> ViewChange:
    """Give a function another text, whoever calls it: the callers are to be planned anew, in the same commit."""
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    before = stored.catalog.get(statement.name)
    after = _build_relation(statement, stored, context)
    after = msgspec.structs.replace(after, comment=before.comment)
    loop = {statement.name, *stored.catalog.list_dependents(statement.name)} & {*after.through}
    if loop:
        message = f"function {statement.name} would call itself through {', '.join(sorted(loop))}"
        raise build_name_error(message, statement.name, statement.sql, "call what it calls")
    after = _keep_replaced(before, after, version)
    if after == before:
        return ViewChange("nothing", is_same_query=True)
    entries = encode_entries({before.name: after}, {})
    store.commit(Commit(catalog=entries, precondition=require_same_catalog(version)))
    return ViewChange("text", is_same_query=_is_same_function(before, after))


def _check_replaceable(stored: StoredCatalog, before: Relation, statement: CreateFunction) -> None:
    """Raise SqlError where another text would change what reads it."""
    if before.kind != "function":
        message = f"{before.name} is a {before.kind}, not a function"
        raise build_name_error(
            message, before.name, statement.sql, f"DROP {before.kind.upper()} {before.name} first"
        )
    readers = list_readers(stored, before.name)
    if readers:
        listed = ", ".join(f"{stored.catalog.get(name).kind} {name}" for name in readers)
        project = "or hold them and the function in a project: `tideline apply` makes all anew beside the old"
        hint = f"{explain_release(readers, 'drop those first')}; {project}"
        raise build_name_error(f"{before.name} is called by {listed}", before.name, statement.sql, hint)


def _build_relation(statement: CreateFunction, stored: StoredCatalog, context: StatementContext) -> Relation:
    if statement.language == "python":
        return _build_python_relation(statement, context)
    dialect = context.dialect
    macro = Macro(statement.parameters, statement.returns, extract_body(statement, dialect))
    relation = Relation(
        name=statement.name,
        kind="function",
        columns=(),
        sql=strip_replace(statement.sql),
        dialect=dialect,
        options={"macro": msgspec.json.encode(macro).decode()},
        through=list_called_functions(parse_body(macro, dialect), stored.catalog),
    )
    catalog = Catalog({**stored.catalog.relations, statement.name: relation})
    call = exp.Anonymous(
        this=statement.name,
        expressions=[exp.Cast(this=exp.Null(), to=cast_type(kind)) for _, kind in statement.parameters],
    )
    probe = build_spark_query(exp.select(call), catalog, dialect, make_view_prefix(), statement.sql)
    analyze_sql(context.spark(), probe.text, statement.sql)
    return relation


def _build_python_relation(statement: CreateFunction, context: StatementContext) -> Relation:
    function = remember(build_definition(statement))
    for _, kind in (*function.parameters, ("", function.returns)):
        if formless := find_formless(to_arrow(kind)):
            message = f"a function in Python has no value for {formless}: {kind}"
            raise unsupported_error(message, None, statement.sql, "pass a list of structs, or a text")
    return Relation(
        name=statement.name,
        kind="function",
        columns=(),
        sql=strip_replace(statement.sql),
        dialect=context.dialect,
        options={PYTHON: msgspec.json.encode(function).decode()},
    )


def _keep_replaced(before: Relation, after: Relation, version: Version) -> Relation:
    """Return a function with what it was, as far as a plan of the store calls that yet."""
    now = decode_python(after)
    known = {one.call_name: one for one in decode_replaced(before)}
    if (old := decode_python(before)) is not None:
        known[old.call_name] = old
    if now is not None:
        known.pop(now.call_name, None)
    texts = [text for key, text in version.catalog.items() if not key.startswith(RELATIONS.prefix)]
    kept = [one for one in known.values() if _is_called(one, texts)]
    options = {name: text for name, text in after.options.items() if name != REPLACED}
    if kept:
        options[REPLACED] = msgspec.json.encode(kept).decode()
    return msgspec.structs.replace(after, options=options)


def _is_called(function: PythonFunction, texts: Iterable[str]) -> bool:
    return any(function.call_name in text for text in texts)


def _is_same_function(before: Relation, after: Relation) -> bool:
    """Tell whether two texts of a function mean the same: in Python the same content, in SQL the same expression."""
    functions = [decode_python(one) for one in (before, after)]
    if None not in functions:
        return functions[0] == functions[1]
    return before.options == after.options
