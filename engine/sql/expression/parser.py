"""Spark SQL text of one expression -> tree: what sqlglot prints for Spark, and the templates of rules.

Method: operator precedence climbing (Pratt, Top Down Operator Precedence, POPL 1973) with the precedence of Spark's own grammar.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.sql.expression.nodes import (
    FALSE,
    NULL,
    TRUE,
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Expr,
    Field,
    In,
    Interval,
    IsNull,
    IsTruth,
    Lambda,
    Like,
    Literal,
    Named,
    Not,
    Or,
    Row,
    Subscript,
    Unary,
    Variable,
    Word,
)
from engine.sql.expression.tokens import Token, Unreadable, normalize_type, parse_number, tokenize, unescape

_BINARY = {
    **dict.fromkeys(("OR",), 1),
    **dict.fromkeys(("AND",), 2),
    **dict.fromkeys(("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"), 5),
    "|": 6,
    "^": 7,
    "&": 8,
    **dict.fromkeys(("<<", ">>", ">>>"), 9),
    **dict.fromkeys(("+", "-", "||"), 10),
    **dict.fromkeys(("*", "/", "%", "DIV"), 11),
}
_NOT, _PREDICATE, _COMPARISON, _UNARY = 3, 4, 5, 12
_PREDICATES = ("IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP")
_SAME = {"==": "=", "!=": "<>"}
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME")
_BARE = ("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER")
_OF_UNITS = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")
_ENDS = ("THEN", "ELSE", "END", "WHEN", "FROM", "AS", "ESCAPE", "ASC", "DESC", "NULLS")
_OWN_FORMS = ("count", "extract", "trim", "overlay", *_OF_UNITS)
_MOST_DEPTH = 200


def parse_expression(text: str, holes: Callable[[str], Expr] | None = None) -> Expr:
    """Return the tree of an expression of Spark SQL; `holes` gives what stands for `:name`.

    Raises Unreadable, and RecursionError for a text that is nested too deeply.
    """
    reader = _ExpressionParser(text, holes)
    found = reader.parse()
    if not reader.token.kind:
        return found
    raise reader.build_error()


class _ExpressionParser:
    def __init__(self, text: str, holes: Callable[[str], Expr] | None) -> None:
        self.text, self.tokens, self.holes = text, tokenize(text), holes
        self.n = self.depth = 0
        self.variables: list[tuple[str, ...]] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.n]

    def build_error(self) -> Unreadable:
        return Unreadable(f"no expression of Spark SQL from {self.text[self.token.start :][:40]!r} on")

    def peek_word(self, ahead: int = 0) -> str:
        """Return a keyword or a symbol in upper case, nothing for a token of another kind."""
        token = self.tokens[min(self.n + ahead, len(self.tokens) - 1)]
        return token.text.upper() if token.kind in ("word", "symbol") else ""

    def accept(self, *words: str) -> bool:
        """Step over words if they come next."""
        if all(self.peek_word(n) == word for n, word in enumerate(words)):
            self.n += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.build_error()

    def advance(self) -> Token:
        self.n += 1
        return self.tokens[self.n - 1]

    def parse(self, least: int = 0) -> Expr:
        """Read an expression whose operators bind at least as tightly as `least`."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise RecursionError("the expression is nested too deeply")
        found = self._parse_prefix()
        steps = 0
        while (level := self._peek_level()) >= max(least, 1):
            found = self._parse_predicate(found) if level == _PREDICATE else self._parse_binary(found, level)
            longer = isinstance(found, And | Or) or (
                isinstance(found, Arithmetic) and len(found.operands) > 2
            )
            steps += not longer
            if steps > _MOST_DEPTH:
                raise RecursionError("the expression is nested too deeply")
        self.depth -= 1
        return found

    def _peek_level(self) -> int:  # of the next operator, 0 if none comes
        word = self.peek_word()
        if word in _PREDICATES or (word == "NOT" and self.peek_word(1) in _PREDICATES):
            return _PREDICATE
        return _BINARY.get(word, 0)

    def _parse_prefix(self) -> Expr:
        if self.accept("NOT") or self.accept("!"):
            return Not(self.parse(_NOT))
        if self.peek_word() in ("-", "+", "~"):
            operator, apart = self.advance().text, self.peek_word() == "("
            value = self.parse(_UNARY)
            number = isinstance(value, Literal) and value.kind not in ("string", "null")
            if apart and number and operator == "-":
                value = Unary("+", value)  # a sign before parentheses is none of the constant's
            return Unary(operator, value)
        return self._parse_postfix(self._parse_primary())

    def _parse_binary(self, left: Expr, level: int) -> Expr:
        operator = self.advance().text.upper()
        right = self.parse(level + 1)
        if level <= 2:
            kind = Or if level == 1 else And
            return kind(tuple(part for side in (left, right) for part in _flatten(side, kind)))
        if level == _COMPARISON:
            return Comparison(_SAME.get(operator, operator), left, right)
        if isinstance(left, Arithmetic) and left.operator == operator:  # so long sums and texts are not deep
            return Arithmetic(operator, (*left.operands, right))
        return Arithmetic(operator, (left, right))

    def _parse_predicate(self, value: Expr) -> Expr:
        found: Expr
        contrary = self.accept("NOT")
        if self.accept("IS"):
            contrary = self.accept("NOT")
            if self.accept("DISTINCT", "FROM"):
                contrary, found = not contrary, Comparison("<=>", value, self.parse(_COMPARISON))
            else:
                found = self._parse_truth_test(value)
        elif self.accept("IN"):
            self.expect("(")
            found = In(value, self._parse_list(")"))
        elif self.accept("BETWEEN"):
            low = self.parse(_COMPARISON)
            self.expect("AND")
            found = Between(value, low, self.parse(_COMPARISON))
        else:
            found = self._parse_like(value)
        return Not(found) if contrary else found

    def _parse_truth_test(self, value: Expr) -> Expr:
        if self.accept("NULL") or self.accept("UNKNOWN"):
            return IsNull(value)
        if self.peek_word() not in ("TRUE", "FALSE"):
            raise self.build_error()
        return IsTruth(value, self.advance().text.upper() == "TRUE")

    def _parse_like(self, value: Expr) -> Expr:
        operator = self.advance().text.upper().replace("REGEXP", "RLIKE")
        quantifier = self.advance().text.upper() if self.peek_word() in ("ANY", "ALL", "SOME") else ""
        if quantifier:
            self.expect("(")
            return Like(value, Row(self._parse_list(")")), operator, quantifier=quantifier)
        pattern = self.parse(_COMPARISON)
        return Like(value, pattern, operator, self.parse(_UNARY) if self.accept("ESCAPE") else None)

    def _parse_postfix(self, found: Expr) -> Expr:
        while True:
            if self.accept("."):
                found = Field(found, self._parse_name())
            elif self.accept("["):
                found = Subscript(found, self.parse())
                self.expect("]")
            elif self.accept("::"):
                found = Cast(found, self._parse_type())
            elif self.accept("COLLATE"):
                found = Call("collate", (found, self._parse_collation()))
            else:
                return found

    def _parse_collation(self) -> Literal:
        if self.token.kind == "string":
            return Literal(unescape(self.advance().text), "string")
        return Literal(self._parse_name(), "string")

    def _parse_primary(self) -> Expr:
        token = self.token
        match token.kind:
            case "number":
                return parse_number(self.advance().text)
            case "string":
                return Literal(unescape(self.advance().text), "string")
            case "raw":
                return Literal(self.advance().text[2:-1], "string")
            case "hex":
                return Literal(self.advance().text[2:-1].upper(), "binary")
            case "quoted":
                return self._parse_lambda_or_name()
            case "hole" if self.holes is not None:
                return self.holes(self.advance().text[1:])
            case "word":
                return self._parse_word()
        if self.accept("("):
            return self._parse_parentheses()
        raise self.build_error()

    def _parse_name(self) -> str:
        token = self.advance()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            raise self.build_error()
        return token.text

    def _resolve_name(self, name: str) -> Expr:
        if any(name.lower() == known.lower() for scope in self.variables for known in scope):
            return Variable(name)
        return Column(name)

    def _parse_parentheses(self) -> Expr:
        start = self.n
        names = []
        while self.token.kind in ("word", "quoted"):
            names.append(self._parse_name())
            if not self.accept(","):
                break
        if names and self.accept(")", "->"):
            return self._parse_lambda(tuple(names))
        self.n = start
        values = self._parse_list(")")
        return values[0] if len(values) == 1 else Row(values)

    def _parse_lambda_or_name(self) -> Expr:
        name = self._parse_name()
        return self._parse_lambda((name,)) if self.accept("->") else self._resolve_name(name)

    def _parse_lambda(self, names: tuple[str, ...]) -> Lambda:
        self.variables.append(names)
        body = self.parse()
        self.variables.pop()
        return Lambda(names, body)

    def _parse_word(self) -> Expr:
        word = self.peek_word()
        constant = {"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}.get(word)
        if constant is not None:
            self.advance()
            return constant
        if self.accept("CASE"):
            return self._parse_case()
        if self.accept("INTERVAL"):
            return self._parse_interval()
        if word in _TYPED and self.tokens[self.n + 1].kind == "string":
            kind = self.advance().text.lower()
            return Cast(Literal(unescape(self.advance().text), "string"), kind)
        if self.peek_word(1) == "(":
            return self._parse_call()
        if word in _BARE:
            return Call(self.advance().text.lower())
        if word in _BINARY or word in _PREDICATES or word in _ENDS:
            raise self.build_error()
        return self._parse_lambda_or_name()

    def _parse_list(self, end: str) -> tuple[Expr, ...]:
        """Read expressions up to `end`, which is stepped over."""
        found: list[Expr] = []
        if self.accept(end):
            return ()
        while True:
            value = self.parse()
            found.append(Named(value, self._parse_name()) if self.accept("AS") else value)
            if self.accept(end):
                return tuple(found)
            self.expect(",")

    def _parse_case(self) -> Expr:
        subject = None if self.peek_word() == "WHEN" else self.parse()
        branches = []
        while self.accept("WHEN"):
            test = self.parse()
            self.expect("THEN")
            branches.append((test, self.parse()))
        otherwise = self.parse() if self.accept("ELSE") else None
        self.expect("END")
        return Case(tuple(branches), otherwise, subject)

    def _parse_interval(self) -> Interval:
        amount = self.parse(_UNARY)
        unit = []
        while self.token.kind == "word" and self.peek_word() not in (*_BINARY, *_PREDICATES, *_ENDS, "NOT"):
            unit.append(self.advance().text.upper())
        return Interval(amount, " ".join(unit))

    def _parse_type(self) -> str:
        """Read a type: a word, what stands in parentheses and angle brackets after it, and the units of an interval."""
        start, end = self.token.start, self.advance().end
        while (
            self.token.kind == "word"
            and self.tokens[self.n - 1].kind == "word"
            and self.peek_word() not in _ENDS
        ):
            end = self.advance().end
        opened = 0
        while self.peek_word() in ("(", "<", "<>") or opened:
            opened += self.peek_word() in ("(", "<")
            closing = {")": 1, ">": 1, ">>": 2, ">>>": 3}.get(self.peek_word(), 0)
            opened -= closing
            if not self.token.kind or opened < 0:
                raise self.build_error()
            end = self.advance().end
        text = normalize_type(self.text[start:end])
        return text if "<" in text else text.lower()

    def _parse_call(self) -> Expr:
        name = self.advance().text.lower()
        self.expect("(")
        if name in ("cast", "try_cast"):
            value = self.parse()
            self.expect("AS")
            kind = self._parse_type()
            self.expect(")")
            return Cast(value, kind, name == "try_cast")
        distinct = self.accept("DISTINCT")
        arguments = self._parse_arguments(name) if name in _OWN_FORMS else self._parse_list(")")
        ignore = self.accept("IGNORE", "NULLS")
        order = self._parse_order() if self.accept("WITHIN", "GROUP", "(", "ORDER", "BY") else ()
        where = None
        if self.accept("FILTER", "("):
            self.expect("WHERE")
            where = self.parse()
            self.expect(")")
        return Call(name, arguments, distinct, ignore, order, where)

    def _parse_arguments(self, name: str) -> tuple[Expr, ...]:
        if name == "count" and self.accept("*", ")"):
            return ()
        if name == "extract" and self.peek_word(1) == "FROM":
            return self._parse_from(Word(self.advance().text.upper()))
        if name == "trim":
            sided = self.peek_word() in ("BOTH", "LEADING", "TRAILING")
            side = Word(self.advance().text.upper() if sided else "BOTH")
            first = self.parse()
            return (first,) if not sided and self.accept(")") else (side, *self._parse_from(first))
        if name in _OF_UNITS and self.token.kind == "word" and self.peek_word(1) == ",":
            start, unit = self.n, Word(self.advance().text.upper())
            self.expect(",")
            times = self._parse_list(")")
            if len(times) > 1:
                return (unit, *times)
            self.n = start  # of two arguments the first one is a time, as a column of that name
        if name == "overlay":
            return self._parse_overlay()
        return self._parse_list(")")

    def _parse_overlay(self) -> tuple[Expr, ...]:
        """Read `text PLACING other FROM start FOR length`, which is overlay(text, other, start, length)."""
        found = [self.parse()]
        while not self.accept(")"):
            if not any(self.accept(mark) for mark in ("PLACING", "FROM", "FOR", ",")):
                raise self.build_error()
            found.append(self.parse())
        return tuple(found)

    def _parse_from(self, first: Expr) -> tuple[Expr, Expr]:
        self.expect("FROM")
        value = self.parse()
        self.expect(")")
        return first, value

    def _parse_order(self) -> tuple[tuple[Expr, bool], ...]:
        found = []
        while True:
            by = self.parse()
            descending = self.accept("DESC")
            found.append((by, descending or (self.accept("ASC") and False)))
            if self.accept(")"):
                return tuple(found)
            self.expect(",")


def _flatten(expr: Expr, kind: type[And] | type[Or]) -> tuple[Expr, ...]:
    return expr.parts if isinstance(expr, kind) else (expr,)
