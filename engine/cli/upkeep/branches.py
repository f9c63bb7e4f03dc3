"""`tideline branch`: branches of a store, which share its files and follow nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.connections import open_store
from engine.cli.layout import TextColumn, format_ago
from engine.cli.options import Output, Store
from engine.cli.printing import Format, PrintingCommand, print_listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.cli.listings.status import Listing
    from engine.hummock.branches import Branch

branches = typer.Typer(
    no_args_is_help=True, help="Branches of a store: they share its files, and follow nothing."
)
Name = Annotated[str, typer.Argument(help="The branch's name.")]


@branches.command("create")
def create_branch(name: Name, store: Store = "") -> None:
    """Begin a branch with all that is committed, at once and without a copy."""
    from engine.hummock.object_store.branch import find_branch_place, split_branch_url

    with open_store(store) as found:
        branch = found.create_branch(name)
    path = "/".join(step.name for step in split_branch_url(f"/{find_branch_place(branch.url)}")[1])
    typer.echo(f"branch {name}: {branch.url}; TIDELINE_BRANCH={path} works on it")


@branches.command("list", cls=PrintingCommand)
def list_branches(store: Store = "", output: Output = Format.table) -> None:
    """Show the branches of the store, and since when they are there."""
    with open_store(store) as found:
        listing = _build_listing(found.list_branches(), time.time())
    print_listing(listing, output)


@branches.command("drop")
def drop_branch(name: Name, store: Store = "") -> None:
    """End a branch and delete what it has written; run it again after a crash. The store's rows stay as they are."""
    with open_store(store) as found:
        count = found.drop_branch(name)
    typer.echo(
        f"branch {name} is dropped: {count:,} files were deleted, the store keeps none for it any more"
    )


def _build_listing(found: Sequence[Branch], now: float) -> Listing:
    from engine.cli.listings.status import Listing

    since = [datetime.fromtimestamp(branch.since, UTC).strftime("%Y-%m-%d %H:%M:%S") for branch in found]
    columns = (
        TextColumn("name", [branch.name for branch in found]),
        TextColumn("since (UTC)", since),
        TextColumn("age", [format_ago(now - branch.since) for branch in found], right=True),
        TextColumn("address", [branch.url for branch in found]),
    )
    records = [
        {"name": b.name, "epoch": b.point.epoch, "manifest": b.point.number, "address": b.url} for b in found
    ]
    return Listing(columns, [""] * len(found), records, "no branches")
