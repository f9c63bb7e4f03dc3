"""Models: statements of `assets/**/*.sql` and declarations of `assets/**/*.py`, read without Spark and without a store."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import sqlglot
from sqlglot import TokenType, exp

from dagster_tideline.models.header import (
    DELTA,
    RENAMED_FROM,
    Header,
    HeaderLine,
    build_error,
    parse_automation,
    parse_former_name,
    parse_freshness,
    parse_header,
    parse_tags,
)
from dagster_tideline.models.python_models import load_declarations
from dagster_tideline.models.source_text import SourceText, find_created_names, locate_in_file
from engine.errors import SqlError, TidelineError
from engine.sql.catalog import RelationColumn
from engine.sql.checks import OPTION as CHECKS
from engine.sql.checks import PANDERA
from engine.sql.dialect import DIALECTS, Dialect, is_dialect
from engine.sql.incremental.partitions import is_partitioned
from engine.sql.parsing.tokens import tokenize
from engine.sql.statements.ddl.create_function import build_definition
from engine.sql.statements.ddl.macros import Macro, extract_body, parse_body
from engine.sql.statements.options.check_list import parse_checks
from engine.sql.statements.options.gate_bounds import GATE, parse_gate
from engine.sql.statements.options.option_text import strip_replace, with_option
from engine.sql.statements.reader import (
    CreateFunction,
    CreateMaterializedView,
    CreateSink,
    CreateTable,
    CreateView,
    Statement,
    parse_statement,
    split_statements,
)

TEXT_KINDS = ("view", "function")
"""The kinds that have no rows: their text is a part of what reads or calls them."""
EXTERNAL_KINDS = ("table", "source")
"""The kinds whose rows come from outside."""


@dataclass(frozen=True)
class Model:
    """One relation that a project declares; `error` says why its file can't be used."""

    name: str
    kind: str
    sql: str
    path: str
    dialect: Dialect = "spark"
    group: str = "default"
    owners: tuple[str, ...] = ()
    description: str = ""
    reads: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The functions that its text calls and that are not known by their kind yet: those that models declare become reads."""
    columns: tuple[RelationColumn, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    freshness: dg.FreshnessPolicy | None = None
    automation: dg.AutomationCondition[Any] | None = None
    source_text: SourceText | None = None
    copy: Mapping[str, str] = field(default_factory=dict)
    """The options of the Delta table that a materialized view keeps beside it, none without one."""
    renamed_from: str = ""
    """The name that it had before: a relation of the store with that name gets this one."""
    renamed_at: int = 0
    """The character of the file at which that name is."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What its asset shows besides, where another tool declares it."""
    column_descriptions: Mapping[str, str] = field(default_factory=dict)
    foreign_inputs: Mapping[str, str] = field(default_factory=dict)
    """What another tool, which declares it, calls relations that it reads and that tool does not make here, by their names."""

    def format_error(self, error: TidelineError) -> str:
        """Return an error of the statement with the file, and the line and column that it has there."""
        found = error if self.source_text is None else self.source_text.locate_error(error, self.sql)
        return f"{self.path}: {found}"

    def build_rename_error(self, message: str, hint: str) -> SqlError:
        """Return an error of the line by which it has had another name."""
        text = "" if self.source_text is None else self.source_text.text
        return build_error(message, self.renamed_at, text, hint)

    @property
    def checks(self) -> Mapping[str, str]:
        """The checks of a materialized view by their names, and what each says."""
        if self.kind != "materialized view" or self.error is not None or self.is_partitioned:
            return {}
        text = self.options.get(CHECKS)
        found = {one.name: one.text for one in parse_checks(text, "")} if text is not None else {}
        if PANDERA in self.options:
            found[PANDERA] = f"rows satisfy the schema {self.options[PANDERA]}"
        return found

    @property
    def code_version(self) -> str:
        """A hash of the statement that white space, comments and the case of names do not change."""
        return hashlib.sha256(normalize_sql(self.sql, self.dialect).encode()).hexdigest()[:16]

    @property
    def is_partitioned(self) -> bool:
        """Whether it is a view that is cut into partitions."""
        return self.kind == "materialized view" and is_partitioned(self.options)


def normalize_sql(sql: str, dialect: str) -> str:
    """Return a statement's tokens with one space between them: equal for statements that mean the same by their text."""
    try:
        if "$$" in sql and is_dialect(
            dialect
        ):  # the body of a function, which sqlglot does not know in Spark's dialect
            tokens = [*tokenize(sql, dialect)]
        else:
            tokens = sqlglot.tokenize(sql, read=dialect)
    except sqlglot.errors.TokenError:
        return sql
    literal = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING, TokenType.HEREDOC_STRING)
    texts = [repr(t.text) if t.token_type in literal else t.text.lower() for t in tokens]
    while texts and texts[-1] == ";":
        texts.pop()
    return " ".join(texts)


def load_models(folder: Path, said: Mapping[str, str] | None = None) -> tuple[Model, ...]:
    """Read the models of a folder, inputs before their readers; a file that can't be used becomes a model with `error`.

    `said` is what headers say that do not say it themselves.
    """
    found: list[Model] = []
    for path in sorted(folder.rglob("*.sql")):
        found.extend(_load_file(path, folder, said or {}))
    for path in sorted(folder.rglob("*.py")):
        found.extend(_load_python_file(path, folder, said or {}))
    return order_models(found)


def order_models(models: Sequence[Model]) -> tuple[Model, ...]:
    """Return models with inputs before their readers; two of one name become one with an error."""
    merged = _merge_duplicates(models)
    functions = {model.name for model in merged if model.kind == "function"}
    called = ((model, [name for name in model.calls if name in functions]) for model in merged)
    return _sort_by_inputs(
        [replace(model, reads=tuple(dict.fromkeys((*model.reads, *names)))) for model, names in called]
    )


def _load_file(path: Path, folder: Path, said: Mapping[str, str]) -> list[Model]:
    relative_path = path.relative_to(folder).as_posix()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return _build_broken_models(path, relative_path, f"{relative_path} can't be read: {error}", "")
    shared = parse_header(
        text, strict=False
    )  # it holds for all statements; what is wrong is reported with its own
    said_dialect, wrong_dialect = shared.get("dialect", "spark"), None
    dialect: Dialect = "spark"
    if is_dialect(said_dialect):
        dialect = said_dialect
    else:
        hint = f"use one of {', '.join(DIALECTS)}"
        reason = f'dialect "{said_dialect}" is unknown'
        wrong_dialect = build_error(reason, shared.lines["dialect"].start, text, hint)
    try:
        statements = split_statements(text, dialect)
    except TidelineError as error:
        return _build_broken_models(path, relative_path, f"{relative_path}: {wrong_dialect or error}", text)
    shared.lines.pop(RENAMED_FROM, None)  # a name is of one statement
    usual = {**_build_defaults(path, folder, said), **shared.lines}
    models = []
    end = 0
    for number, statement in enumerate(statements):
        begin = text.index(statement, end)
        end = begin + len(statement)
        try:
            if wrong_dialect is not None:
                raise wrong_dialect
            own = parse_header(statement, text, begin)
            header = Header({**usual, **own.lines}, own.checks)
            models.append(build_model(statement, relative_path, dialect, header, text, begin))
        except TidelineError as error:
            suffix = f"_{number + 1}" if len(statements) > 1 else ""
            reason = f"{relative_path}: {locate_in_file(error, text, begin)}"
            plain = Header({key: usual[key] for key in ("group", "owners", "description") if key in usual})
            known = _load_without_header(statement, relative_path, dialect, plain, reason)
            models += (
                [known] if known else _build_broken_models(path, relative_path, reason, statement, suffix)[:1]
            )
    return models


def _load_without_header(text: str, path: str, dialect: Dialect, header: Header, error: str) -> Model | None:
    """Return the model with an error of its header, by which it is still known; None if it is the statement that is wrong."""
    try:
        return replace(build_model(text, path, dialect, header, ""), error=error)
    except TidelineError:
        return None


def _load_python_file(path: Path, folder: Path, said: Mapping[str, str]) -> list[Model]:
    relative_path = path.relative_to(folder).as_posix()
    try:
        declared = load_declarations(path)
    except TidelineError as error:
        return _build_broken_models(path, relative_path, f"{relative_path}: {error}", "")
    models = []
    for declaration in declared:
        own = {key: HeaderLine(value) for key, value in declaration.header.items()}
        header = Header({**_build_defaults(path, folder, said), **own})
        try:
            text = declaration.build_statement()
            models.append(build_model(text, relative_path, declaration.dialect, header, ""))
        except TidelineError as error:
            reason = f"{relative_path}, line {declaration.line}, {declaration.name}: {error}"
            name = as_asset_name(declaration.name)
            models.append(Model(name, "materialized view", "", relative_path, error=reason))
    return models


def _build_defaults(path: Path, folder: Path, said: Mapping[str, str]) -> dict[str, HeaderLine]:
    """Return what holds of a file's models where their headers say nothing."""
    return {key: HeaderLine(value) for key, value in {"group": _find_group(path, folder), **said}.items()}


def _find_group(path: Path, folder: Path) -> str:
    return name_group(path.relative_to(folder))


def name_group(path: Path) -> str:
    """Return the group of the models of a file by its path below the folder of models."""
    parent = path.parent.as_posix().replace("/", "_").replace("-", "_")
    return "default" if parent == "." else parent


def build_model(text: str, path: str, dialect: Dialect, header: Header, whole: str, begin: int = 0) -> Model:
    """Return the model that a statement is; places are those of the text `whole`, in which it begins at a character.

    Raises SqlError for a statement that is no model.
    """
    statement = parse_statement(text, dialect)
    own = _strip_header(statement.sql)
    at = whole.find(own, begin) if whole else -1
    delta = header.lines.get(DELTA)
    gate = header.lines.get(GATE)
    places: dict[str, int] = {}
    if header.checks:
        text, places[CHECKS] = (
            _add_checks(text, statement, dialect, header.checks, whole),
            header.checks[0].start,
        )
    if gate is not None:
        text, places[GATE] = _add_gate(text, statement, dialect, gate, whole), gate.start
    if delta is not None:
        text = _add_delta(text, statement, dialect, delta, whole)
        places |= dict.fromkeys(("path", "url", "connector"), delta.start)
    source = SourceText(whole, at, own, places) if at >= 0 else None
    if places:
        statement = parse_statement(text, dialect)
    former = header.lines.get(RENAMED_FROM)
    name = str(getattr(statement, "name", ""))
    model = functools.partial(
        Model,
        renamed_from="" if former is None else parse_former_name(former, name, whole),
        renamed_at=0 if former is None else former.start,
        sql=_strip_header(statement.sql),
        path=path,
        dialect=dialect,
        group=header.get("group"),
        owners=tuple(owner.strip() for owner in header.get("owners").split(",") if owner.strip()),
        description=header.get("description"),
        tags=parse_tags(header.lines["tags"], whole) if "tags" in header.lines else {},
        freshness=parse_freshness(header.lines["freshness"], whole) if "freshness" in header.lines else None,
        automation=parse_automation(header.lines["automation"], whole)
        if "automation" in header.lines
        else None,
        source_text=source,
    )
    _check_can_be_asset(statement, text)
    match statement:
        case CreateTable():
            columns = tuple(statement.columns)
            kind = "source" if statement.pass_through else "table"
            return model(statement.name, kind, columns=columns, options=dict(statement.options))
        case CreateMaterializedView():
            reads = find_read_relations(statement.query)
            options = dict(statement.options)
            calls = find_calls(statement.query)
            return model(
                statement.name,
                "materialized view",
                reads=reads,
                calls=calls,
                options=options,
                copy=statement.copy,
            )
        case CreateView():
            calls = find_calls(statement.query)
            return model(statement.name, "view", reads=find_read_relations(statement.query), calls=calls)
        case CreateFunction():
            calls = _check_function(statement, dialect)
            return model(
                statement.name, "function", sql=strip_replace(_strip_header(statement.sql)), calls=calls
            )
        case CreateSink():
            reads = (statement.source, *((statement.into,) if statement.into else ()))
            return model(statement.name, "sink", reads=reads, options={"into": statement.into or ""})
    raise SqlError(
        "a model is a CREATE TABLE, CREATE VIEW, CREATE MATERIALIZED VIEW, CREATE FUNCTION or CREATE SINK",
        sql=text,
        hint="run other statements with `tideline sql`",
    )


def _check_can_be_asset(statement: Statement, text: str) -> None:
    """Raise SqlError for what a session may make, but no asset can stand for."""
    if isinstance(statement, CreateSink) and statement.query is not None:
        hint = "make the query a CREATE MATERIALIZED VIEW in a file of its own, and the sink FROM it"
        raise SqlError("a sink AS SELECT is no model", sql=text, line=1, column=1, hint=hint)
    name = str(getattr(statement, "name", ""))
    if "." in name:
        hint = "leave the schema out: names of assets have no dots"
        raise SqlError(f"a model is in no schema: {name}", sql=text, line=1, column=1, hint=hint)
    if name and re.fullmatch(r"[A-Za-z0-9_]+", name) is None:
        hint = "use letters, digits and underscores: Dagster takes no others"
        raise SqlError(f'"{name}" is no name for an asset', sql=text, line=1, column=1, hint=hint)


def find_read_relations(query: exp.Expr) -> tuple[str, ...]:
    """Return the names of the relations that a query names, without those of its own WITH clauses."""
    own = {cte.alias_or_name.lower() for cte in query.find_all(exp.CTE)}
    names = (
        table.name if table.this.args.get("quoted") else table.name.lower()
        for table in query.find_all(exp.Table)
    )
    return tuple(dict.fromkeys(name for name in names if name and name not in own))


def find_calls(query: exp.Expr) -> tuple[str, ...]:
    """Return the names of the functions that a query calls and that are not built in."""
    return tuple(dict.fromkeys(str(call.name).lower() for call in query.find_all(exp.Anonymous)))


def _check_function(statement: CreateFunction, dialect: Dialect) -> tuple[str, ...]:
    """Return what the body of a function calls; raises SqlError for one that cannot be. Nothing of it runs."""
    if statement.language == "python":
        build_definition(statement)
        return ()
    macro = Macro(statement.parameters, statement.returns, extract_body(statement, dialect))
    return find_calls(parse_body(macro, dialect))


def _add_checks(
    text: str, statement: Statement, dialect: Dialect, checks: Sequence[HeaderLine], whole: str
) -> str:
    """Return a statement with the checks of its header as the option that they are; raises SqlError at their lines."""
    first = checks[0].start
    if not isinstance(statement, CreateMaterializedView):
        hint = "take the line out: a table takes what is written, a plain view holds nothing"
        raise build_error("checks are of a materialized view", first, whole, hint)
    if CHECKS in statement.options:
        raise build_error("checks are in the header and in WITH", first, whole, "leave one of the two out")
    for check in checks:
        _check_syntax(check.value, check.start, whole)
    check_text = ";\n".join(check.value for check in checks)
    _check_syntax(check_text, first, whole)
    return with_option(text, dialect, CHECKS, check_text)


def _add_gate(text: str, statement: Statement, dialect: Dialect, line: HeaderLine, whole: str) -> str:
    """Return a statement with the gate of its header as the option that it is; raises SqlError at its line."""
    if not isinstance(statement, CreateMaterializedView):
        hint = "take the line out: only a materialized view has rows that another query changes"
        raise build_error("a gate is of a materialized view", line.start, whole, hint)
    if GATE in statement.options:
        raise build_error(
            "a gate is in the header and in WITH", line.start, whole, "leave one of the two out"
        )
    try:
        parse_gate(line.value, "")
    except SqlError as error:
        raise build_error(error.message, line.start, whole, error.hint) from error
    return with_option(text, dialect, GATE, line.value)


def _add_delta(text: str, statement: Statement, dialect: Dialect, line: HeaderLine, whole: str) -> str:
    """Return a statement with the place of its header's Delta table as the options that it is; raises SqlError at its line."""
    if not isinstance(statement, CreateMaterializedView):
        hint = "take the line out: CREATE SINK … FROM it keeps a Delta table of what is no materialized view"
        raise build_error("a Delta table is kept of a materialized view", line.start, whole, hint)
    if statement.copy:
        raise build_error(
            "a Delta table is in the header and in WITH", line.start, whole, "leave one of the two out"
        )
    if not line.value:
        raise build_error(
            "this line names no place", line.start, whole, "write -- delta: folder, or an address"
        )
    option = "url" if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", line.value) else "path"
    return with_option(with_option(text, dialect, option, line.value), dialect, "connector", "delta")


def _check_syntax(checks: str, at: int, whole: str) -> None:
    try:
        parse_checks(checks, "")
    except SqlError as error:
        raise build_error(error.message, at, whole, error.hint) from error


def _strip_header(text: str) -> str:
    lines = text.strip().rstrip(";").splitlines()
    first = next((i for i, line in enumerate(lines) if line.strip() and not line.strip().startswith("--")), 0)
    return "\n".join(lines[first:])


def _build_broken_models(
    path: Path, relative_path: str, error: str, sql: str, suffix: str = ""
) -> list[Model]:
    """Return the models of a text that can't be read, under the names that it gives them if these can be seen."""
    named = find_created_names(sql) or [(as_asset_name(path.stem) + suffix, "materialized view")]
    return [Model(name, kind, sql, relative_path, error=error) for name, kind in named]


def as_asset_name(text: str) -> str:
    """Return a name that Dagster takes, for what has none or another: no two texts give the same."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if name == text else f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _merge_duplicates(models: Sequence[Model]) -> list[Model]:
    first: dict[str, Model] = {}
    for model in models:
        other = first.setdefault(model.name, model)
        if other is not model:
            reason = f"{model.name} is declared twice: in {other.path} and in {model.path}"
            first[model.name] = Model(
                other.name, other.kind, other.sql, other.path, other.dialect, error=reason
            )
    return list(first.values())


def _sort_by_inputs(models: Sequence[Model]) -> tuple[Model, ...]:
    by_name = {model.name: model for model in models}
    done: dict[str, Model] = {}
    visiting: set[str] = set()

    def visit(model: Model) -> None:
        if model.name in done or model.name in visiting:
            return
        visiting.add(model.name)
        for upstream in model.reads:
            if upstream in by_name:
                visit(by_name[upstream])
        done[model.name] = model

    for model in models:
        visit(model)
    return tuple(done.values())
