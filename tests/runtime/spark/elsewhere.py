"""A Spark of this process that passes for one of other machines; `tests/cluster` has real ones."""

from __future__ import annotations

import pytest

from engine.runtime.spark import shared_folders


def apart_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks be asked what they see, as those of another machine are."""
    monkeypatch.setattr(shared_folders, "is_local", lambda _: False)


def on_another_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no task find a file as it is here."""
    apart_from_here(monkeypatch)
    monkeypatch.setattr(
        shared_folders, "compute_file_digest", lambda _: "another file"
    )  # in this process alone
