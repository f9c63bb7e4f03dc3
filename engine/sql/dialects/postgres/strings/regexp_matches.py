"""regexp_matches of PostgreSQL as an array: of each match the texts of its groups; regexp_match is the first of them."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable

_HINT = "regexp_matches(text, 'pattern'), with the flags g (all matches) and i (in any case)"


def extract_matches(arguments: list[exp.Expr]) -> exp.Expr:
    """Return `transform(regexp_extract_all(s, 'a(.)', 1), _m -> array(_m))` for a call with the flag g, else its first match.

    Raises NotSaid for a pattern or flags that are not written out.
    """
    if len(arguments) not in (2, 3):
        raise Untranslatable(f"regexp_matches with {len(arguments)} values", _HINT)
    text, *options = arguments
    words = [part.name for part in options if isinstance(part, exp.Literal) and part.is_string]
    if len(words) < len(options):
        raise Untranslatable("regexp_matches with a pattern or flags that are not written out", _HINT)
    pattern, flags = words[0], words[1] if len(words) > 1 else ""
    if set(flags) - set("gi"):
        raise Untranslatable(f"regexp_matches with the flags {flags}", _HINT)
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise Untranslatable(f"a pattern that cannot be read ({error})", "look at its parentheses") from error
    said = exp.Literal.string(("(?i)" if "i" in flags else "") + pattern)
    numbers = range(1, groups + 1) if groups else range(1)
    if "g" not in flags:
        first = _build_call("array", *(_build_call("regexp_extract", text, said, n) for n in numbers))
        hit = exp.RegexpLike(this=text.copy(), expression=said.copy())
        return _build_call("filter", _build_call("array", first), _build_lambda(exp.Paren(this=hit)))
    every = [_build_call("regexp_extract_all", text, said, n) for n in numbers]
    if len(every) == 1:
        return _build_call("transform", every[0], _build_lambda(_build_call("array", exp.column("_m"))))
    parts = [exp.column(exp.to_identifier(str(n), quoted=True), table="_m") for n in range(groups)]
    return _build_call(
        "transform", _build_call("arrays_zip", *every), _build_lambda(_build_call("array", *parts))
    )


def extract_match(arguments: list[exp.Expr]) -> exp.Expr:
    """Return the array of a first match's groups, null where there is none; raises NotSaid as `matches` does."""
    if len(arguments) == 3 and "g" in arguments[2].name:
        raise Untranslatable("regexp_match with the flag g", "write regexp_matches, which gives all matches")
    return _build_call("get", extract_matches(arguments), 0)


def _build_lambda(body: exp.Expr) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier("_m")])


def _build_call(name: str, *arguments: exp.Expr | int) -> exp.Anonymous:
    parts = (exp.Literal.number(part) if isinstance(part, int) else part.copy() for part in arguments)
    return exp.Anonymous(this=name, expressions=list(parts))
