"""The process that has loaded a project's definitions, for Dagster: it is not started again by itself when it is gone."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.request import Request, urlopen

ANSWER_SECONDS = 30.0
GONE = "DagsterUserCodeUnreachableError"
LOCATIONS = """
query Locations { workspaceOrError { ... on Workspace { locationEntries {
  name locationOrLoadError { ... on PythonError { message } } } } } }
"""
RELOAD = "mutation Reload($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"


def start_lost_code(page: str) -> list[str]:
    """Have Dagster, whose page is at this address, load those definitions again whose process is gone; return their names.

    Definitions that cannot be loaded are left alone: the page shows their error. So is a page that does not answer.
    """
    try:
        found = _send_query(page, LOCATIONS)["workspaceOrError"].get("locationEntries", ())
        lost = [
            entry["name"]
            for entry in found
            if GONE in ((entry["locationOrLoadError"] or {}).get("message") or "")
        ]
        for name in lost:
            _send_query(page, RELOAD, name=name)
    except (OSError, HTTPException, ValueError):
        return []
    return lost


def _send_query(page: str, query: str, **variables: str) -> dict[str, Any]:
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = Request(f"{page}/graphql", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=ANSWER_SECONDS) as answer:
        return dict(json.load(answer).get("data") or {"workspaceOrError": {}})
