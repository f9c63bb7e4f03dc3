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
from engine.sql.expression.tokens import Token, Unreadable, number, tokens, type_text, unescaped

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


def read(text: str, holes: Callable[[str], Expr] | None = None) -> Expr:
    """Return the tree of an expression of Spark SQL; `holes` gives what stands for `:name`.

    Raises Unreadable, and RecursionError for a text that is nested too deeply.
    """
    reader = _Reader(text, holes)
    found = reader.expression()
    if not reader.token.kind:
        return found
    raise reader.unreadable()


class _Reader:
    def __init__(self, text: str, holes: Callable[[str], Expr] | None) -> None:
        self.text, self.tokens, self.holes = text, tokens(text), holes
        self.n = self.depth = 0
        self.variables: list[tuple[str, ...]] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.n]

    def unreadable(self) -> Unreadable:
        return Unreadable(f"no expression of Spark SQL from {self.text[self.token.start :][:40]!r} on")

    def word(self, ahead: int = 0) -> str:
        """Return a keyword or a symbol in upper case, nothing for a token of another kind."""
        token = self.tokens[min(self.n + ahead, len(self.tokens) - 1)]
        return token.text.upper() if token.kind in ("word", "symbol") else ""

    def take(self, *words: str) -> bool:
        """Step over words if they come next."""
        if all(self.word(n) == word for n, word in enumerate(words)):
            self.n += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise self.unreadable()

    def next(self) -> Token:
        self.n += 1
        return self.tokens[self.n - 1]

    def expression(self, least: int = 0) -> Expr:
        """Read an expression whose operators bind at least as tightly as `least`."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise RecursionError("the expression is nested too deeply")
        found = self._prefixed()
        steps = 0
        while (level := self._level()) >= max(least, 1):
            found = self._predicate(found) if level == _PREDICATE else self._binary(found, level)
            longer = isinstance(found, And | Or) or (
                isinstance(found, Arithmetic) and len(found.operands) > 2
            )
            steps += not longer
            if steps > _MOST_DEPTH:
                raise RecursionError("the expression is nested too deeply")
        self.depth -= 1
        return found

    def _level(self) -> int:  # of the next operator, 0 if none comes
        word = self.word()
        if word in _PREDICATES or (word == "NOT" and self.word(1) in _PREDICATES):
            return _PREDICATE
        return _BINARY.get(word, 0)

    def _prefixed(self) -> Expr:
        if self.take("NOT") or self.take("!"):
            return Not(self.expression(_NOT))
        if self.word() in ("-", "+", "~"):
            operator = self.next().text
            return Unary(operator, self.expression(_UNARY))
        return self._postfixed(self._primary())

    def _binary(self, left: Expr, level: int) -> Expr:
        operator = self.next().text.upper()
        right = self.expression(level + 1)
        if level <= 2:
            kind = Or if level == 1 else And
            return kind(tuple(part for side in (left, right) for part in _parts(side, kind)))
        if level == _COMPARISON:
            return Comparison(_SAME.get(operator, operator), left, right)
        if isinstance(left, Arithmetic) and left.operator == operator:  # so long sums and texts are not deep
            return Arithmetic(operator, (*left.operands, right))
        return Arithmetic(operator, (left, right))

    def _predicate(self, value: Expr) -> Expr:
        found: Expr
        contrary = self.take("NOT")
        if self.take("IS"):
            contrary = self.take("NOT")
            if self.take("DISTINCT", "FROM"):
                contrary, found = not contrary, Comparison("<=>", value, self.expression(_COMPARISON))
            else:
                found = self._state(value)
        elif self.take("IN"):
            self.need("(")
            found = In(value, self._list(")"))
        elif self.take("BETWEEN"):
            low = self.expression(_COMPARISON)
            self.need("AND")
            found = Between(value, low, self.expression(_COMPARISON))
        else:
            found = self._like(value)
        return Not(found) if contrary else found

    def _state(self, value: Expr) -> Expr:
        if self.take("NULL") or self.take("UNKNOWN"):
            return IsNull(value)
        if self.word() not in ("TRUE", "FALSE"):
            raise self.unreadable()
        return IsTruth(value, self.next().text.upper() == "TRUE")

    def _like(self, value: Expr) -> Expr:
        operator = self.next().text.upper().replace("REGEXP", "RLIKE")
        quantifier = self.next().text.upper() if self.word() in ("ANY", "ALL", "SOME") else ""
        if quantifier:
            self.need("(")
            return Like(value, Row(self._list(")")), operator, quantifier=quantifier)
        pattern = self.expression(_COMPARISON)
        return Like(value, pattern, operator, self.expression(_UNARY) if self.take("ESCAPE") else None)

    def _postfixed(self, found: Expr) -> Expr:
        while True:
            if self.take("."):
                found = Field(found, self._name())
            elif self.take("["):
                found = Subscript(found, self.expression())
                self.need("]")
            elif self.take("::"):
                found = Cast(found, self._type())
            elif self.take("COLLATE"):
                found = Call("collate", (found, self._collation()))
            else:
                return found

    def _collation(self) -> Literal:
        if self.token.kind == "string":
            return Literal(unescaped(self.next().text), "string")
        return Literal(self._name(), "string")

    def _primary(self) -> Expr:
        token = self.token
        match token.kind:
            case "number":
                return number(self.next().text)
            case "string":
                return Literal(unescaped(self.next().text), "string")
            case "raw":
                return Literal(self.next().text[2:-1], "string")
            case "hex":
                return Literal(self.next().text[2:-1].upper(), "binary")
            case "quoted":
                return self._lambda_or_name()
            case "hole" if self.holes is not None:
                return self.holes(self.next().text[1:])
            case "word":
                return self._word()
        if self.take("("):
            return self._parenthesised()
        raise self.unreadable()

    def _name(self) -> str:
        token = self.next()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            raise self.unreadable()
        return token.text

    def _named(self, name: str) -> Expr:
        if any(name.lower() == known.lower() for scope in self.variables for known in scope):
            return Variable(name)
        return Column(name)

    def _parenthesised(self) -> Expr:
        start = self.n
        names = []
        while self.token.kind in ("word", "quoted"):
            names.append(self._name())
            if not self.take(","):
                break
        if names and self.take(")", "->"):
            return self._lambda(tuple(names))
        self.n = start
        values = self._list(")")
        return values[0] if len(values) == 1 else Row(values)

    def _lambda_or_name(self) -> Expr:
        name = self._name()
        return self._lambda((name,)) if self.take("->") else self._named(name)

    def _lambda(self, names: tuple[str, ...]) -> Lambda:
        self.variables.append(names)
        body = self.expression()
        self.variables.pop()
        return Lambda(names, body)

    def _word(self) -> Expr:
        word = self.word()
        constant = {"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}.get(word)
        if constant is not None:
            self.next()
            return constant
        if self.take("CASE"):
            return self._case()
        if self.take("INTERVAL"):
            return self._interval()
        if word in _TYPED and self.tokens[self.n + 1].kind == "string":
            kind = self.next().text.lower()
            return Cast(Literal(unescaped(self.next().text), "string"), kind)
        if self.word(1) == "(":
            return self._call()
        if word in _BARE:
            return Call(self.next().text.lower())
        if word in _BINARY or word in _PREDICATES or word in _ENDS:
            raise self.unreadable()
        return self._lambda_or_name()

    def _list(self, end: str) -> tuple[Expr, ...]:
        """Read expressions up to `end`, which is stepped over."""
        found: list[Expr] = []
        if self.take(end):
            return ()
        while True:
            value = self.expression()
            found.append(Named(value, self._name()) if self.take("AS") else value)
            if self.take(end):
                return tuple(found)
            self.need(",")

    def _case(self) -> Expr:
        subject = None if self.word() == "WHEN" else self.expression()
        branches = []
        while self.take("WHEN"):
            test = self.expression()
            self.need("THEN")
            branches.append((test, self.expression()))
        otherwise = self.expression() if self.take("ELSE") else None
        self.need("END")
        return Case(tuple(branches), otherwise, subject)

    def _interval(self) -> Interval:
        amount = self.expression(_UNARY)
        unit = []
        while self.token.kind == "word" and self.word() not in (*_BINARY, *_PREDICATES, *_ENDS, "NOT"):
            unit.append(self.next().text.upper())
        return Interval(amount, " ".join(unit))

    def _type(self) -> str:
        """Read a type: a word, what stands in parentheses and angle brackets after it, and the units of an interval."""
        start, end = self.token.start, self.next().end
        while (
            self.token.kind == "word" and self.tokens[self.n - 1].kind == "word" and self.word() not in _ENDS
        ):
            end = self.next().end
        opened = 0
        while self.word() in ("(", "<", "<>") or opened:
            opened += self.word() in ("(", "<")
            closing = {")": 1, ">": 1, ">>": 2, ">>>": 3}.get(self.word(), 0)
            opened -= closing
            if not self.token.kind or opened < 0:
                raise self.unreadable()
            end = self.next().end
        text = type_text(self.text[start:end])
        return text if "<" in text else text.lower()

    def _call(self) -> Expr:
        name = self.next().text.lower()
        self.need("(")
        if name in ("cast", "try_cast"):
            value = self.expression()
            self.need("AS")
            kind = self._type()
            self.need(")")
            return Cast(value, kind, name == "try_cast")
        distinct = self.take("DISTINCT")
        arguments = self._arguments(name) if name in _OWN_FORMS else self._list(")")
        ignore = self.take("IGNORE", "NULLS")
        order = self._order() if self.take("WITHIN", "GROUP", "(", "ORDER", "BY") else ()
        where = None
        if self.take("FILTER", "("):
            self.need("WHERE")
            where = self.expression()
            self.need(")")
        return Call(name, arguments, distinct, ignore, order, where)

    def _arguments(self, name: str) -> tuple[Expr, ...]:
        if name == "count" and self.take("*", ")"):
            return ()
        if name == "extract" and self.word(1) == "FROM":
            return self._from(Word(self.next().text.upper()))
        if name == "trim":
            sided = self.word() in ("BOTH", "LEADING", "TRAILING")
            side = Word(self.next().text.upper() if sided else "BOTH")
            first = self.expression()
            return (first,) if not sided and self.take(")") else (side, *self._from(first))
        if name in _OF_UNITS and self.token.kind == "word" and self.word(1) == ",":
            unit = Word(self.next().text.upper())
            self.need(",")
            return (unit, *self._list(")"))
        if name == "overlay":
            return self._overlay()
        return self._list(")")

    def _overlay(self) -> tuple[Expr, ...]:
        """Read `text PLACING other FROM start FOR length`, which is overlay(text, other, start, length)."""
        found = [self.expression()]
        while not self.take(")"):
            if not any(self.take(mark) for mark in ("PLACING", "FROM", "FOR", ",")):
                raise self.unreadable()
            found.append(self.expression())
        return tuple(found)

    def _from(self, first: Expr) -> tuple[Expr, Expr]:
        self.need("FROM")
        value = self.expression()
        self.need(")")
        return first, value

    def _order(self) -> tuple[tuple[Expr, bool], ...]:
        found = []
        while True:
            by = self.expression()
            descending = self.take("DESC")
            found.append((by, descending or (self.take("ASC") and False)))
            if self.take(")"):
                return tuple(found)
            self.need(",")


def _parts(expr: Expr, kind: type[And] | type[Or]) -> tuple[Expr, ...]:
    return expr.parts if isinstance(expr, kind) else (expr,)
