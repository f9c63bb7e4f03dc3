"""The nodes of a scalar expression: immutable, compared by structure, stored in the catalog as they are.

What a function does is Spark's business: a `Call` has Spark's name for it. What else is known of a node, its type and where it
stands in the text, is in `known`, which takes no part in equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

import msgspec


class Known(msgspec.Struct, frozen=True, omit_defaults=True, eq=False):
    """What is known of a node besides its structure; each equals each, so that it tells no two nodes apart.

    `type` is a Spark type (None until it is known), `position` line and column in the statement, (0, 0) where there is none.
    """

    type: str | None = None
    nullable: bool | None = None
    position: tuple[int, int] = (0, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known)

    def __hash__(self) -> int:
        return 0


NOTHING_KNOWN = Known()


class _Node(
    msgspec.Struct,
    frozen=True,
    tag_field="node",
    tag=str.lower,
    omit_defaults=True,
    cache_hash=True,
    kw_only=True,
):
    """What all nodes have."""

    known: Known = NOTHING_KNOWN

    @property
    def type(self) -> str | None:
        """The Spark type, None if it is not known."""
        return self.known.type

    @property
    def nullable(self) -> bool | None:
        """Whether the value can be null, None if that is not known."""
        return self.known.nullable

    @property
    def position(self) -> tuple[int, int]:
        """Line and column in the statement, (0, 0) for what stands in none."""
        return self.known.position

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are read, each once, in the order in which they stand."""
        return collect_columns(self)

    @property
    def column(self) -> str | None:
        """The column's name if the expression is a bare column, else None."""
        return self.name if isinstance(self, Column) else None


class Column(_Node, frozen=True):
    """A column of the input."""

    name: str


class Variable(_Node, frozen=True):
    """A variable of the lambda around it."""

    name: str


class Literal(_Node, frozen=True):
    """A constant; `kind` is string, number (typed by its digits), the type that a number's suffix says, binary, boolean or null.

    `text` is the value: that of a text without quotes, the digits of a number, the hexadecimal digits of binary, TRUE or FALSE.
    """

    text: str
    kind: str = "number"


class Word(_Node, frozen=True):
    """A keyword among the arguments of a call, as the unit of a difference of dates."""

    text: str


class Named(_Node, frozen=True):
    """An argument with a name: a field of struct()."""

    value: Expr
    name: str


class Call(_Node, frozen=True):
    """A function by Spark's name in lower case; count(*) has no arguments. The rest is said of aggregates only.

    `order` = (expression, descending) of WITHIN GROUP, `where` the condition of FILTER.
    """

    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    ignore_nulls: bool = False
    order: tuple[tuple[Expr, bool], ...] = ()
    where: Expr | None = None


class Cast(_Node, frozen=True):
    """A value in another type; one that cannot be said in it is null if `attempt`, else an error."""

    value: Expr
    to: str
    attempt: bool = False


class Case(_Node, frozen=True):
    """The result of the first of the (condition, result) branches that holds; with a `subject`, that equals it."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None
    subject: Expr | None = None


class Unary(_Node, frozen=True):
    """A sign: - + or ~."""

    operator: str
    value: Expr


class Arithmetic(_Node, frozen=True):
    """Values computed to one, from left to right: + - * / % DIV || & | ^ << >> >>>."""

    operator: str
    operands: tuple[Expr, ...]


class Comparison(_Node, frozen=True):
    """Two values compared: = <> < <= > >= and <=>, for which nulls are equal."""

    operator: str
    left: Expr
    right: Expr


class And(_Node, frozen=True):
    """Conditions that all have to hold."""

    parts: tuple[Expr, ...]


class Or(_Node, frozen=True):
    """Conditions of which one has to hold."""

    parts: tuple[Expr, ...]


class Not(_Node, frozen=True):
    """The contrary of a condition."""

    value: Expr


class IsNull(_Node, frozen=True):
    """Whether a value is null."""

    value: Expr


class IsTruth(_Node, frozen=True):
    """Whether a condition is certainly true, or with `truth` False certainly false."""

    value: Expr
    truth: bool = True


class In(_Node, frozen=True):
    """Whether a value is among others."""

    value: Expr
    options: tuple[Expr, ...]


class Between(_Node, frozen=True):
    """Whether a value is neither below `low` nor above `high`."""

    value: Expr
    low: Expr
    high: Expr


class Like(_Node, frozen=True):
    """Whether a text fits a pattern: LIKE, ILIKE or RLIKE; with a `quantifier` ANY or ALL, the patterns of a row."""

    value: Expr
    pattern: Expr
    operator: str = "LIKE"
    escape: Expr | None = None
    quantifier: str = ""


class Row(_Node, frozen=True):
    """Several values in parentheses."""

    values: tuple[Expr, ...]


class Subscript(_Node, frozen=True):
    """An element of an array, or the value of a key of a map."""

    value: Expr
    index: Expr


class Field(_Node, frozen=True):
    """A field of a struct."""

    value: Expr
    name: str


class Lambda(_Node, frozen=True):
    """A function of an argument."""

    parameters: tuple[str, ...]
    body: Expr


class Interval(_Node, frozen=True):
    """A length of time; without a `unit` the text says it."""

    amount: Expr
    unit: str = ""


Expr = (
    Column | Variable | Literal | Word | Named | Call | Cast | Case | Unary | Arithmetic | Comparison
    | And | Or | Not | IsNull | IsTruth | In | Between | Like | Row | Subscript | Field | Lambda | Interval
)  # fmt: skip

TRUE, FALSE, NULL = Literal("TRUE", "boolean"), Literal("FALSE", "boolean"), Literal("NULL", "null")


@cache
def _list_node_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a class of nodes that hold nodes, in the order in which they are written."""
    return tuple(name for name, annotation in kind.__annotations__.items() if "Expr" in annotation)


def annotate(expr: Expr, **facts: Any) -> Expr:
    """Return an expression of which more is known: `type`, `nullable` or `position`."""
    return msgspec.structs.replace(expr, known=msgspec.structs.replace(expr.known, **facts))


def children(expr: Expr) -> Iterator[Expr]:
    """Yield the expressions that a node is made of, in their order."""
    for name in _list_node_fields(type(expr)):
        yield from _iterate_nodes(getattr(expr, name))


def _iterate_nodes(value: Any) -> Iterator[Expr]:
    if isinstance(value, _Node):
        yield value  # type: ignore[misc]  # every node is one of Expr's kinds
    elif isinstance(value, tuple):
        for item in value:
            yield from _iterate_nodes(item)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield a node and all below it, a node before what it is made of."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def map_children(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return a node with each of its children changed; itself if none is another then."""
    changed = {}
    for name in _list_node_fields(type(expr)):
        before = getattr(expr, name)
        after = _map_value(before, change)
        if after is not before:
            changed[name] = after
    return msgspec.structs.replace(expr, **changed) if changed else expr


def _map_value(value: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, _Node):
        return change(value)  # type: ignore[arg-type]  # every node is one of Expr's kinds
    if isinstance(value, tuple):
        items = tuple(_map_value(item, change) for item in value)
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


@lru_cache(maxsize=65_536)
def collect_columns(expr: Expr) -> tuple[str, ...]:
    """Return the names of the columns that an expression reads, each once, in the order in which they stand."""
    if isinstance(expr, Column):
        return (expr.name,)
    return tuple(dict.fromkeys(name for child in children(expr) for name in collect_columns(child)))


@lru_cache(maxsize=65_536)
def count_nodes(expr: Expr) -> int:
    """Return how many nodes an expression is made of."""
    return 1 + sum(count_nodes(child) for child in children(expr))


@lru_cache(maxsize=65_536)
def measure_depth(expr: Expr) -> int:
    """Return how deep the nodes of an expression stand in each other."""
    return 1 + max((measure_depth(child) for child in children(expr)), default=0)
