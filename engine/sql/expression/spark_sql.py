"""Trees as Spark SQL: the one place that prints an expression, for Spark and for people.

Parentheses stand where Spark's precedence demands them, and around comparisons inside others.
"""

from __future__ import annotations

from functools import lru_cache

from engine.sql.expression.nodes import (
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

_ARITHMETIC = {
    **dict.fromkeys(("*", "/", "%", "DIV"), 11),
    **dict.fromkeys(("+", "-", "||"), 10),
    **dict.fromkeys(("<<", ">>", ">>>"), 9),
    "&": 8,
    "^": 7,
    "|": 6,
}
_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _VALUE, _UNARY, _PRIMARY = 1, 2, 3, 4, 5, 6, 12, 13
_Predicate = IsNull | IsTruth | In | Between | Like
_SUFFIXES = {"bigint": "L", "smallint": "S", "tinyint": "Y", "double": "D", "float": "F", "decimal": "BD"}


def quote(name: str) -> str:
    """Return `name` as a Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(value: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@lru_cache(maxsize=65_536)
def render_spark_sql(expr: Expr) -> str:
    """Return an expression as Spark SQL."""
    match expr:
        case Column():
            return quote(expr.name)
        case Variable():
            return _render_variable(expr.name)
        case Word():
            return expr.text
        case Literal():
            return _render_literal(expr)
        case Call():
            return _render_call(expr)
        case Cast():
            to = expr.to if "<" in expr.to else expr.to.upper()
            return f"{'TRY_CAST' if expr.attempt else 'CAST'}({render_spark_sql(expr.value)} AS {to})"
        case Case():
            return _render_case(expr)
        case Unary():
            return f"{expr.operator}{_render_operand(expr.value, _PRIMARY)}"
        case Arithmetic():
            level = _ARITHMETIC[expr.operator]
            first, *others = expr.operands
            texts = [_render_operand(first, level), *(_render_operand(each, level + 1) for each in others)]
            return f" {expr.operator} ".join(texts)
        case Comparison():
            return (
                f"{_render_operand(expr.left, _VALUE)} {expr.operator} {_render_operand(expr.right, _VALUE)}"
            )
        case And():
            return " AND ".join(_render_operand(part, _NOT) for part in expr.parts)
        case Or():
            return " OR ".join(_render_operand(part, _AND) for part in expr.parts)
        case Not(value=IsNull() | IsTruth() | In() | Between() | Like() as predicate):
            return _render_predicate(predicate, "NOT ")
        case Not():
            return f"NOT {_render_operand(expr.value, _NOT)}"
        case Row():
            return f"({_render_list(expr.values)})"
        case Named():
            return f"{render_spark_sql(expr.value)} AS {quote(expr.name)}"
        case Subscript():
            element = f"{_render_operand(expr.value, _PRIMARY)}[{render_spark_sql(expr.index)}]"
            return _guard_null_index(element, expr.index)
        case Field():
            return f"{_render_operand(expr.value, _PRIMARY)}.{quote(expr.name)}"
        case Lambda():
            names = [_render_variable(name) for name in expr.parameters]
            head = names[0] if len(names) == 1 else f"({', '.join(names)})"
            return f"{head} -> {render_spark_sql(expr.body)}"
        case Interval():
            return f"INTERVAL {_render_amount(expr.amount)} {expr.unit}".rstrip()
    return _render_predicate(expr, "")


def _guard_null_index(element: str, index: Expr) -> str:
    """Return an element of an array that is null where the index is: Spark declares it not null if no element is.

    What is compiled then takes the index for -1, and what is interpreted the element for 0.
    """
    if isinstance(index, Literal):
        return element
    return f"if({_render_operand(index, _VALUE)} IS NULL, NULL, {element})"


def _render_amount(expr: Expr) -> str:
    """Return the amount of an interval: Spark takes a sign before a literal, and no parentheses around the two."""
    if isinstance(expr, Unary) and isinstance(expr.value, Literal):
        return render_spark_sql(expr)
    return _render_operand(expr, _PRIMARY)


def _render_variable(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quote(name)


def _render_predicate(expr: _Predicate, negation: str) -> str:
    value = _render_operand(expr.value, _VALUE)
    match expr:
        case IsNull():
            return f"{value} IS {negation}NULL"
        case IsTruth():
            return f"{value} IS {negation}{'TRUE' if expr.truth else 'FALSE'}"
        case In():
            return f"{value} {negation}IN ({_render_list(expr.options)})"
        case Between():
            return f"{value} {negation}BETWEEN {_render_operand(expr.low, _VALUE)} AND {_render_operand(expr.high, _VALUE)}"
        case Like():
            quantifier = f"{expr.quantifier} " if expr.quantifier else ""
            escape = "" if expr.escape is None else f" ESCAPE {render_spark_sql(expr.escape)}"
            return f"{value} {negation}{expr.operator} {quantifier}{_render_operand(expr.pattern, _VALUE)}{escape}"


def _find_level(expr: Expr) -> int:
    match expr:
        case Or():
            return _OR
        case And():
            return _AND
        case Not():
            return _PREDICATE if isinstance(expr.value, _Predicate) else _NOT
        case IsNull() | IsTruth() | In() | Between() | Like():
            return _PREDICATE
        case Comparison():
            return _COMPARISON
        case Arithmetic():
            return _ARITHMETIC[expr.operator]
        case Unary():
            return _UNARY
        case Lambda():
            return 0
    return _PRIMARY


def _render_operand(expr: Expr, level: int) -> str:
    """Return an operand of something that binds as tightly as `level`."""
    text = render_spark_sql(expr)
    return text if _find_level(expr) >= level else f"({text})"


def _render_list(values: tuple[Expr, ...]) -> str:
    return ", ".join(render_spark_sql(value) for value in values)


def _render_literal(expr: Literal) -> str:
    if expr.kind == "string":
        return quote_text(expr.text)
    return f"X'{expr.text}'" if expr.kind == "binary" else expr.text + _SUFFIXES.get(expr.kind, "")


def _render_case(expr: Case) -> str:
    parts = ["CASE", *([render_spark_sql(expr.subject)] if expr.subject is not None else [])]
    parts += [
        f"WHEN {render_spark_sql(test)} THEN {render_spark_sql(result)}" for test, result in expr.branches
    ]
    parts += [f"ELSE {render_spark_sql(expr.otherwise)}"] if expr.otherwise is not None else []
    return " ".join((*parts, "END"))


def _render_call(expr: Call) -> str:
    match expr.function, expr.arguments:
        case "extract", (Word() as part, value):
            return f"EXTRACT({part.text} FROM {render_spark_sql(value)})"
        case "trim", (Word() as side, characters, value):
            return f"TRIM({side.text} {render_spark_sql(characters)} FROM {render_spark_sql(value)})"
        case "element_at", (value, index):
            return _guard_null_index(f"element_at({_render_list((value, index))})", index)
        case "count", ():
            inner = "*"
        case _:
            inner = _render_list(expr.arguments)
    text = f"{expr.function}({'DISTINCT ' if expr.distinct else ''}{inner})"
    if expr.ignore_nulls:
        text += " IGNORE NULLS"
    if expr.order:
        by = ", ".join(
            f"{render_spark_sql(each)} {'DESC' if descending else 'ASC'}" for each, descending in expr.order
        )
        text += f" WITHIN GROUP (ORDER BY {by})"
    return text if expr.where is None else f"{text} FILTER (WHERE {render_spark_sql(expr.where)})"
