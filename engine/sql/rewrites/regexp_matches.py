"""regexp_matches of PostgreSQL: the matches of a pattern, one a row, each an array of its groups."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.position import copy_place
from engine.sql.refusals import mistake, unsupported

_HINT = "regexp_matches(text, 'pattern'), with the flags g (all matches) and i (in any case)"


def regexp_matches(tree: exp.Expr, sql: str) -> exp.Expr:
    """`regexp_matches(s, 'a(.)', 'g')` -> `EXPLODE(TRANSFORM(REGEXP_EXTRACT_ALL(s, 'a(.)', 1), _m -> ARRAY(_m)))`

    `unnest(regexp_matches(…))` gives the groups of all matches one after the other. Raises SqlError with the place for a pattern
    or flags that are not written out.
    """
    for node in [part for part in tree.find_all(exp.Anonymous) if part.name.lower() == "regexp_matches"]:
        found = _matches(node, sql)
        outer = node.parent
        if isinstance(outer, exp.Explode) or (isinstance(outer, exp.Unnest) and len(outer.expressions) == 1):
            node.replace(copy_place(_call("flatten", found), node))
        elif isinstance(outer, exp.Select):
            rows = copy_place(exp.Explode(this=found), node)
            node.replace(exp.alias_(rows, "regexp_matches", copy=False))
        else:
            node.replace(copy_place(exp.Explode(this=found), node))
    return tree


def _matches(node: exp.Anonymous, sql: str) -> exp.Expr:
    """Return the array of matches that a call gives, each an array of texts."""
    if len(node.expressions) not in (2, 3):
        raise mistake(
            f"regexp_matches takes 2 or 3 values, {len(node.expressions)} are given", node, sql, _HINT
        )
    text, *written = node.expressions
    words = [part.name if isinstance(part, exp.Literal) and part.is_string else None for part in written]
    if None in words:
        raise unsupported("a pattern or flags that are not written out", node, sql, _HINT)
    pattern, flags = str(words[0]), str(words[1]) if len(words) > 1 else ""
    if set(flags) - set("gi"):
        raise unsupported(f"regexp_matches with the flags {flags}", node, sql, _HINT)
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise mistake(f"the pattern cannot be read: {error}", node, sql, "look at its parentheses") from error
    said = exp.Literal.string(("(?i)" if "i" in flags else "") + pattern)
    if "g" not in flags:  # the first match alone
        first = [_call("regexp_extract", text, said, n) for n in range(1, groups + 1)] or [
            _call("regexp_extract", text, said, 0)
        ]
        hit = exp.RegexpLike(this=text.copy(), expression=said.copy())
        return _call("filter", _call("array", _call("array", *first)), _lambda(exp.Paren(this=hit)))
    every = [_call("regexp_extract_all", text, said, n) for n in range(1, groups + 1)] or [
        _call("regexp_extract_all", text, said, 0)
    ]
    if len(every) == 1:
        return _call("transform", every[0], _lambda(_call("array", exp.column("_m"))))
    zipped = _call("arrays_zip", *every)
    parts = [exp.column(exp.to_identifier(str(n), quoted=True), table="_m") for n in range(groups)]
    return _call("transform", zipped, _lambda(_call("array", *parts)))


def _lambda(body: exp.Expr) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier("_m")])


def _call(name: str, *arguments: exp.Expr | int) -> exp.Anonymous:
    parts = (exp.Literal.number(part) if isinstance(part, int) else part.copy() for part in arguments)
    return exp.Anonymous(this=name, expressions=list(parts))
