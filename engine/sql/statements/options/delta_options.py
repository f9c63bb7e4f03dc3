"""WITH (connector = 'delta', …) of a materialized view: the options of the Delta table that is kept beside it.

Words that the view has too, `partition_by` and `retention`, are the view's; the table's are `delta.partition_by` and
`delta.retention`.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.statements.options.view_options import VIEW_OPTIONS

CONNECTOR = "connector"
COPY_OPTIONS: Mapping[str, str] = {
    CONNECTOR: "'delta': a Delta table is kept equal to the view, by a sink that is created and dropped with it",
    "path": "the folder of the table; a relative one starts at TIDELINE_HOME",
    "url": "instead of path: file:///folder or s3a://bucket/prefix",
    "cluster_by": "columns by which OPTIMIZE lays rows close together (liquid clustering), as 'a, b'",
    "delta.partition_by": "columns by whose values the files lie in folders, as 'a, b'; not with cluster_by",
    "delta.retention": "how long the table, failing or paused, may hold the view's log, such as '2 days'; 7 days without it",
}
"""The options by name; `docs/reference.md` is made of this table."""


def split_options(
    options: Mapping[str, str], places: Mapping[str, int], sql: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of a view, and those of its Delta table, none if it is to have none.

    Raises UnsupportedSql, with the place, for one that neither has.
    """
    if CONNECTOR not in options:
        for name in (option for option in options if option in COPY_OPTIONS):
            hint = "connector = 'delta' keeps a Delta table of the view"
            raise unsupported_error_at(f"option {name} needs a connector", sql, places.get(name, 0), hint)
        return dict(options), {}
    if options[CONNECTOR].lower() != "delta":
        hint = "connector = 'delta' keeps a Delta table equal to the view; CREATE SINK … FROM it brings its changes elsewhere"
        message = f"a materialized view has no connector {options[CONNECTOR]}"
        raise unsupported_error_at(message, sql, places.get(CONNECTOR, 0), hint)
    own: dict[str, str] = {}
    copy: dict[str, str] = {}
    for name, value in options.items():
        (copy if name in COPY_OPTIONS else own)[name] = value
        if name not in COPY_OPTIONS and name not in VIEW_OPTIONS:
            hint = (
                f"options of the table are {', '.join(COPY_OPTIONS)}, of the view {', '.join(VIEW_OPTIONS)}; "
                "CREATE SINK … FROM the view takes all that a sink has"
            )
            message = f"neither a materialized view nor its Delta table has an option {name}"
            raise unsupported_error_at(message, sql, places.get(name, 0), hint)
    return own, {**copy, CONNECTOR: "delta"}


def check_option_places(elsewhere: Mapping[str, str], places: Mapping[str, int], sql: str) -> None:
    """Raise UnsupportedSql, with the place, for an option of a Delta table that stands elsewhere than in WITH."""
    for name in (option for option in elsewhere if option in COPY_OPTIONS):
        hint = "WITH (connector = 'delta', path = 'folder') behind the view's name keeps a Delta table of it"
        raise unsupported_error_at(
            f"the {name} of a view's Delta table belongs to WITH", sql, places[name], hint
        )


def to_sink_option(name: str) -> str:
    """Return what an option of a view's Delta table is called where it is one of CREATE SINK."""
    return name.removeprefix("delta.")
