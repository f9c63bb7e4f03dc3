"""The commands that answer about rows of a view: `why`, `why-not`, `diff` and `blame`."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.connections import open_session, open_store
from engine.cli.options import At, Key, Output, Spark, Store, Wide
from engine.cli.printing import Format, PrintingCommand


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of `tideline`."""
    for command in (why, why_not, diff, blame):
        app.command(command.__name__.replace("_", "-"), cls=PrintingCommand)(command)


def why(
    view: Annotated[str, typer.Argument(help="A materialized view.")],
    key: Key = None,
    at: At = "",
    store: Store = "",
    output: Output = Format.table,
    spark: Spark = "",
) -> None:
    """Show why a row of a view is there: the rows of tables that make it, through all operators and views between."""
    from engine.cli.answers.row_origin import print_origin
    from engine.runtime.answers.asked_row import parse_key

    with open_session(store, spark) as running:
        relation = running.catalog.get(view)
        origin = running.why(relation.name, parse_key(relation, key or ()), at or None)
    print_origin(origin, output)


def why_not(
    view: Annotated[str, typer.Argument(help="A materialized view.")],
    key: Key = None,
    at: At = "",
    store: Store = "",
    output: Output = Format.table,
    spark: Spark = "",
) -> None:
    """Show why a row of a view is not there: the condition or the missing partner that keeps it out, and by what values."""
    from engine.cli.answers.row_origin import print_absence
    from engine.runtime.answers.asked_row import parse_key

    with open_session(store, spark) as running:
        relation = running.catalog.get(view)
        absence = running.why_not(relation.name, parse_key(relation, key or ()), at or None)
    print_absence(absence, output)


def diff(
    view: Annotated[str, typer.Argument(help="A table or a materialized view.")],
    moments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A [B]",
            help="An epoch, a time (UTC), or now() - INTERVAL '10' MINUTE; and the later one, none: now.",
        ),
    ] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="What the view's next query would change, before it takes over.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Print so many changed rows at most.")] = 20,
    store: Store = "",
    output: Output = Format.table,
) -> None:
    """Show what changed in a table or view between two moments: counts, and the rows with what they were before."""
    from engine.cli.answers.row_changes import print_diff
    from engine.runtime.answers.diff import compare_moments, compare_queries

    named = moments or []
    if pending is bool(named) or len(named) > 2:
        raise typer.BadParameter("name one moment or two, or ask for what is --pending")
    with open_store(store) as found:
        if pending:
            print_diff(compare_queries(found, view, limit=rows), output)
        else:
            first, last = [*named, None][:2]
            assert first is not None
            print_diff(compare_moments(found, view, (first, last), limit=rows), output)


def blame(
    view: Annotated[str, typer.Argument(help="A table or a materialized view.")],
    key: Key = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Print so many changes at most.")] = 20,
    store: Store = "",
    output: Output = Format.table,
    wide: Wide = False,
) -> None:
    """Show in which epochs a row changed, newest first, from what to what, and who committed them."""
    from engine.cli.answers.row_changes import print_history
    from engine.meta.catalog.stored_catalog import load_catalog
    from engine.runtime.answers.asked_row import parse_key
    from engine.runtime.answers.blame import list_row_changes

    with open_store(store) as found:
        relation = load_catalog(found.version).catalog.get(view)
        history = list_row_changes(found, relation.name, parse_key(relation, key or ()))
    print_history(history, output, rows=rows, wide=wide)
