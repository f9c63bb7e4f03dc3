"""Statements that are read from their tokens: FLUSH, SHOW, SET, RESET, ALTER and COMMENT ON."""

from __future__ import annotations

import re
from typing import Literal

import sqlglot.expressions as exp
from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from engine.sql.catalog import RelationKind, check_name
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import NAME, parse_name
from engine.sql.parsing.statement_errors import (
    locate_character,
    sql_error,
    unsupported_error,
    unsupported_error_at,
)
from engine.sql.parsing.tokens import tokenize
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.schemas import qualify_name, strip_schema
from engine.sql.statements.ddl.alter_remedies import REMEDIES
from engine.sql.statements.ddl.column_list import read_column
from engine.sql.statements.ddl.defaults import render_default
from engine.sql.statements.session.ignored_statements import read_ignored_statement
from engine.sql.statements.session.prepared import read_prepared
from engine.sql.statements.session.session_statements import (
    CancelJobs,
    CreateSchema,
    DropSchema,
    Flush,
    Refresh,
    Use,
    Wait,
)
from engine.sql.statements.session.set_statements import read_set
from engine.sql.statements.session.show_statements import read_show
from engine.sql.statements.statement_types import (
    AddColumn,
    Alter,
    AlterAction,
    AlterColumn,
    ApproveQuery,
    Comment,
    DiscardQuery,
    DropColumn,
    NoMeaning,
    RenameColumn,
    RenameTo,
    ReplaceQuery,
    Resync,
    SetOptions,
    Statement,
    Steer,
    SwapWith,
)

_UNITS = {"SECOND": 1.0, "MINUTE": 60.0, "HOUR": 3600.0}
_KINDS: tuple[RelationKind, ...] = ("materialized view", "table", "view", "index", "function")
_RATES = (
    *("PARALLELISM", "SOURCE_RATE_LIMIT", "BACKFILL_RATE_LIMIT", "DML_RATE_LIMIT", "STREAMING_RATE_LIMIT"),
    "BACKFILL_PARALLELISM",
)
_ALTER = (
    "ALTER TABLE t RENAME TO u, SWAP WITH u, RENAME COLUMN a TO b, ADD COLUMN a TYPE, DROP COLUMN a, ALTER COLUMN a …, "
    "SET SCHEMA s, RESYNC; ALTER MATERIALIZED VIEW v AS SELECT …, APPROVE, DISCARD, RESYNC, SET option = value, PAUSE, RESUME"
)
_WAIT = "WAIT [FOR view, …] [WITHIN n SECONDS | MINUTES | HOURS]"
WAIT_SECONDS = 3600.0


def read_own_statement(readable: str, sql: str, dialect: Dialect) -> Statement | None:
    """Return the statement if it is one of these, else None; raises SqlError or UnsupportedSql with the place."""
    text, start = readable.strip(), len(readable) - len(readable.lstrip())
    if re.fullmatch(
        r"FLUSH|RECOVER", text, re.IGNORECASE
    ):  # what failed is tried again at once, from where it committed
        return Flush(sql)
    first = text.split(None, 1)[0].upper() if text else ""
    own = read_prepared(readable, sql, dialect) or read_ignored_statement(text, sql)
    if own is not None:
        return own
    pattern = rf"REFRESH\s+MATERIALIZED\s+VIEW\s+(?:CONCURRENTLY\s+)?({NAME})(?:\s+WITH\s+DATA)?"
    if found := re.fullmatch(pattern, text, re.IGNORECASE):
        return Refresh(parse_name(found[1], dialect), sql)
    if first in ("SET", "RESET"):
        return read_set(readable, sql, dialect)
    if first == "WAIT":
        return _TokenReader(readable, sql, dialect).read_wait()
    if first == "SHOW":
        return read_show(text, start, sql, dialect)
    if first == "ALTER" and not re.match(r"ALTER\s+SINK\b", text, re.IGNORECASE):
        return _TokenReader(readable, sql, dialect).read_alter()
    if found := re.match(r"(CREATE|DROP)\s+(SCHEMA|DATABASE)\b", text, re.IGNORECASE):
        reader = _TokenReader(readable, sql, dialect)
        reader.at = 2
        return reader.read_create_schema() if found[1].upper() == "CREATE" else reader.read_drop_schema()
    if first == "CANCEL":
        return _TokenReader(readable, sql, dialect).read_cancel()
    if first == "USE":
        return _TokenReader(readable, sql, dialect).read_use()
    if first == "COMMENT" and re.match(r"COMMENT\s+ON\b", text, re.IGNORECASE):
        return _TokenReader(readable, sql, dialect).read_comment()
    return None


class _TokenReader:
    """Reads one statement token by token."""

    def __init__(self, readable: str, sql: str, dialect: Dialect) -> None:
        self.readable, self.sql, self.dialect = readable, sql, dialect
        self.tokens: tuple[Token, ...] = tokenize(readable, dialect)
        self.at = 1

    def peek(self, ahead: int = 0) -> str:
        n = self.at + ahead
        return self.tokens[n].text.upper() if n < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Go on behind these words if they come next."""
        if any(self.peek(n) != word for n, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def build_error(self, message: str, hint: str) -> Exception:
        n = min(self.at, len(self.tokens) - 1)
        return unsupported_error_at(message, self.sql, self.tokens[n].start, hint)

    def read_name(self, what: str, hint: str) -> str:
        """Take the next token as a name."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        quoted = token is not None and self.readable[token.start] in ('"', "`")
        if token is None or not (quoted or re.match(r"\w", token.text)):
            raise self.build_error(f"{what} is missing", hint)
        self.at += 1
        return token.text if quoted else token.text.lower()

    def read_relation(self, what: str, hint: str) -> str:
        """Take the next tokens as the name of a relation, with its schema or without."""
        name = self.read_name(what, hint)
        return qualify_name(name, self.read_name(what, hint), self.dialect) if self.accept(".") else name

    def expect_end(self, hint: str) -> None:
        if self.at < len(self.tokens):
            raise self.build_error(f"{self.tokens[self.at].text} is not expected here", hint)

    def read_kind(self, hint: str) -> RelationKind:
        if self.accept("SOURCE"):
            return "source"
        for kind in _KINDS:
            if self.accept(*kind.upper().split()):
                return kind
        raise self.build_error(f"{self.peek()} cannot be meant here", hint)

    # ---- ALTER -----------------------------------------------------------------------------------------------
    def read_alter(self) -> Alter:
        kind = self.read_kind(_ALTER)
        if_exists = self.accept("IF", "EXISTS")
        if self.peek() == "ONLY" and self.peek(2) in ("ADD", "DROP", "ALTER", "RENAME", "SET", "OWNER", "."):
            self.at += 1
        name = self.read_relation(f"the name of the {kind}", _ALTER)
        return Alter(kind, name, self._read_action(kind, name), if_exists, self.sql)

    def _read_action(self, kind: str, relation: str) -> AlterAction:
        rates = self.peek() == "SET" and self.peek(1) in _RATES
        if kind == "source" and not rates and self.peek() != "OWNER":
            hint = "DROP SOURCE … CASCADE and CREATE it again; ALTER TABLE changes tables, which keep the rows of a connector"
            raise self.build_error(f"ALTER SOURCE … {self.peek()} is not offered", hint)
        if self.accept("RENAME", "TO"):
            found: AlterAction = RenameTo(self._read_new_name(kind))
        elif self.accept("SWAP", "WITH"):
            found = SwapWith(self.read_relation(f"the other {kind}", _ALTER))
        elif self.accept("RENAME"):
            self.accept("COLUMN")
            old = self.read_name("the column", _ALTER)
            if not self.accept("TO"):
                raise self.build_error("TO and the new name are missing", _ALTER)
            found = RenameColumn(old, self._read_new_name("column"))
        elif self.peek() == "ADD" and kind == "table":
            return self._read_add_column()
        elif self.peek() == "ALTER" and kind == "table":
            return self._read_alter_column()
        elif self.accept("OWNER", "TO"):
            self.read_name("the role", _ALTER)
            found = NoMeaning("there are no roles: whose a relation is means nothing here")
        elif self.accept("SET", "SCHEMA"):
            found = RenameTo(
                qualify_name(self.read_name("the schema", _ALTER), strip_schema(relation), self.dialect)
            )
        elif kind in ("table", "source", "index") and rates:
            self.accept("SET")
            self._read_options()
            found = NoMeaning(f"the tasks and the pace of a {kind} follow from what there is to do")
        elif self.accept("DROP"):
            self.accept("COLUMN")
            if_exists = self.accept("IF", "EXISTS")
            found = DropColumn(self.read_name("the column", _ALTER), if_exists)
            if self.peek() == "CASCADE":
                hint = "drop what reads the column first"
                raise self.build_error("DROP COLUMN … CASCADE is not offered", hint)
            self.accept("RESTRICT")
        elif self.accept("SET"):
            found = self._read_options()
        elif kind in ("table", "materialized view") and self.accept("RESYNC"):
            found = Resync()
        elif kind == "materialized view" and self.peek() == "AS" and self.peek(1):
            return ReplaceQuery(self.sql[self.tokens[self.at + 1].start :])
        elif kind == "materialized view" and self.accept("PAUSE"):
            found = Steer("pause")
        elif kind == "materialized view" and self.accept("RESUME"):
            found = Steer("resume")
        elif kind == "materialized view" and self.accept("APPROVE"):
            found = ApproveQuery()
        elif kind == "materialized view" and self.accept("DISCARD"):
            found = DiscardQuery()
        else:
            remedy = REMEDIES.get(self.peek(), _ALTER)
            raise self.build_error(f"ALTER {kind.upper()} … {self.peek()} is not offered", remedy)
        self.expect_end(_ALTER)
        return found

    def _read_alter_column(self) -> AlterColumn:
        hint = "ALTER COLUMN a SET DEFAULT value, DROP DEFAULT, SET NOT NULL or DROP NOT NULL"
        self.accept("ALTER")
        self.accept("COLUMN")
        column = self.read_name("the column", hint)
        if self.accept("SET", "NOT", "NULL"):
            found = AlterColumn(column, "not null")
        elif self.accept("DROP", "NOT", "NULL"):
            found = AlterColumn(column, "nullable")
        elif self.accept("DROP", "DEFAULT"):
            found = AlterColumn(column, "default")
        elif self.peek() == "SET" and self.peek(1) == "DEFAULT":
            return AlterColumn(column, "default", self._read_new_default(column, hint))
        elif self.peek() == "TYPE" or (self.peek() == "SET" and self.peek(1) == "DATA"):
            remedy = "ADD COLUMN of the other type and UPDATE it, or make a new table and INSERT … SELECT"
            raise self.build_error("the type of a column stays as it is", remedy)
        else:
            raise self.build_error(f"ALTER COLUMN … {self.peek()} is not offered", hint)
        self.expect_end(hint)
        return found

    def _read_new_default(self, column: str, hint: str) -> str:
        try:
            tree = parse_tree(self.readable, self.dialect)
        except ParseError as error:
            raise self.build_error("the DEFAULT cannot be read", hint) from error
        actions = tree.args.get("actions") or [] if isinstance(tree, exp.Alter) else []
        value = actions[0].args.get("default") if len(actions) == 1 else None
        if value is None:
            raise self.build_error("the DEFAULT cannot be read", hint)
        return render_default(value, column, self.dialect, self.sql)

    def _read_new_name(self, kind: str) -> str:
        n = min(self.at, len(self.tokens) - 1)
        place = locate_character(self.sql, self.tokens[n].start)
        return check_name(self.read_name("the new name", _ALTER), kind, self.sql, *place)

    def _read_add_column(self) -> AddColumn:
        try:
            tree = parse_tree(self.readable, self.dialect)
        except ParseError as error:
            raise self.build_error(
                "the column cannot be read", "ADD COLUMN name TYPE [DEFAULT value]"
            ) from error
        actions = tree.args.get("actions") or [] if isinstance(tree, exp.Alter) else []
        if len(actions) != 1 or not isinstance(actions[0], exp.ColumnDef):
            raise self.build_error(
                "one column is expected", "ALTER TABLE t ADD COLUMN name TYPE [DEFAULT value]"
            )
        if actions[0].args.get("kind") is None:
            raise sql_error(
                "the column needs a type", actions[0], self.sql, "ADD COLUMN name TYPE [DEFAULT value]"
            )
        if (position := actions[0].args.get("position")) is not None:
            what, hint = f"{position.args['position']} of a new column", "leave it out: new columns come last"
            raise unsupported_error(f"{what} is not offered", actions[0], self.sql, hint)
        column, is_key, computed = read_column(actions[0], self.sql, self.dialect)
        if is_key or computed is not None:
            what = "a key column" if is_key else "a generated column"
            hint = "make a new table and INSERT … SELECT"
            raise unsupported_error(f"{what} cannot be added", actions[0], self.sql, hint)
        return AddColumn(column, bool(actions[0].args.get("exists")))

    def _read_options(self) -> SetOptions:
        hint = "SET option = value, or SET (option = value, …)"
        many = self.accept("(")
        options: dict[str, str] = {}
        while True:
            name = self.read_relation("the option", hint)  # it may have a dot, too
            if not (self.accept("=") or self.accept("TO") or (name == "parallelism" and not many)):
                raise self.build_error("= and a value are missing", hint)
            if self.at >= len(self.tokens):
                raise self.build_error("the value is missing", hint)
            options[name] = self.tokens[self.at].text
            self.at += 1
            if not many:
                return SetOptions(options)
            if self.accept(")"):
                return SetOptions(options)
            if not self.accept(","):
                raise self.build_error("a comma or ) is missing", hint)

    # ---- SCHEMA ----------------------------------------------------------------------------------------------
    def read_create_schema(self) -> CreateSchema:
        hint = "CREATE SCHEMA [IF NOT EXISTS] name"
        exists = self.accept("IF", "NOT", "EXISTS")
        n = min(self.at, len(self.tokens) - 1)
        place = locate_character(self.sql, self.tokens[n].start)
        name = check_name(self.read_name("the name", hint), "schema", self.sql, *place)
        if self.accept("AUTHORIZATION"):  # whose it is means nothing: there are no roles
            self.read_name("the role", hint)
        self.expect_end(hint)
        return CreateSchema(name, exists, self.sql)

    def read_drop_schema(self) -> DropSchema:
        hint = "DROP SCHEMA [IF EXISTS] name [CASCADE]"
        exists = self.accept("IF", "EXISTS")
        name = self.read_name("the name", hint)
        cascade = self.accept("CASCADE")
        if not cascade:
            self.accept("RESTRICT")
        self.expect_end(hint)
        return DropSchema(name, exists, cascade, self.sql)

    def read_use(self) -> Use:
        hint = "USE schema; USE default, or public, is the store's own"
        if self.peek(1):
            self.accept("SCHEMA") or self.accept("DATABASE")
        name = self.read_name("the schema", hint)
        self.expect_end(hint)
        return Use(name, self.sql)

    # ---- JOBS ------------------------------------------------------------------------------------------------
    def read_cancel(self) -> CancelJobs:
        hint = "CANCEL JOBS 1, 2; SHOW JOBS shows the numbers"
        if not (self.accept("JOBS") or self.accept("JOB")):
            raise self.build_error(f"CANCEL {self.peek()} is not offered", hint)
        numbers: list[int] = []
        while not numbers or self.accept(","):
            if re.fullmatch(r"\d{1,18}", self.peek()) is None:
                raise self.build_error("the number of a job is missing", hint)
            numbers.append(int(self.peek()))
            self.at += 1
        self.expect_end(hint)
        return CancelJobs(tuple(numbers), self.sql)

    # ---- WAIT ------------------------------------------------------------------------------------------------
    def read_wait(self) -> Wait:
        views: list[str] = []
        seconds = WAIT_SECONDS
        if self.accept("FOR"):
            views.append(self.read_name("the view", _WAIT))
            while self.accept(","):
                views.append(self.read_name("the view", _WAIT))
        if self.accept("WITHIN"):
            found = re.fullmatch(r"\d+(\.\d+)?", self.peek())
            self.at += 1
            unit = next((u for u in _UNITS if self.accept(u) or self.accept(f"{u}S")), None)
            if found is None or unit is None:
                self.at = min(self.at, len(self.tokens)) - 1
                raise self.build_error("a time is expected", _WAIT)
            seconds = float(found[0]) * _UNITS[unit]
        self.expect_end(_WAIT)
        return Wait(tuple(views), seconds, self.sql)

    # ---- COMMENT ON ------------------------------------------------------------------------------------------
    def read_comment(self) -> Comment:
        hint = "COMMENT ON TABLE t IS 'text', COMMENT ON COLUMN t.a IS 'text'; NULL removes it"
        self.accept("ON")
        column = None
        if self.accept("COLUMN"):
            kind: RelationKind | Literal[""] = ""
            name = self.read_name("the table", hint)
            if not self.accept("."):
                raise self.build_error("the column is missing", hint)
            column = self.read_name("the column", hint)
            if self.accept("."):
                name, column = qualify_name(name, column, self.dialect), self.read_name("the column", hint)
        else:
            kind = self.read_kind(hint)
            name = self.read_relation("the name", hint)
        if not self.accept("IS"):
            raise self.build_error("IS and the text are missing", hint)
        text = None
        if not self.accept("NULL"):
            if self.at >= len(self.tokens) or self.tokens[self.at].token_type != TokenType.STRING:
                raise self.build_error("a text in quotes is expected", hint)
            text = self.tokens[self.at].text
            self.at += 1
        self.expect_end(hint)
        return Comment(kind, name, column, text, self.sql)
