"""A branch's objects: its own are below its place, others are read and never changed."""

from __future__ import annotations

import pytest

from engine.errors import StorageError
from engine.hummock.object_store.branch import (
    BranchObjectStore,
    BranchStep,
    add_branch,
    cut_place,
    find_branch_place,
    find_root_url,
    split_branch_url,
)
from engine.testing.memory import MemoryObjectStore

PLACE = f"branch/try/{7:020d}/"


def test_manifests_are_the_branchs_and_files_have_their_whole_names() -> None:
    root = MemoryObjectStore()
    branch = BranchObjectStore(root, PLACE)
    root.put("sst/a", b"1")
    assert branch.put_if_absent("manifest/1", b"m") and branch.get("sst/a") == b"1"
    branch.put(f"{PLACE}sst/b", b"2")
    assert [info.path for info in root.list("")] == [f"{PLACE}manifest/1", f"{PLACE}sst/b", "sst/a"]
    assert [info.path for info in branch.list("manifest/")] == ["manifest/1"]
    assert [info.path for info in branch.list("manifest/", "manifest/1")] == []
    assert [info.path for info in branch.list(f"{PLACE}sst/")] == [f"{PLACE}sst/b"]
    assert branch.get_range(f"{PLACE}sst/b", 0, 1) == b"2"
    assert branch.head("manifest/1").path == "manifest/1"  # type: ignore[union-attr]
    for change in (lambda: branch.delete(["sst/a"]), lambda: branch.put("sst/c", b"")):
        with pytest.raises(StorageError, match="it changes its own only"):
            change()
    branch.delete([f"{PLACE}sst/b", "manifest/1"])
    assert [info.path for info in root.list("")] == ["sst/a"]


@pytest.mark.parametrize(
    ("url", "root", "steps", "place"),
    [
        ("s3://b/p", "s3://b/p", (), ""),
        ("s3://b/branch", "s3://b/branch", (), ""),
        ("s3://b/p/branch/x", "s3://b/p", (BranchStep("x", None),), ""),
        ("s3://b/p/branch/x/", "s3://b/p", (BranchStep("x", None),), ""),
        (f"s3://b/p/branch/x/{3:020d}", "s3://b/p", (BranchStep("x", 3),), f"branch/x/{3:020d}/"),
        (
            f"s3://b/p/branch/x/{3:020d}/branch/y",
            "s3://b/p",
            (BranchStep("x", 3), BranchStep("y", None)),
            "",
        ),
        ("s3://b/branch/x/manifest", "s3://b/branch/x/manifest", (), ""),
    ],
)
def test_an_address_says_root_and_branches(
    url: str, root: str, steps: tuple[BranchStep, ...], place: str
) -> None:
    assert split_branch_url(url) == (root, steps)
    assert find_branch_place(url) == place
    assert find_root_url(url) == (root if place else url)


def test_a_branch_is_added_to_an_address_once() -> None:
    assert add_branch("s3://b/p", "") == "s3://b/p"
    assert add_branch("s3://b/p/", "x") == add_branch("s3://b/p/branch/x", "x") == "s3://b/p/branch/x"
    assert add_branch("s3://b/p", "x/y") == "s3://b/p/branch/x/branch/y"
    open_one = f"s3://b/p/branch/x/{3:020d}"
    assert add_branch(open_one, "x") == open_one
    with pytest.raises(StorageError, match='"é" in "x/é" is no name of a branch'):
        add_branch("s3://b/p", "x/é")


def test_the_place_of_an_object_is_known_by_its_form() -> None:
    assert cut_place(f"{PLACE}sst/a", "branch/") == PLACE
    assert cut_place(f"{PLACE}branch/deep/{1:020d}/sst/a", "branch/") == PLACE
    assert cut_place("branch/try/manifest/00000000000000000001", "branch/") == ""
    assert cut_place("sst/a", "branch/") == ""
