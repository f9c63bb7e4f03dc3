"""Columns that a dataset is kept without, such as the time of a run: which ones, and a text of SQL without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import Token, TokenType, exp

from engine.pipelines.elements import Dataset
from engine.pipelines.names import DatasetNames, split_name
from engine.pipelines.spec import PipelineError
from engine.sql.parsing.tokens import tokenize

_ENDS = frozenset(
    {
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY),
        *(TokenType.LIMIT, TokenType.OFFSET, TokenType.UNION, TokenType.INTERSECT, TokenType.SEMICOLON),
        *(TokenType.LATERAL, TokenType.QUALIFY, TokenType.WINDOW, TokenType.CLUSTER_BY, TokenType.SORT_BY),
    }
)
"""What follows a SELECT list in the same brackets; EXCEPT does, too, unless it stands behind a star."""


def find_left_out(names: DatasetNames, said: Iterable[str]) -> Mapping[int, frozenset[str]]:
    """Return the columns to leave out by the ids of their datasets; raises PipelineError for what names none of a dataset."""
    found: dict[int, frozenset[str]] = {}
    for text in said:
        *parts, column = split_name(text)
        dataset = names.find_said(tuple(parts))
        if dataset is None or dataset.kind == "sink":
            raise PipelineError(
                f"there is no dataset {'.'.join(parts)} whose column {column} could be left out: write dataset.column"
            )
        found[id(dataset)] = found.get(id(dataset), frozenset()) | {column.lower()}
    return found


def leave_out(text: str, columns: frozenset[str]) -> tuple[str, frozenset[str]]:
    """Return a query without columns in its SELECT lists, at whatever depth, and which of them these had."""
    if not columns:
        return text, columns
    gone: list[tuple[int, int]] = []
    made = set[str]()
    for items in _list_selects(tokenize(text, "spark")):
        named = [(_name_item(item), item) for item in items]
        left = [name not in columns for name, _ in named]
        made |= {name for name, _ in named if name in columns}
        if not any(left):
            continue  # a list has one column at least: what reads it is refused where it names the others
        for n, (item, stays) in enumerate(zip(items, left, strict=True)):
            if stays:
                continue
            if any(left[n + 1 :]):
                gone.append((item[0].start, items[n + 1][0].start))
            else:  # what is in front stays without its comma
                gone.append((items[n - 1][-1].end + 1, item[-1].end + 1))
    for begin, end in sorted(gone, reverse=True):
        text = text[:begin] + text[end:]
    return text, frozenset(made)


def find_left_out_problem(tree: exp.Expr, columns: frozenset[str]) -> str:
    """Return why a query without columns may have other rows in those that are left; empty if it has the same ones."""
    for node in tree.walk():
        if (
            isinstance(node, exp.Column)
            and not isinstance(node.this, exp.Star)
            and node.name.lower() in columns
        ):
            return f"its column {node.name} is used in it, not in SELECT lists alone"
        if isinstance(node, exp.Distinct):
            return "it has a DISTINCT, in whose rows a column counts"
        if isinstance(node, exp.SetOperation):
            return f"it has a {node.key.upper()}, which goes by the places of columns"
        if isinstance(node, exp.Group) and (node.args.get("all") or any(map(_is_place, node.expressions))):
            return "it has a GROUP BY places in the SELECT list, or ALL of it"
        if isinstance(node, exp.Order) and any(_is_place(one.this) for one in node.expressions):
            return "it has an ORDER BY places in the SELECT list"
        if isinstance(node, exp.Join) and node.method == "NATURAL":
            return "it has a NATURAL JOIN, which goes by all names"
    return ""


def _is_place(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def keep_schema(dataset: Dataset, columns: frozenset[str]) -> tuple[str, ...] | None:
    """Return the columns that a dataset says itself, without those that are left out."""
    if dataset.schema is None:
        return None
    return tuple(name for name in dataset.schema if name.lower() not in columns)


def _list_selects(tokens: Sequence[Token]) -> Iterator[list[list[Token]]]:
    """Yield the items of each SELECT list, each by its tokens."""
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.SELECT:
            yield _list_items(tokens, at + 1)


def _list_items(tokens: Sequence[Token], at: int) -> list[list[Token]]:
    items: list[list[Token]] = [[]]
    depth = 0
    if at < len(tokens) and tokens[at].token_type in (TokenType.DISTINCT, TokenType.ALL):
        at += 1
    for n in range(at, len(tokens)):
        kind = tokens[n].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        after_star = items[-1] and items[-1][-1].token_type == TokenType.STAR
        if depth < 0 or (depth == 0 and (kind in _ENDS or (kind == TokenType.EXCEPT and not after_star))):
            break
        if depth == 0 and kind == TokenType.COMMA:
            items.append([])
        else:
            items[-1].append(tokens[n])
    return [item for item in items if item]


def _name_item(item: Sequence[Token]) -> str:
    """Return what a column is called, in lower case: its alias, or the last part of its name."""
    return item[-1].text.lower()
