"""Statements that are read from their tokens: FLUSH, SHOW, SET, RESET, ALTER and COMMENT ON."""

from __future__ import annotations

import re
from typing import Literal

import sqlglot.expressions as exp
from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from engine.sql.catalog import RelationKind, check_name
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import NAME, written_name
from engine.sql.parsing.parsed import parsed
from engine.sql.parsing.refusals import line_and_column, mistake, refusal, unsupported
from engine.sql.parsing.tokens import tokens_of
from engine.sql.schemas import last_name, within
from engine.sql.statements.alter_remedies import REMEDIES
from engine.sql.statements.column_list import column_of
from engine.sql.statements.defaults import default_text
from engine.sql.statements.prepared import prepared_statement
from engine.sql.statements.session_statements import (
    CancelJobs,
    CreateSchema,
    DropSchema,
    Flush,
    Refresh,
    Use,
    Wait,
)
from engine.sql.statements.set_statements import set_statement
from engine.sql.statements.show_statements import show_statement
from engine.sql.statements.statement_types import (
    AddColumn,
    Alter,
    AlterAction,
    AlterColumn,
    Comment,
    DropColumn,
    NoMeaning,
    RenameColumn,
    RenameTo,
    Resync,
    SetOptions,
    Statement,
    Steer,
    SwapWith,
)
from engine.sql.statements.taken_statements import taken_statement

_UNITS = {"SECOND": 1.0, "MINUTE": 60.0, "HOUR": 3600.0}
_KINDS: tuple[RelationKind, ...] = ("materialized view", "table", "view", "index", "function")
_RATES = (
    *("PARALLELISM", "SOURCE_RATE_LIMIT", "BACKFILL_RATE_LIMIT", "DML_RATE_LIMIT", "STREAMING_RATE_LIMIT"),
    "BACKFILL_PARALLELISM",
)
_ALTER = (
    "ALTER TABLE t RENAME TO u, SWAP WITH u, RENAME COLUMN a TO b, ADD COLUMN a TYPE, DROP COLUMN a, ALTER COLUMN a …, "
    "SET SCHEMA s, RESYNC; ALTER MATERIALIZED VIEW v SET option = value, PAUSE, RESUME"
)
_WAIT = "WAIT [FOR view, …] [WITHIN n SECONDS | MINUTES | HOURS]"
WAIT_SECONDS = 3600.0


def own_statement(readable: str, sql: str, dialect: Dialect) -> Statement | None:
    """Return the statement if it is one of these, else None; raises SqlError or UnsupportedSql with the place."""
    text, start = readable.strip(), len(readable) - len(readable.lstrip())
    if re.fullmatch(
        r"FLUSH|RECOVER", text, re.IGNORECASE
    ):  # what failed is tried again at once, from where it committed
        return Flush(sql)
    first = text.split(None, 1)[0].upper() if text else ""
    own = prepared_statement(readable, sql, dialect) or taken_statement(text, sql)
    if own is not None:
        return own
    pattern = rf"REFRESH\s+MATERIALIZED\s+VIEW\s+(?:CONCURRENTLY\s+)?({NAME})(?:\s+WITH\s+DATA)?"
    if found := re.fullmatch(pattern, text, re.IGNORECASE):
        return Refresh(written_name(found[1], dialect), sql)
    if first in ("SET", "RESET"):
        return set_statement(readable, sql, dialect)
    if first == "WAIT":
        return _Reader(readable, sql, dialect).wait()
    if first == "SHOW":
        return show_statement(text, start, sql, dialect)
    if first == "ALTER" and not re.match(r"ALTER\s+SINK\b", text, re.IGNORECASE):
        return _Reader(readable, sql, dialect).alter()
    if found := re.match(r"(CREATE|DROP)\s+(SCHEMA|DATABASE)\b", text, re.IGNORECASE):
        reader = _Reader(readable, sql, dialect)
        reader.at = 2
        return reader.create_schema() if found[1].upper() == "CREATE" else reader.drop_schema()
    if first == "CANCEL":
        return _Reader(readable, sql, dialect).cancel()
    if first == "USE":
        return _Reader(readable, sql, dialect).use()
    if first == "COMMENT" and re.match(r"COMMENT\s+ON\b", text, re.IGNORECASE):
        return _Reader(readable, sql, dialect).comment()
    return None


class _Reader:
    """Reads one statement token by token."""

    def __init__(self, readable: str, sql: str, dialect: Dialect) -> None:
        self.readable, self.sql, self.dialect = readable, sql, dialect
        self.tokens: tuple[Token, ...] = tokens_of(readable, dialect)
        self.at = 1

    def word(self, ahead: int = 0) -> str:
        n = self.at + ahead
        return self.tokens[n].text.upper() if n < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Go on behind these words if they come next."""
        if any(self.word(n) != word for n, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def wrong(self, message: str, hint: str) -> Exception:
        n = min(self.at, len(self.tokens) - 1)
        return refusal(message, self.sql, self.tokens[n].start, hint)

    def name(self, what: str, hint: str) -> str:
        """Take the next token as a name."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        quoted = token is not None and self.readable[token.start] in ('"', "`")
        if token is None or not (quoted or re.match(r"\w", token.text)):
            raise self.wrong(f"{what} is missing", hint)
        self.at += 1
        return token.text if quoted else token.text.lower()

    def relation(self, what: str, hint: str) -> str:
        """Take the next tokens as the name of a relation, with its schema or without."""
        name = self.name(what, hint)
        return within(name, self.name(what, hint), self.dialect) if self.take(".") else name

    def end(self, hint: str) -> None:
        if self.at < len(self.tokens):
            raise self.wrong(f"{self.tokens[self.at].text} is not expected here", hint)

    def kind(self, hint: str) -> RelationKind:
        if self.take("SOURCE"):
            return "source"
        for kind in _KINDS:
            if self.take(*kind.upper().split()):
                return kind
        raise self.wrong(f"{self.word()} cannot be meant here", hint)

    # ---- ALTER -----------------------------------------------------------------------------------------------
    def alter(self) -> Alter:
        kind = self.kind(_ALTER)
        if_exists = self.take("IF", "EXISTS")
        if self.word() == "ONLY" and self.word(2) in ("ADD", "DROP", "ALTER", "RENAME", "SET", "OWNER", "."):
            self.at += 1
        name = self.relation(f"the name of the {kind}", _ALTER)
        return Alter(kind, name, self._action(kind, name), if_exists, self.sql)

    def _action(self, kind: str, relation: str) -> AlterAction:
        rates = self.word() == "SET" and self.word(1) in _RATES
        if kind == "source" and not rates and self.word() != "OWNER":
            hint = "DROP SOURCE … CASCADE and CREATE it again; ALTER TABLE changes tables, which keep the rows of a connector"
            raise self.wrong(f"ALTER SOURCE … {self.word()} is not offered", hint)
        if self.take("RENAME", "TO"):
            found: AlterAction = RenameTo(self._new_name(kind))
        elif self.take("SWAP", "WITH"):
            found = SwapWith(self.relation(f"the other {kind}", _ALTER))
        elif self.take("RENAME"):
            self.take("COLUMN")
            old = self.name("the column", _ALTER)
            if not self.take("TO"):
                raise self.wrong("TO and the new name are missing", _ALTER)
            found = RenameColumn(old, self._new_name("column"))
        elif self.word() == "ADD" and kind == "table":
            return self._add_column()
        elif self.word() == "ALTER" and kind == "table":
            return self._alter_column()
        elif self.take("OWNER", "TO"):
            self.name("the role", _ALTER)
            found = NoMeaning("there are no roles: whose a relation is means nothing here")
        elif self.take("SET", "SCHEMA"):
            found = RenameTo(within(self.name("the schema", _ALTER), last_name(relation), self.dialect))
        elif kind in ("table", "source", "index") and rates:
            self.take("SET")
            self._options()
            found = NoMeaning(f"the tasks and the pace of a {kind} follow from what there is to do")
        elif self.take("DROP"):
            self.take("COLUMN")
            if_exists = self.take("IF", "EXISTS")
            found = DropColumn(self.name("the column", _ALTER), if_exists)
            if self.word() == "CASCADE":
                hint = "drop what reads the column first"
                raise self.wrong("DROP COLUMN … CASCADE is not offered", hint)
            self.take("RESTRICT")
        elif self.take("SET"):
            found = self._options()
        elif kind == "table" and self.take("RESYNC"):
            found = Resync()
        elif kind == "materialized view" and self.take("PAUSE"):
            found = Steer("pause")
        elif kind == "materialized view" and self.take("RESUME"):
            found = Steer("resume")
        else:
            remedy = REMEDIES.get(self.word(), _ALTER)
            raise self.wrong(f"ALTER {kind.upper()} … {self.word()} is not offered", remedy)
        self.end(_ALTER)
        return found

    def _alter_column(self) -> AlterColumn:
        hint = "ALTER COLUMN a SET DEFAULT value, DROP DEFAULT, SET NOT NULL or DROP NOT NULL"
        self.take("ALTER")
        self.take("COLUMN")
        column = self.name("the column", hint)
        if self.take("SET", "NOT", "NULL"):
            found = AlterColumn(column, "not null")
        elif self.take("DROP", "NOT", "NULL"):
            found = AlterColumn(column, "nullable")
        elif self.take("DROP", "DEFAULT"):
            found = AlterColumn(column, "default")
        elif self.word() == "SET" and self.word(1) == "DEFAULT":
            return AlterColumn(column, "default", self._new_default(column, hint))
        elif self.word() == "TYPE" or (self.word() == "SET" and self.word(1) == "DATA"):
            remedy = "ADD COLUMN of the other type and UPDATE it, or make a new table and INSERT … SELECT"
            raise self.wrong("the type of a column stays as it is", remedy)
        else:
            raise self.wrong(f"ALTER COLUMN … {self.word()} is not offered", hint)
        self.end(hint)
        return found

    def _new_default(self, column: str, hint: str) -> str:
        try:
            tree = parsed(self.readable, self.dialect)
        except ParseError as error:
            raise self.wrong("the DEFAULT cannot be read", hint) from error
        actions = tree.args.get("actions") or [] if isinstance(tree, exp.Alter) else []
        value = actions[0].args.get("default") if len(actions) == 1 else None
        if value is None:
            raise self.wrong("the DEFAULT cannot be read", hint)
        return default_text(value, column, self.dialect, self.sql)

    def _new_name(self, kind: str) -> str:
        n = min(self.at, len(self.tokens) - 1)
        place = line_and_column(self.sql, self.tokens[n].start)
        return check_name(self.name("the new name", _ALTER), kind, self.sql, *place)

    def _add_column(self) -> AddColumn:
        try:
            tree = parsed(self.readable, self.dialect)
        except ParseError as error:
            raise self.wrong("the column cannot be read", "ADD COLUMN name TYPE [DEFAULT value]") from error
        actions = tree.args.get("actions") or [] if isinstance(tree, exp.Alter) else []
        if len(actions) != 1 or not isinstance(actions[0], exp.ColumnDef):
            raise self.wrong("one column is expected", "ALTER TABLE t ADD COLUMN name TYPE [DEFAULT value]")
        if actions[0].args.get("kind") is None:
            raise mistake(
                "the column needs a type", actions[0], self.sql, "ADD COLUMN name TYPE [DEFAULT value]"
            )
        if (position := actions[0].args.get("position")) is not None:
            what, hint = f"{position.args['position']} of a new column", "leave it out: new columns come last"
            raise unsupported(f"{what} is not offered", actions[0], self.sql, hint)
        column, is_key, computed = column_of(actions[0], self.sql, self.dialect)
        if is_key or computed is not None:
            what = "a key column" if is_key else "a generated column"
            hint = "make a new table and INSERT … SELECT"
            raise unsupported(f"{what} cannot be added", actions[0], self.sql, hint)
        return AddColumn(column, bool(actions[0].args.get("exists")))

    def _options(self) -> SetOptions:
        hint = "SET option = value, or SET (option = value, …)"
        many = self.take("(")
        options: dict[str, str] = {}
        while True:
            name = self.relation("the option", hint)  # it may have a dot, too
            if not (self.take("=") or self.take("TO") or (name == "parallelism" and not many)):
                raise self.wrong("= and a value are missing", hint)
            if self.at >= len(self.tokens):
                raise self.wrong("the value is missing", hint)
            options[name] = self.tokens[self.at].text
            self.at += 1
            if not many:
                return SetOptions(options)
            if self.take(")"):
                return SetOptions(options)
            if not self.take(","):
                raise self.wrong("a comma or ) is missing", hint)

    # ---- SCHEMA ----------------------------------------------------------------------------------------------
    def create_schema(self) -> CreateSchema:
        hint = "CREATE SCHEMA [IF NOT EXISTS] name"
        exists = self.take("IF", "NOT", "EXISTS")
        n = min(self.at, len(self.tokens) - 1)
        place = line_and_column(self.sql, self.tokens[n].start)
        name = check_name(self.name("the name", hint), "schema", self.sql, *place)
        if self.take("AUTHORIZATION"):  # whose it is means nothing: there are no roles
            self.name("the role", hint)
        self.end(hint)
        return CreateSchema(name, exists, self.sql)

    def drop_schema(self) -> DropSchema:
        hint = "DROP SCHEMA [IF EXISTS] name [CASCADE]"
        exists = self.take("IF", "EXISTS")
        name = self.name("the name", hint)
        cascade = self.take("CASCADE")
        if not cascade:
            self.take("RESTRICT")
        self.end(hint)
        return DropSchema(name, exists, cascade, self.sql)

    def use(self) -> Use:
        hint = "USE schema; USE default, or public, is the store's own"
        if self.word(1):
            self.take("SCHEMA") or self.take("DATABASE")
        name = self.name("the schema", hint)
        self.end(hint)
        return Use(name, self.sql)

    # ---- JOBS ------------------------------------------------------------------------------------------------
    def cancel(self) -> CancelJobs:
        hint = "CANCEL JOBS 1, 2; SHOW JOBS tells the numbers"
        if not (self.take("JOBS") or self.take("JOB")):
            raise self.wrong(f"CANCEL {self.word()} is not offered", hint)
        numbers: list[int] = []
        while not numbers or self.take(","):
            if re.fullmatch(r"\d{1,18}", self.word()) is None:
                raise self.wrong("the number of a job is missing", hint)
            numbers.append(int(self.word()))
            self.at += 1
        self.end(hint)
        return CancelJobs(tuple(numbers), self.sql)

    # ---- WAIT ------------------------------------------------------------------------------------------------
    def wait(self) -> Wait:
        views: list[str] = []
        seconds = WAIT_SECONDS
        if self.take("FOR"):
            views.append(self.name("the view", _WAIT))
            while self.take(","):
                views.append(self.name("the view", _WAIT))
        if self.take("WITHIN"):
            found = re.fullmatch(r"\d+(\.\d+)?", self.word())
            self.at += 1
            unit = next((u for u in _UNITS if self.take(u) or self.take(f"{u}S")), None)
            if found is None or unit is None:
                self.at = min(self.at, len(self.tokens)) - 1
                raise self.wrong("a time is expected", _WAIT)
            seconds = float(found[0]) * _UNITS[unit]
        self.end(_WAIT)
        return Wait(tuple(views), seconds, self.sql)

    # ---- COMMENT ON ------------------------------------------------------------------------------------------
    def comment(self) -> Comment:
        hint = "COMMENT ON TABLE t IS 'text', COMMENT ON COLUMN t.a IS 'text'; NULL takes it away"
        self.take("ON")
        column = None
        if self.take("COLUMN"):
            kind: RelationKind | Literal[""] = ""
            name = self.name("the table", hint)
            if not self.take("."):
                raise self.wrong("the column is missing", hint)
            column = self.name("the column", hint)
            if self.take("."):
                name, column = within(name, column, self.dialect), self.name("the column", hint)
        else:
            kind = self.kind(hint)
            name = self.relation("the name", hint)
        if not self.take("IS"):
            raise self.wrong("IS and the text are missing", hint)
        text = None
        if not self.take("NULL"):
            if self.at >= len(self.tokens) or self.tokens[self.at].token_type != TokenType.STRING:
                raise self.wrong("a text in quotes is expected", hint)
            text = self.tokens[self.at].text
            self.at += 1
        self.end(hint)
        return Comment(kind, name, column, text, self.sql)
