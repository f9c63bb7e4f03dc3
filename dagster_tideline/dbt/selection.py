"""Which nodes of a dbt project are taken: `select` and `exclude` by names, `tag:`, `path:` and `+`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from dagster_tideline.dbt.manifest import DbtNode, ManifestError

_TERM = re.compile(r"(\d*\+)?(.+?)(\+\d*)?")
_METHODS = ("tag", "path", "fqn", "package", "resource_type", "config.materialized")
_FORM = "write names of models, tag:NAME, path:FOLDER, package:NAME, + before or behind one, blanks for or, commas for and"


def select_nodes(nodes: Mapping[str, DbtNode], select: Sequence[str], exclude: Sequence[str]) -> set[str]:
    """Return the unique ids that are selected, all without a selection; raises ManifestError for a word that is not known.

    Texts of `select` are united, and so are words between blanks; words between commas have all to fit.
    """
    chosen = set(nodes) if not select else _select_all(nodes, select, "select")
    return chosen - (_select_all(nodes, exclude, "exclude") if exclude else set())


def _select_all(nodes: Mapping[str, DbtNode], texts: Iterable[str], word: str) -> set[str]:
    found: set[str] = set()
    for text in texts:
        for part in text.split():
            sets = [_select_term(nodes, term, word) for term in part.split(",") if term]
            chosen = set.intersection(*sets) if sets else set()
            if not chosen and word == "select":
                raise ManifestError(f"{word}: {part} selects nothing of the manifest: {_FORM}")
            found |= chosen
    return found


def _select_term(nodes: Mapping[str, DbtNode], term: str, word: str) -> set[str]:
    match = _TERM.fullmatch(term)
    if match is None or match[2].startswith("@"):
        raise ManifestError(f"{word}: {term} is not read: {_FORM}")
    method, colon, value = match[2].rpartition(":")
    if colon and method not in _METHODS:
        raise ManifestError(f"{word}: {method}: is not read: {_FORM}")
    found = {key for key, node in nodes.items() if _fits(node, method, value)}
    reads = {key: [name for name in node.depends_on if name in nodes] for key, node in nodes.items()}
    if match[1]:
        found |= _walk(found, reads, match[1].rstrip("+"))
    if match[3]:
        readers: dict[str, list[str]] = {key: [] for key in nodes}
        for key, names in reads.items():
            for name in names:
                readers[name].append(key)
        found |= _walk(found, readers, match[3].lstrip("+"))
    return found


def _fits(node: DbtNode, method: str, value: str) -> bool:
    match method:
        case "tag":
            return any(fnmatch.fnmatchcase(tag, value) for tag in node.tags)
        case "path":
            folder = value.strip("/")
            return node.path.startswith(f"{folder}/") or fnmatch.fnmatchcase(node.path, folder)
        case "package":
            return fnmatch.fnmatchcase(node.package, value)
        case "resource_type":
            return node.kind == value
        case "config.materialized":
            return node.materialized == value
    parts, wanted = list(node.fqn), value.split(".")
    names = [parts, parts[1:]] if len(wanted) > 1 else [[node.name]]
    at_start = [list(one[: len(wanted)]) for one in (parts, parts[1:])]
    return any(
        len(one) == len(wanted) and all(map(fnmatch.fnmatchcase, one, wanted)) for one in (*names, *at_start)
    )


def _walk(start: set[str], edges: Mapping[str, Sequence[str]], depth: str) -> set[str]:
    """Return what is reached from nodes in some steps, in any number of them without one."""
    found, newest = set[str](), start
    steps = int(depth) if depth else len(edges)
    while newest and steps:
        newest = {name for key in newest for name in edges[key]} - found
        found |= newest
        steps -= 1
    return found
