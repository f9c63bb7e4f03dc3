"""SQL files of a pipeline: CREATE MATERIALIZED VIEW, TEMPORARY VIEW, STREAMING TABLE and FLOW, as Spark's pipelines read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from engine.errors import SqlError, TidelineError
from engine.pipelines.elements import AUTO_CDC, Dataset, DatasetKind, Elements, OtherElement, QueryFlow
from engine.pipelines.spec import PipelineSpec
from engine.sql.parsing.statement_errors import locate_character
from engine.sql.parsing.tokens import tokenize
from engine.sql.statements.reader import split_statements

_DATASETS: dict[tuple[str, ...], DatasetKind] = {
    ("MATERIALIZED", "VIEW"): "materialized view",
    ("STREAMING", "TABLE"): "streaming table",
    ("TEMPORARY", "VIEW"): "temporary view",
    ("TEMP", "VIEW"): "temporary view",
}
_HINT = "a pipeline has CREATE MATERIALIZED VIEW, STREAMING TABLE, TEMPORARY VIEW or FLOW, SET and USE"


def read_sql_files(spec: PipelineSpec, found: Elements) -> None:
    """Add what the SQL files of a spec define; a statement that cannot be read is told, and others go on."""
    for file in spec.files:
        if file.suffix == ".sql":
            _read_file(spec, file, found)
        elif file.suffix != ".py":
            name = file.relative_to(spec.folder).as_posix()
            found.others.append(
                OtherElement("file", name, name, "a pipeline has files of .py and .sql alone")
            )


def _read_file(spec: PipelineSpec, file: Path, found: Elements) -> None:
    name = file.relative_to(spec.folder).as_posix()
    try:
        text = file.read_text(encoding="utf-8-sig")
        statements = split_statements(text, "spark")
    except (OSError, UnicodeDecodeError, TidelineError) as error:
        found.others.append(OtherElement("SQL file", name, name, str(error)))
        return
    home, conf = (spec.catalog, spec.database), dict[str, str]()
    end = 0
    for statement in statements:
        begin = text.index(statement, end)
        end = begin + len(statement)
        tokens = tokenize(statement, "spark")
        line = locate_character(text, begin + tokens[0].start)[0]
        reader = _StatementReader(statement, tokens, f"{name}:{line}", home, conf)
        try:
            reader.read(found)
        except SqlError as error:
            kind = " ".join(token.text.lower() for token in tokens[:3])
            found.others.append(OtherElement("statement", kind, reader.place, str(error)))
        home, conf = reader.home, reader.conf


class _StatementReader:
    """Reads one statement of a pipeline by its tokens; the query within it stays the text that it is."""

    def __init__(
        self,
        text: str,
        tokens: tuple[Token, ...],
        place: str,
        home: tuple[str, str],
        conf: dict[str, str],
    ) -> None:
        self.text, self.tokens, self.place = text, tokens, place
        self.home, self.conf = home, conf
        self.at = 0

    def read(self, found: Elements) -> None:
        """Add what the statement defines; raises SqlError for one that no pipeline has."""
        if self._accept("SET"):
            self._read_set()
        elif self._accept("USE"):
            self._read_use()
        elif self._accept("CREATE"):
            self._read_create(found)
        else:
            raise self._build_error(f"{self._peek()} is no statement of a pipeline", _HINT)

    def _read_create(self, found: Elements) -> None:
        if self._accept("OR"):
            self.at += 1  # REPLACE or REFRESH: a pipeline keeps what it defines
        if self._accept("FLOW"):
            self._read_flow(found)
            return
        kind = next((kind for words, kind in _DATASETS.items() if self._accept(*words)), None)
        if kind is None:
            word = " ".join(token.text.upper() for token in self.tokens[: self.at + 2])
            raise self._build_error(f"{word} is no statement of a pipeline", _HINT)
        self._accept("IF", "NOT", "EXISTS")
        name = self._read_name()
        dataset = Dataset(name, kind, self.place, self.home)
        label = ".".join(name)
        try:
            dataset, text = self._read_dataset(dataset)
        except SqlError as error:
            found.flows.append(self._build_flow(label, name, "", str(error)))
        else:
            found.flows += [self._build_flow(label, name, text)] if text else []
        found.datasets.append(dataset)

    def _read_dataset(self, dataset: Dataset) -> tuple[Dataset, str]:
        """Return a dataset with what is said behind its name, and the text of its query, if it has one."""
        schema = self._read_schema() if self._peek() == "(" else None
        found = replace(dataset, comment=self._read_clauses(), schema=schema)
        return found, self._take_rest() if self._accept("AS") else ""

    def _read_flow(self, found: Elements) -> None:
        name = self._read_name()
        self._read_clauses()
        if not self._accept("AS"):
            raise self._build_error("AS is missing", "write CREATE FLOW f AS INSERT INTO t BY NAME SELECT …")
        if self._accept("AUTO", "CDC") or self._accept("APPLY", "CHANGES"):
            self._accept("INTO")
            flow = self._build_flow(".".join(name), self._read_name(), "", AUTO_CDC)
        elif self._accept("INSERT", "INTO"):
            target = self._read_name()
            by_name = self._accept("BY", "NAME")
            error = "" if by_name else "Spark takes a flow only with INSERT INTO … BY NAME"
            flow = self._build_flow(".".join(name), target, self._take_rest(), error)
        else:
            raise self._build_error(
                f"{self._peek()} is no flow", "write CREATE FLOW f AS INSERT INTO t BY NAME SELECT …"
            )
        found.flows.append(flow)

    def _build_flow(self, name: str, target: tuple[str, ...], text: str, error: str = "") -> QueryFlow:
        return QueryFlow(name, target, self.place, self.home, text=text, error=error, conf=dict(self.conf))

    def _read_clauses(self) -> str:
        """Go over what is said of a table's files, and return its comment; raises SqlError for other words."""
        comment = ""
        while self.at < len(self.tokens) and self._peek() != "AS":
            if self._accept("COMMENT"):
                comment = self.tokens[self.at].text
                self.at += 1
            elif self._accept("USING"):
                self.at += 1
            elif self._accept("CLUSTER BY", "AUTO"):
                continue
            elif any(map(self._accept, ("PARTITIONED BY", "CLUSTER BY", "TBLPROPERTIES"))):
                self._skip_brackets()
            else:
                raise self._build_error(f"{self._peek()} is not read here", _HINT)
        return comment

    def _read_schema(self) -> tuple[str, ...]:
        begin = self.tokens[self.at].end + 1
        words = self._skip_brackets()
        if "CONSTRAINT" in words or "EXPECT" in words:
            raise self._build_error(
                "an expectation is none of Spark's pipelines", "write it as a condition of the query"
            )
        return read_column_names(self.text[begin : self.tokens[self.at - 1].start])

    def _read_set(self) -> None:
        rest = self._take_rest()
        key, equal, value = (part.strip() for part in rest.partition("="))
        if not equal:
            raise self._build_error(f"SET {rest} sets nothing", "write SET key = value")
        self.conf = {**self.conf, key.strip("`'\""): value.strip("`'\"")}

    def _read_use(self) -> None:
        if self._accept("CATALOG"):
            self.home = self._read_name()[0], self.home[1]
            return
        _ = self._accept("DATABASE") or self._accept("SCHEMA") or self._accept("NAMESPACE")
        parts = self._read_name()
        self.home = (parts[-2], parts[-1]) if len(parts) > 1 else (self.home[0], parts[0])

    def _read_name(self) -> tuple[str, ...]:
        parts = []
        while self.at < len(self.tokens):
            parts.append(self.tokens[self.at].text)
            self.at += 1
            if self.at >= len(self.tokens) or self.tokens[self.at].token_type != TokenType.DOT:
                break
            self.at += 1
        if not parts:
            raise self._build_error("a name is missing", _HINT)
        return tuple(parts)

    def _skip_brackets(self) -> set[str]:
        """Go behind what stands in brackets, and return its words."""
        words, depth = set[str](), 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            words.add(token.text.upper())
            if depth == 0:
                return words
        raise self._build_error("a bracket is not closed", "close it")

    def _take_rest(self) -> str:
        """Return the text from here on."""
        if self.at >= len(self.tokens):
            raise self._build_error("the statement ends too early", _HINT)
        text = self.text[self.tokens[self.at].start :]
        self.at = len(self.tokens)
        return text

    def _peek(self, ahead: int = 0) -> str:
        n = self.at + ahead
        return self.tokens[n].text.upper() if n < len(self.tokens) else ""

    def _accept(self, *words: str) -> bool:
        if any(self._peek(n) != word for n, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def _build_error(self, message: str, hint: str) -> SqlError:
        n = min(self.at, len(self.tokens) - 1)
        line, column = locate_character(self.text, self.tokens[n].start)
        return SqlError(message, sql=self.text, line=line, column=column, hint=hint)


def read_column_names(text: str) -> tuple[str, ...]:
    """Return the names of the columns of a schema as SQL writes it, `a INT, b STRING`; raises SqlError for what is none."""
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({text})", read="spark")
    except SqlglotError as error:
        raise SqlError(f"the schema {text} cannot be read", hint="write a INT, b STRING") from error
    schema = tree.this
    columns = schema.expressions if isinstance(schema, exp.Schema) else []
    return tuple(one.name for one in columns if isinstance(one, exp.ColumnDef | exp.Identifier))
