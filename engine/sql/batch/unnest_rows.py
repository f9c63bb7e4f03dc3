"""UNNEST in FROM as Spark's table functions, which keep the side and the condition of their join and count from 1.

The printer's own form is LATERAL VIEW, before all of which every join is done: it forgets LEFT and ON, counts WITH ORDINALITY
from 0, and drops rows that a later outer join adds. So LATERAL VIEW stays, which costs Spark no join, where nothing of that is.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.parsing.location import copy_location

_PLACES = "if({longest} > 0, `sequence`(CAST(1 AS BIGINT), CAST({longest} AS BIGINT)), CAST(array() AS ARRAY<BIGINT>))"


def rewrite_unnest(tree: exp.Expr) -> exp.Expr:
    """Return the tree with each UNNEST of FROM as a call of EXPLODE or INLINE.

    `t LEFT JOIN UNNEST(a) AS u(x) ON TRUE` -> `t LATERAL VIEW OUTER EXPLODE(a) u AS x`; `UNNEST(a) WITH ORDINALITY AS u(x, o)` ->
    `INLINE(ARRAYS_ZIP(a, SEQUENCE(1, size(a)))) AS u(x, o)`.
    """
    for select in list(tree.find_all(exp.Select)):
        from_ = select.args.get("from_")
        if from_ is not None and (first := _find_unnest(from_.this)) is not None:
            call, alias = _build_call(first, from_.this)
            from_.set("this", copy_location(exp.Table(this=call, alias=alias), first))
        joins = list(select.args.get("joins") or ())
        for n, join in enumerate(joins):
            if (unnest := _find_unnest(join.this)) is None:
                continue
            call, alias = _build_call(unnest, join.this)
            last = all(_find_unnest(later.this) is not None and _is_plain(later) for later in joins[n:])
            if last:
                outer = join.args.get("side") == "LEFT"
                select.append("laterals", exp.Lateral(this=call, view=True, outer=outer, alias=alias))
            else:
                join.set("this", copy_location(exp.Lateral(this=call, alias=alias), unnest))
        select.set("joins", [join for join in joins if _find_unnest(join.this) is None])
    return tree


def _find_unnest(source: exp.Expr) -> exp.Unnest | None:
    inner = source.this if isinstance(source, exp.Lateral) else source
    return inner if isinstance(inner, exp.Unnest) else None


def _is_plain(join: exp.Join) -> bool:
    on = join.args.get("on")
    others = (
        join.args.get("using") or join.args.get("method") or join.args.get("side") not in (None, "", "LEFT")
    )
    return not others and (on is None or (isinstance(on, exp.Boolean) and bool(on.this)))


def _build_call(unnest: exp.Unnest, source: exp.Expr) -> tuple[exp.Expr, exp.TableAlias]:
    """Return the call that gives the rows, and their name with those of their columns."""
    alias = (source.args.get("alias") or unnest.args.get("alias") or exp.TableAlias()).copy()
    if alias.this is None:
        alias.set("this", exp.to_identifier("unnest"))
    names = list(alias.args.get("columns") or ())
    if not names and len(unnest.expressions) == 1:
        names = [alias.this.copy()]
    offset, arrays = unnest.args.get("offset"), list(unnest.expressions)
    if len(arrays) == 1 and not offset:
        alias.set("columns", names)
        return exp.Explode(this=arrays[0].copy()), alias
    whole = [
        array.copy() if isinstance(array, exp.Coalesce) else fill_tree("coalesce(_p0, array())", array)
        for array in arrays
    ]
    if offset:
        sizes = [f"size(_p{n})" for n in range(len(arrays))]
        longest = sizes[0] if len(sizes) == 1 else f"greatest({', '.join(sizes)})"
        whole.append(fill_tree(_PLACES.format(longest=longest), *whole))
        if len(names) == len(arrays):
            names.append(
                offset.copy() if isinstance(offset, exp.Identifier) else exp.to_identifier("ordinality")
            )
    alias.set("columns", names)
    return exp.Inline(this=exp.Anonymous(this="arrays_zip", expressions=whole)), alias
